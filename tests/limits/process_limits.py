"""A command under the limits of the operator's pod: 256 MiB of memory, and a number of CPU seconds.

Memory is the peak that the kernel measured, not a limit on address space, which Python's threads and libraries reserve
without using it. Time is CPU time, so that the load of the machine has no effect.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

POD_MIB = 256
"""`resources.limits.memory` of the chart."""

CPU_SECONDS = 20
MEASURE = Path(__file__).with_name("measure.py")
SERVE = "\nfrom tests.limits.forks import serve\nserve(main)\n"


@dataclass(frozen=True, kw_only=True)
class Measured:
    exit_code: int
    stdout: str
    stderr: str
    peak_mib: float
    cpu_seconds: float


async def measured(
    *command: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    cpu_seconds: int = CPU_SECONDS,
) -> Measured:
    """The result of `command`, in which "python" is this Python."""
    arguments = [sys.executable if word == "python" else word for word in command]
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "used.json"
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(MEASURE),
            str(into),
            str(cpu_seconds),
            *arguments,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(Path.cwd()), "NO_COLOR": "1", **(env or {})},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await process.communicate()
        assert process.returncode == 0, stderr.decode()
        used = json.loads(into.read_text())
    return Measured(
        stdout=stdout.decode(errors="replace"), stderr=stderr.decode(errors="replace"), **used
    )


class Prepared:
    """A program that has finished its imports, and runs repeatedly, each time in a separate process.

    A run has the memory and CPU limits of a new program, without the time of its start. The memory of its parent
    counts for its peak, that of other runs does not.

    Args:
        program: The text of a Python program with a function `main` whose arguments are strings.
    """

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program + SERVE],
            env={**os.environ, "PYTHONPATH": str(Path.cwd()), "NO_COLOR": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _ = self._process.communicate()
        assert self._process.returncode == 0

    def run(
        self, *arguments: str, cwd: Path | None = None, cpu_seconds: int = CPU_SECONDS
    ) -> Measured:
        """The result of `main(*arguments)`. It blocks; with an event loop it needs a thread."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            stdout, stderr = Path(folder) / "stdout", Path(folder) / "stderr"
            run = {
                "arguments": arguments,
                "cpu_seconds": cpu_seconds,
                "cwd": str(cwd or folder),
                "stdout": str(stdout),
                "stderr": str(stderr),
            }
            self._process.stdin.write(json.dumps(run) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            assert line, self._process.wait()
            return Measured(
                stdout=stdout.read_text(errors="replace"),
                stderr=stderr.read_text(errors="replace"),
                **json.loads(line),
            )


def assert_bounded(run: Measured, *, exit_code: int = 1, words: str = "") -> None:
    """The run ended by itself within the memory of the pod, with an error message."""
    assert run.exit_code == exit_code, (run.exit_code, run.stderr[-2000:])
    assert run.peak_mib <= POD_MIB, run.peak_mib
    assert words in run.stderr, run.stderr[-2000:]
    assert "Traceback" not in run.stderr
