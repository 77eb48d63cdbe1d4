"""Prometheus, Alertmanager and promtool from pinned Debian packages, unpacked into the cache without installation.

Both servers listen on loopback, keep their data in a temporary folder and end with the test run (`processes.Child`).
"""

import contextlib
import functools
import hashlib
import http.client
import json
import shutil
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.servers import jars
from tests.servers.jars import ServersUnavailable
from tests.servers.ports import free_ports
from tests.servers.processes import HANG_SECONDS, Child, ScratchFolder

START_SECONDS = 240.0
PAUSE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One binary package of Debian 12 for amd64."""

    name: str
    version: str
    sha256: str
    fallback: str  # the program to look for on PATH without apt-get
    fixed: str = ""  # absolute path of a folder that is compiled into its program


PROMETHEUS = Package(
    name="prometheus",
    version="2.42.0+ds-5+deb12u1",
    sha256="81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55",
    fallback="promtool",
)
ALERTMANAGER = Package(
    name="prometheus-alertmanager",
    version="0.25.0-1+b4",
    sha256="4fb9aed15cfe8e0c32408e643ab32a1e41ee87d2cc26f18aeba928b1b0b98ae7",
    fallback="prometheus-alertmanager",
    fixed="/usr/share/prometheus/alertmanager",
)


class CheckFailed(AssertionError):
    """promtool or amtool reported an error; the message is its output."""


# ---- programs -----------------------------------------------------------------------------------


def folder(package: Package) -> Path:
    """Return the folder with the package's programs.

    Raises:
        ServersUnavailable: The package cannot be downloaded, and the program is not installed.
    """
    name = f"{package.name}-{package.version}-{jars.digest(package.sha256, package.fixed)}"
    try:
        return jars.cached(name, functools.partial(_unpack, package)) / "usr" / "bin"
    except ServersUnavailable as unavailable:
        installed = shutil.which(package.fallback)
        if installed is None:
            raise ServersUnavailable(
                f"`{package.fallback}` was not found: install {package.name}. {unavailable}"
            ) from unavailable
        return Path(installed).parent


def promtool(*arguments: str, stdin: str = "") -> str:
    """Run `promtool`; return its output.

    Raises:
        CheckFailed: It did not exit with 0; the message is its output.
    """
    return _checked([str(folder(PROMETHEUS) / "promtool"), *arguments], stdin)


def amtool(*arguments: str) -> str:
    """Run `amtool`; otherwise like `promtool`."""
    return _checked([str(folder(ALERTMANAGER) / "amtool"), *arguments], "")


def _checked(command: Sequence[str], stdin: str) -> str:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    stdout = done.stdout + done.stderr
    if done.returncode != 0:
        raise CheckFailed(stdout)
    return stdout


def _unpack(package: Package, into: Path) -> None:
    apt = jars.program("apt-get", package.name)
    unpacker = jars.program("dpkg-deb", package.name)
    with ScratchFolder.make("debian-") as scratch:
        _run([apt, "download", "-qq", f"{package.name}={package.version}"], inside=scratch)
        (file,) = scratch.glob("*.deb")
        check(file, package.sha256)
        _run([unpacker, "-x", str(file), str(into)], inside=scratch)
    if package.fixed:
        for program in (into / "usr" / "bin").iterdir():
            program.write_bytes(relocated(program.read_bytes(), package.fixed))


def relocated(program: bytes, fixed: str) -> bytes:
    """Return the program with a compiled-in absolute path replaced by a path relative to its working directory.

    Its templates would otherwise have to be installed. Go strings have a fixed length, so the new path has the same
    length: `/usr/share/a` becomes `usr/share//a`.
    """
    parent, _, last = fixed[1:].rpartition("/")
    return program.replace(fixed.encode(), f"{parent}//{last}".encode())


def check(file: Path, sha256: str) -> None:
    """Check the digest of a download, or raise ServersUnavailable."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != sha256:
        raise ServersUnavailable(f"{file.name} has the SHA-256 {digest}, and {sha256} is pinned.")


def _run(command: Sequence[str], *, inside: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=inside, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
        )
    except subprocess.TimeoutExpired as late:
        raise ServersUnavailable(f"{command[0]} did not end in time") from late
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise ServersUnavailable(f"{Path(command[0]).name}: {reason[0]} (try `apt-get update`)")


# ---- servers ------------------------------------------------------------------------------------


class Server:
    """A running server with an HTTP API, as a context manager."""

    def __init__(self, name: str, command: Callable[[Path, int], Sequence[str]]) -> None:
        """Start the server; entering the context waits until it is ready."""
        self._name = name
        self._scratch = ScratchFolder.make(f"{name}-")
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        words = command(self._scratch.path, self.port)
        self._child = Child(words, log=self._scratch.path / "log")

    def __enter__(self) -> Self:
        """Wait until `/-/ready` succeeds."""
        try:
            until(
                self._ready, seconds=START_SECONDS, doing=f"starting {self._name}", details=self.log
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server and remove its data."""
        self._child.kill()
        self._scratch.remove()

    def log(self) -> str:
        """Return the end of the log."""
        return self._child.log_text()[-3000:]

    def get(self, path: str, **query: str) -> Any:
        """Return the JSON response to a GET request."""
        status, body = self._answer(f"{path}?{urllib.parse.urlencode(query)}")
        if status != 200:
            raise AssertionError(f"{self._name} answers {status} to {path}: {body[:300]!r}")
        return json.loads(body)

    def _ready(self) -> bool:
        if not self._child.running:
            raise AssertionError(f"{self._name} ended: {self.log()}")
        try:
            return self._answer("/-/ready")[0] == 200
        except OSError:
            return False

    def _answer(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()


class Prometheus(Server):
    """A Prometheus with one configuration; JSON is YAML, so the configuration is a mapping."""

    def __init__(self, configuration: Mapping[str, object]) -> None:

        def command(scratch: Path, port: int) -> Sequence[str]:
            file = scratch / "prometheus.yml"
            file.write_text(json.dumps(configuration), encoding="utf-8")
            return [
                str(folder(PROMETHEUS) / "prometheus"),
                f"--config.file={file}",
                f"--storage.tsdb.path={scratch / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ]

        super().__init__("prometheus", command)

    def values(self, query: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the result of an instant query: sorted labels -> value."""
        result = self.get("/api/v1/query", query=query)["data"]["result"]
        return {
            tuple(sorted(sample["metric"].items())): float(sample["value"][1]) for sample in result
        }

    def firing(self) -> set[str]:
        """Return the names of the firing alerts."""
        alerts = self.get("/api/v1/alerts")["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


class Alertmanager(Server):
    """An Alertmanager with one configuration."""

    def __init__(self, configuration: Mapping[str, object]) -> None:

        def command(scratch: Path, port: int) -> Sequence[str]:
            file = scratch / "alertmanager.yml"
            file.write_text(json.dumps(configuration), encoding="utf-8")
            programs = folder(ALERTMANAGER)
            return [
                "env",
                "-C",
                str(programs.parents[1]),
                str(programs / "prometheus-alertmanager"),
                f"--config.file={file}",
                f"--storage.path={scratch / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--cluster.listen-address=",
                "--log.level=warn",
            ]

        super().__init__("alertmanager", command)


def until(
    true: Callable[[], object], *, seconds: float, doing: str, details: Callable[[], str] = str
) -> float:
    """Poll until `true()` is true; return the seconds that it took.

    Raises:
        AssertionError: It was not true within `seconds`; the message contains `doing` and `details()`.
    """
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"{doing}: not within {seconds:.0f} s. {details()}")
        threading.Event().wait(PAUSE)
    return time.monotonic() - began
