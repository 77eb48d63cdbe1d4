"""Child processes that end with the test run, even after its `kill -9`.

A small guardian process reads lines from a pipe that only the test run holds open. When the test run ends
for any reason, the pipe closes, and the guardian kills the registered processes and removes the registered
folders. (PR_SET_PDEATHSIG exists on Linux only, and kills when the starting *thread* ends.)
"""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self

HANG_SECONDS: Final = 1200.0
"""What takes longer is taken for hung: a process, a thread, an event. A busy machine may take many times longer than a quiet one."""

GUARDIAN = """
import os, shutil, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
pids, folders = set(), set()
for line in sys.stdin:
    verb, _, what = line.rstrip("\\n").partition(" ")
    kind, _, name = what.partition(" ")
    getattr(pids if kind == "pid" else folders, {"+": "add", "-": "discard"}[verb])(name)
for pid in pids:
    try:
        os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        pass
for folder in folders:
    shutil.rmtree(folder, ignore_errors=True)
"""


def without_coverage() -> dict[str, str]:
    """Return the environment of a process whose imports are judged: without those of a measurement of coverage."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardian:
    """The process that cleans up after the test run; `watch` and `forget` are thread-safe."""

    process: "subprocess.Popen[str]"
    lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, kind: str, name: str | int) -> None:
        """Register a `pid` to kill or a `folder` to remove at the end of the test run."""
        self._say(f"+ {kind} {name}")

    def forget(self, kind: str, name: str | int) -> None:
        """Revert `watch` after the process was reaped or the folder removed."""
        self._say(f"- {kind} {name}")

    def _say(self, line: str) -> None:
        pipe = self.process.stdin
        if pipe is None:
            raise AssertionError("the guardian is started with a pipe")
        with self.lock:
            pipe.write(line + "\n")
            pipe.flush()


@functools.cache
def guardian() -> Guardian:
    """Return the guardian of this process, started at the first call."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", GUARDIAN],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    return Guardian(process=process)


CHILDREN: "weakref.WeakSet[Child]" = weakref.WeakSet()
"""The processes of this test run, for reading their logs."""


class Child:
    """A running process whose output goes to a file or to pipes."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        pipes: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start `command`; append stderr to `log`, and stdout unless `pipes`."""
        self.log = log
        with log.open("ab") as sink:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else sink,
                stderr=sink,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,  # Ctrl-C must not reach children; the test run stops them
            )
        guardian().watch("pid", self.process.pid)
        CHILDREN.add(self)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended; a stopped process counts as running."""
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.running:
            self.process.send_signal(number)

    def ended_within(self, seconds: float) -> bool:
        """Wait at most `seconds` for the end; return whether it ended."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        guardian().forget("pid", self.pid)
        return True

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        guardian().forget("pid", self.pid)
        for pipe in self.pipes():
            with contextlib.suppress(BrokenPipeError):  # unread input
                pipe.close()

    def pipes(self) -> tuple[IO[bytes], ...]:
        """Return the open pipes to the process."""
        both = (self.process.stdin, self.process.stdout)
        return tuple(pipe for pipe in both if pipe is not None)

    def log_text(self) -> str:
        """Return the content of the log."""
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """A folder that is removed at the end of its context, or by the guardian."""

    path: Path

    @classmethod
    def make(cls, prefix: str) -> Self:
        """Create an empty folder."""
        path = Path(tempfile.mkdtemp(prefix=prefix))
        guardian().watch("folder", str(path))
        return cls(path)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder with its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        guardian().forget("folder", str(self.path))
