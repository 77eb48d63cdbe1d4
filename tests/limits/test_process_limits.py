"""The measurement is that of one run, and a run is ended by its limits."""

import signal
from collections.abc import Iterator

import pytest

from tests.limits.process_limits import POD_MIB, Prepared, assert_bounded

PROGRAM = """
import os, sys
def main(*arguments):
    taken = b"x" * int(arguments[0]) * 2**20
    print(os.getcwd())
    if "endless" in arguments:
        while True:
            pass
    if "fault" in arguments:
        raise ValueError("a fault")
    sys.exit("enough")
"""


@pytest.fixture(scope="module")
def program() -> Iterator[Prepared]:
    with Prepared(PROGRAM) as prepared:
        yield prepared


def test_the_peak_of_a_run_does_not_count_into_the_next(program: Prepared) -> None:
    large, small = program.run(str(POD_MIB)), program.run("1")
    assert POD_MIB < large.peak_mib < POD_MIB + 60
    assert small.peak_mib < 60
    assert_bounded(small, words="enough")
    with pytest.raises(AssertionError):
        assert_bounded(large, words="enough")


def test_a_run_without_an_end_is_stopped_after_its_cpu_seconds(program: Prepared) -> None:
    run = program.run("1", "endless", cpu_seconds=1)
    assert run.exit_code == -signal.SIGXCPU
    assert 0.5 < run.cpu_seconds < 3
    assert program.run("1").exit_code == 1


def test_a_crash_of_a_program_does_not_count_as_a_refusal(program: Prepared) -> None:
    run = program.run("1", "fault")
    assert "ValueError: a fault" in run.stderr
    with pytest.raises(AssertionError):
        assert_bounded(run, words="a fault")


def test_each_run_has_its_own_folder(program: Prepared) -> None:
    assert program.run("1").stdout != program.run("1").stdout
