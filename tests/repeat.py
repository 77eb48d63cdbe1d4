"""Runs `make test` or `make test-all` several times beside busy processes, and prints the result of each run.

``python -m tests.repeat [test|test-all] --runs 20 --busy 4``, or ``make test-repeat RUNS=20 BUSY=4``. The output of
each run is kept in ``build/repeat``. A run fails if its command does: a test that fails in one of twenty runs depends
on the speed of the machine, which is a fault of the test or of the product.
"""

import argparse
import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
BUSY = (sys.executable, "-c", "while True: pass")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of one run.

    Attributes:
        code: Exit code of the command.
        seconds: Its duration.
        passed: Number of tests that passed.
        failed: Names of the tests that failed.
    """

    code: int
    seconds: float
    passed: int
    failed: tuple[str, ...]


@contextlib.contextmanager
def busy_processes(number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keep a number of processes busy during the block."""
    processes: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        for _ in range(number):
            process = stack.enter_context(subprocess.Popen(BUSY))
            stack.callback(process.kill)
            processes.append(process)
        yield processes


def read_report(path: Path) -> tuple[int, tuple[str, ...]]:
    """Return the number of passed tests and the names of the failed ones in a JUnit file; none of both without it."""
    if not path.is_file():
        return 0, ()
    passed, failed = 0, list[str]()
    for case in ET.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is None:
            passed += 1
    return passed, tuple(failed)


def run(command: Sequence[str], report: Path, log: Path) -> RunResult:
    """Run a command that writes a JUnit file, with its output in a file."""
    report.unlink(missing_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("wb") as output:
        code = subprocess.run(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode
    passed, failed = read_report(report)
    return RunResult(code=code, seconds=time.monotonic() - began, passed=passed, failed=failed)


def repeat(command: Sequence[str], report: Path, folder: Path, *, runs: int, busy: int) -> int:
    """Run a command several times and print the results.

    Args:
        command: A command that writes a JUnit file.
        report: The JUnit file.
        folder: Folder of the outputs.
        runs: Number of runs.
        busy: Number of busy processes beside them.

    Returns:
        0 if every run succeeded, 1 otherwise.
    """
    results: list[RunResult] = []
    with busy_processes(busy):
        for number in range(1, runs + 1):
            log = folder / f"run-{number}.log"
            result = run(command, report, log)
            results.append(result)
            verdict = "succeeded" if result.code == 0 else f"FAILED, see {log}"
            print(
                f"run {number}: {result.passed} passed, {len(result.failed)} failed,"
                f" {result.seconds:.0f} s, {verdict}",
                flush=True,
            )
            for name in result.failed:
                print(f"  {name}", flush=True)
    successes = sum(result.code == 0 for result in results)
    slowest = max(result.seconds for result in results)
    print(
        f"{successes} of {runs} runs succeeded beside {busy} busy processes; at most {slowest:.0f} s"
    )
    for name, count in Counter(name for result in results for name in result.failed).most_common():
        print(f"  failed in {count} of {runs}: {name}")
    return 0 if successes == runs else 1


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.repeat", description=__doc__)
    parser.add_argument("target", nargs="?", choices=("test", "test-all"), default="test")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--busy", type=int, default=4)
    arguments = parser.parse_args()
    return repeat(
        ("make", arguments.target),
        ROOT / "build" / f"{arguments.target}.xml",
        ROOT / "build" / "repeat",
        runs=arguments.runs,
        busy=arguments.busy,
    )


if __name__ == "__main__":
    sys.exit(main())
