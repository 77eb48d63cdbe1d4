"""`kquota watch` as a process, over a repository to which the test commits."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.cli.projects import CLUSTER, PROJECT
from tests.git.commits import commit, repository
from tests.servers.processes import HANG_SECONDS

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "CI"} | {
    "PYTHONPATH": str(Path(__file__).parents[2])
}
SERVED = "metrics and probes on 127.0.0.1:"


def until(claim: Callable[[], object], what: Callable[[], str] = str) -> None:
    """Poll until a deadline; a timeout shows `what`."""
    deadline = time.monotonic() + HANG_SECONDS
    while not claim():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)  # another process has no event to wait for


class Watched:
    """A repository with a project of one cluster."""

    def __init__(self, folder: Path, bootstrap: str, more: str = "") -> None:
        self.top = repository(folder / "origin")
        self.settings = PROJECT + "---\n" + CLUSTER.format(name="prod", bootstrap=bootstrap) + more

    def commit(self, *documents: str) -> str:
        return commit(
            self.top, {"kquota.yaml": self.settings, "quotas/all.yaml": "".join(documents)}
        )


class Watch:
    """The process, which ends with its context."""

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
        self.folder, self.environment = folder, ENVIRONMENT | environment
        self.state = folder / "state"
        self.words = [
            *(sys.executable, "-m", "reconciler", "watch"),
            *(words or (str(folder / "origin"), "--interval", "1s")),
            *("--state-dir", str(self.state), "--metrics-address", "127.0.0.1:0"),
        ]
        self.runs = 0
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.runs += 1
        with self._file().open("wb") as err:
            self.process = subprocess.Popen(
                self.words, cwd=self.folder, env=self.environment, stdout=err, stderr=err
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(HANG_SECONDS)

    def _file(self) -> Path:
        return self.folder / f"watch-{self.runs}.log"

    @property
    def log(self) -> str:
        """The log of this process."""
        return self._file().read_text(errors="replace")

    def wait_for_log(self, words: str, times: int = 1) -> None:
        """Wait until the log contains the text."""
        until(lambda: self.log.count(words) >= times or self.ended, lambda: self.log)
        assert self.log.count(words) >= times, self.log

    @property
    def ended(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        self.send(number)
        return self.exit_code()

    def exit_code(self) -> int:
        """Wait for the end."""
        assert self.process is not None
        return self.process.wait(HANG_SECONDS)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of `/metrics`, `/readyz` or `/healthz`."""
        self.wait_for_log(SERVED)
        port = self.log.split(SERVED)[1].split()[0]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def turn(self, times: int = 100) -> None:
        """Wait until the event loop has turned so often that a stop has reached every task; it answers each probe in a turn."""
        for _ in range(times):
            _ = self.get("/healthz")

    def metric(self, line: str) -> float:
        """The value of a series, by its text up to the space; NaN if there is none."""
        for series in self.get("/metrics")[1].splitlines():
            if series.startswith(line + " "):
                return float(series.rpartition(" ")[2])
        return float("nan")
