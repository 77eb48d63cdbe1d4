"""Repeated runs of the tests: each run is counted from its own report, and a failure in one run is a failure."""

import sys
from pathlib import Path

import pytest

from tests.repeat import busy_processes, read_report, repeat

PROGRAM = """
import pathlib, sys
report, counter = map(pathlib.Path, sys.argv[1:])
number = int(counter.read_text()) + 1
counter.write_text(str(number))
failure = '<testcase classname="tests.x" name="test_b"><failure/></testcase>' if number == 2 else ""
if number < 4:
    report.write_text(f'<testsuites><testcase classname="tests.x" name="test_a"/>{failure}</testsuites>')
print("output of run", number)
sys.exit(number in (2, 4))
"""


def command(folder: Path) -> tuple[str, ...]:
    """A program whose second run has a failed test, and whose fourth run ends before it writes a report."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "counter").write_text("0")
    return (sys.executable, *(str(folder / name) for name in ("program.py", "report", "counter")))


def test_every_run_is_counted_and_failed_tests_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repeat(command(tmp_path), tmp_path / "report", tmp_path / "logs", runs=4, busy=1) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" failed,")[0] for line in lines if line.startswith("run ")] == [
        "run 1: 1 passed, 0",
        "run 2: 1 passed, 1",
        "run 3: 1 passed, 0",
        "run 4: 0 passed, 0",
    ]
    assert lines[2] == "  tests.x::test_b"
    assert lines[-2].startswith("2 of 4 runs succeeded beside 1 busy processes")
    assert lines[-1] == "  failed in 1 of 4: tests.x::test_b"
    assert (tmp_path / "logs" / "run-2.log").read_text() == "output of run 2\n"


def test_runs_without_a_failure_succeed(tmp_path: Path) -> None:
    assert repeat(command(tmp_path), tmp_path / "report", tmp_path / "logs", runs=1, busy=0) == 0


def test_skipped_tests_and_errors_are_not_passed(tmp_path: Path) -> None:
    report = tmp_path / "report"
    report.write_text(
        '<testsuites><testcase classname="x" name="a"><skipped/></testcase>'
        '<testcase classname="x" name="b"><error/></testcase></testsuites>'
    )
    assert read_report(report) == (0, ("x::b",))


def test_busy_processes_end_with_the_block() -> None:
    with busy_processes(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert all(process.poll() for process in processes)
