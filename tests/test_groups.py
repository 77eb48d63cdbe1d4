"""The table of groups: units of work, stories, and the summary of times."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import groups

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def integration_tests() -> list[str]:
    """Node ids of all integration tests."""
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", "-p", "no:cacheprovider",
         "-m", "integration", "tests"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [line for line in listing.stdout.splitlines() if "::" in line]


def test_every_integration_test_has_a_group_and_every_group_a_test(
    integration_tests: list[str],
) -> None:
    assert {groups.group_of(node) for node in integration_tests} == set(groups.GROUPS)


def test_every_story_is_a_test_that_exists(integration_tests: list[str]) -> None:
    missing = [
        pattern
        for pattern in groups.STORIES
        if not any(re.match(pattern, node) for node in integration_tests)
    ]
    assert missing == []


def test_the_servers_of_a_session_stay_on_one_worker() -> None:
    operator = {
        groups.unit_of_work(f"tests/kube/e2e/test_{name}.py::test") for name in ("life", "drift")
    }
    assert operator == {"operator on Kubernetes"}
    contract = {
        groups.unit_of_work(f"tests/contract/test_{name}.py::test[{values}]")
        for name in ("values", "rights")
        for values in ("kafka-4.4.0", "kafka-3.9.1", "quick-kafka-3.9.1")
    }
    assert contract == {"broker contract 4.4.0", "broker contract 3.9.1"}


def test_a_file_whose_servers_are_its_own_is_a_unit_of_its_own() -> None:
    assert (
        groups.unit_of_work("tests/e2e/test_crash_recovery.py::test[1]")
        == "tests/e2e/test_crash_recovery.py"
    )


def test_a_new_place_for_integration_tests_asks_for_a_group() -> None:
    with pytest.raises(KeyError, match=r"tests/new/test_x.py::test: tests/groups.py has no group"):
        groups.group_of("tests/new/test_x.py::test")


def test_the_time_of_a_group_is_that_of_all_phases_of_its_tests() -> None:
    def report(node: str, when: str, seconds: float, **keywords: int) -> pytest.TestReport:
        return pytest.TestReport(
            node, (node, 1, node), keywords, "passed", None, when, duration=seconds
        )

    life = "tests/kube/e2e/test_life.py::test"
    assert groups.seconds_by_group([
        report(life, "setup", 2.0, integration=1),
        report(life, "call", 3.5, integration=1),
        report("tests/quota/planner/test_comparison.py::test", "call", 0.25),
    ]) == {"operator on Kubernetes": (1, 5.5), groups.WITHOUT_SERVERS: (1, 0.25)}  # fmt: skip
