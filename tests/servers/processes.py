"""Child processes that never outlive us, not even after `kill -9` of the test run.

One small guardian process reads lines from a pipe that only we hold open. When we end, for whatever
reason, the pipe closes and the guardian kills the processes and removes the folders it was told of.
(PR_SET_PDEATHSIG would do it on Linux only, and kills when the starting *thread* ends.)
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
from typing import IO, Self

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardian:
    """The process that cleans up after us; `watch` and `forget` are safe from any thread."""

    process: "subprocess.Popen[str]"
    lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, kind: str, name: str | int) -> None:
        """Has a `pid` killed, or a `folder` removed, when we end."""
        self._say(f"+ {kind} {name}")

    def forget(self, kind: str, name: str | int) -> None:
        """Takes back `watch`, after the process was reaped or the folder removed."""
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
    """The guardian of this process, started at the first call."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", GUARDIAN],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    return Guardian(process=process)


CHILDREN: "weakref.WeakSet[Child]" = weakref.WeakSet()
"""The processes that were started here, for those who want to read their logs."""


class Child:
    """A running process whose output goes to a file, or over pipes to us."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        pipes: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts `command`; stderr is appended to `log`, stdout too unless `pipes`."""
        self.log = log
        with log.open("ab") as sink:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else sink,
                stderr=sink,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,  # Ctrl-C belongs to us; we stop our children ourselves
            )
        guardian().watch("pid", self.process.pid)
        CHILDREN.add(self)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended (a stopped process is running)."""
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; a process that has ended is left alone."""
        if self.running:
            self.process.send_signal(number)

    def ended_within(self, seconds: float) -> bool:
        """Waits at most `seconds` for the end; also the pace of every polling loop here."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        guardian().forget("pid", self.pid)
        return True

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        guardian().forget("pid", self.pid)
        for pipe in self.pipes():
            with contextlib.suppress(BrokenPipeError):  # what the process never read
                pipe.close()

    def pipes(self) -> tuple[IO[bytes], ...]:
        """The open pipes to the process."""
        both = (self.process.stdin, self.process.stdout)
        return tuple(pipe for pipe in both if pipe is not None)

    def log_text(self) -> str:
        """Everything the process wrote to its log so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """A folder that is removed at the end of the `with`, or by the guardian."""

    path: Path

    @classmethod
    def make(cls, prefix: str) -> Self:
        """A fresh empty folder."""
        path = Path(tempfile.mkdtemp(prefix=prefix))
        guardian().watch("folder", str(path))
        return cls(path)

    def __enter__(self) -> Path:
        """The folder's path."""
        return self.path

    def __exit__(self, *_: object) -> None:
        """Removes the folder."""
        self.remove()

    def remove(self) -> None:
        """Removes the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        guardian().forget("folder", str(self.path))
