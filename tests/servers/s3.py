"""An S3 server on loopback: moto, installed by pip into the cache, not into the test environment."""

import contextlib
import functools
import http.client
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from tests.servers import jars
from tests.servers.jars import ServersUnavailable
from tests.servers.ports import free_ports
from tests.servers.processes import HANG_SECONDS, Child, ScratchFolder

PINS: Final = ("moto[server]==5.2.5", "werkzeug==3.1.9", "boto3==1.44.5", "flask==3.1.3")
"""moto and its dependencies, independent of the project's."""

START_SECONDS: Final = 240.0
KEY: Final = "a-key"


def installed() -> Path:
    """Return the folder with moto and its dependencies.

    Raises:
        ServersUnavailable: pip cannot install it.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return jars.cached(f"moto-{jars.digest(version, *PINS)}", _install)


def _install(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        str(folder),
        *PINS,
    ]
    try:
        _ = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=HANG_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = getattr(error, "stderr", "") or str(error)
        raise ServersUnavailable(f"moto cannot be installed: {message[-300:]}") from error


ONE_AT_A_TIME: Final = """
import sys, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

application, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()


def answer(environment, start_response):
    with turn:
        return [b"".join(application(environment, start_response))]


run_simple("127.0.0.1", int(sys.argv[1]), answer, threaded=True)
"""
"""The server: moto compares the condition of a put and stores the object in two steps, so requests take turns."""


class S3Server:
    """A server with one empty bucket."""

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket
        self._scratch = ScratchFolder.make("s3-")
        (self.port,) = free_ports(1)
        self._child = Child(
            [sys.executable, "-c", ONE_AT_A_TIME, str(self.port)],
            log=self._scratch.path / "log",
            environment={"PYTHONPATH": str(installed())},
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for clients."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": "a-secret",
        }

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        ask = functools.partial(self._ask, "PUT", f"/{self.bucket}")
        while not self._child.ended_within(0.1):
            with contextlib.suppress(OSError, http.client.HTTPException):
                if ask() == 200:
                    return
            if time.monotonic() > deadline:
                break
        raise AssertionError(f"moto does not respond:\n{self._child.log_text()[-2000:]}")

    def _ask(self, method: str, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path)
            return connection.getresponse().status

    def close(self) -> None:
        self._child.kill()
        self._scratch.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
