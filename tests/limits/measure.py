"""Runs one command and writes its peak memory and CPU time to a file.

A separate program, run by its path: the peak of a process includes its memory before `exec`, which is the memory
of the process that started it, so the command is started from a small process.
"""

import json
import os
import resource
import sys
from pathlib import Path

ADDRESS_SPACE = 6 * 2**30
"""Prevents a failing test from using all memory; the test checks the peak."""


def limit(cpu_seconds: int) -> None:
    """Limit this process; the kernel ends it shortly after ``cpu_seconds``."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))


def used(status: int, usage: resource.struct_rusage) -> dict[str, float]:
    """How a process ended and its resource use, from ``wait4``."""
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "peak_mib": usage.ru_maxrss / 1024,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
    }


def main(into: str, cpu_seconds: str, *command: str) -> None:
    """Run ``command``."""
    limit(int(cpu_seconds))
    child = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    Path(into).write_text(json.dumps(used(status, usage)))


if __name__ == "__main__":
    main(*sys.argv[1:])
