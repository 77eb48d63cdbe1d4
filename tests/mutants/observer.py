"""Pytest plugin of the matrix: gives each test module a coverage context and its seconds, or notes who fails.

``MATRIX_SECONDS`` names the file for the seconds of the modules, ``MATRIX_CAUGHT`` that for the modules that fail.
"""

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from coverage import Coverage

SECONDS_OF_TEST = 30  # a fault may cause a hang
ENOUGH = 4  # modules that see a fault
MEASURED = os.environ.get("MATRIX_SECONDS", "")
CAUGHT = os.environ.get("MATRIX_CAUGHT", "")
_seconds = Counter[str]()
_failed = set[str]()


def _note(node: str) -> None:
    """Note a module that fails; the first failure decides."""
    module = node.partition("::")[0]
    if CAUGHT and module not in _failed:
        _failed.add(module)
        with Path(CAUGHT).open("a", encoding="utf-8") as file:
            _ = file.write(f"{module}\n")


def _give_up(_number: int, _frame: object) -> None:
    raise TimeoutError(f"no end within {SECONDS_OF_TEST} s")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the context of the test's module, or its time; skip a module that has failed, and end after enough."""
    module = item.nodeid.partition("::")[0]
    if CAUGHT and len(_failed) >= ENOUGH:
        item.session.shouldstop = f"{ENOUGH} modules have seen the fault"
    if module in _failed:
        pytest.skip("its module has seen the fault")
    if MEASURED and (coverage := Coverage.current()) is not None:
        coverage.switch_context(module)
    if CAUGHT:
        _ = signal.signal(signal.SIGALRM, _give_up)
        _ = signal.alarm(SECONDS_OF_TEST)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the seconds of a test to its module; note a failure."""
    _seconds[report.nodeid.partition("::")[0]] += report.duration
    if report.failed:
        _note(report.nodeid)
    if CAUGHT and report.when == "teardown":
        _ = signal.alarm(0)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a module that cannot be imported."""
    if report.failed:
        _note(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the seconds, in the process that knows all of them."""
    if MEASURED and not hasattr(session.config, "workerinput"):
        _ = Path(MEASURED).write_text(json.dumps(_seconds), encoding="ascii")
