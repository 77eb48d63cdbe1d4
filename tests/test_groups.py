"""The table of groups: units of work, stories, and the summary of times."""

import re
from types import SimpleNamespace
from typing import cast

import pytest

from tests import groups


def test_a_pattern_that_matches_no_test_is_reported() -> None:
    nodes = ["tests/kube/e2e/test_life.py::test"]
    missing = groups.patterns_without_tests(nodes)
    assert r"tests/kube/e2e/test_life\.py" not in missing
    assert r"tests/alerts/test_end_to_end\.py::test_a_change" in missing
    assert r"tests/limits/" in missing


def test_a_run_of_the_stories_imports_only_their_files() -> None:
    paths = [
        path.relative_to(groups.ROOT).as_posix()
        for path in (groups.ROOT / "tests").rglob("test_*.py")
    ]
    story_paths = [path for path in paths if groups.may_hold_stories(path)]
    for pattern in groups.STORIES:
        file_pattern = pattern.partition("::")[0].partition(r"\.py")[0].partition(".*")[0]
        assert any(re.match(file_pattern, path) for path in story_paths), pattern
    assert len(story_paths) < len(paths) / 4


def test_files_without_selected_tests_are_not_imported() -> None:
    def excluded(marks: str) -> list[str]:
        names = (
            "kube/e2e/test_drift",
            "kube/e2e/test_life",
            "limits/test_webhook",
            "quota/test_grants",
        )
        return [name for name in names if groups.is_excluded(f"tests/{name}.py", marks)]

    assert excluded(groups.MAIN_CLAIMS) == ["kube/e2e/test_drift", "limits/test_webhook"]
    assert excluded(groups.STORIES_ALONE) == [
        "kube/e2e/test_drift",
        "limits/test_webhook",
        "quota/test_grants",
    ]
    assert excluded("integration") == excluded("") == []


def test_make_selects_the_main_claims_and_the_stories_by_these_marks() -> None:
    makefile = (groups.ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"-m '{groups.MAIN_CLAIMS}'" in makefile
    assert f"-m {groups.STORIES_ALONE} " in makefile


def test_a_file_without_servers_is_a_unit_beside_a_group_of_the_same_folder() -> None:
    path = "tests/kube/test_crash_at_every_step.py"
    assert groups.unit_of_work(f"{path}::test[1]") == path
    assert (
        groups.unit_of_work("tests/contract/test_values.py::test[sandbox-4.x]")
        == "tests/contract/test_values.py"
    )


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


def test_servers_of_the_session_are_stopped_after_the_last_test_that_may_use_them() -> None:
    def ends(path: str, next_path: str) -> bool:
        return groups.is_last_with_servers(f"tests/{path}::test", f"tests/{next_path}::test")

    assert not ends("kube/e2e/test_life.py", "kube/e2e/test_drift.py")
    assert not ends("e2e/test_watch.py", "cli/test_policy.py")
    assert ends("kube/e2e/test_life.py", "e2e/test_watch.py")
    assert ends("e2e/test_watch.py", "quota/test_grants.py")
    assert not ends("quota/test_grants.py", "base/test_clock.py")
    broker = "contract/test_values.py::test[kafka-{}]"
    assert not ends(broker.format("3.9.1"), broker.format("3.9.1"))
    assert ends(broker.format("3.9.1"), broker.format("4.4.0"))


def test_a_file_with_its_own_servers_is_its_own_unit() -> None:
    assert (
        groups.unit_of_work("tests/e2e/test_crash_recovery.py::test[1]")
        == "tests/e2e/test_crash_recovery.py"
    )


def test_long_units_without_servers_start_first() -> None:
    nodes = [
        "tests/base/test_clock.py::test",
        "tests/small_worlds/test_orders.py::test",
        "tests/quota/test_grants.py::test",
        "tests/kube/e2e/test_life.py::test",
        "tests/limits/test_webhook.py::test",
    ]
    items = [
        SimpleNamespace(nodeid=node, location=(node.partition("::")[0], 1, "test"))
        for node in nodes
    ]
    groups.sort_items(cast("list[pytest.Item]", items))
    assert [nodes.index(item.nodeid) for item in items] == [3, 4, 1, 0, 2]


def test_a_folder_without_a_group_has_one_unit_for_each_file() -> None:
    node = "tests/test_groups.py::test_x"
    assert groups.may_need_servers(node)
    assert groups.group_of(node) is None
    assert groups.unit_of_work(node) == "tests/test_groups.py"


def test_the_time_of_a_group_includes_all_phases_of_its_tests() -> None:
    def report(node: str, when: str, seconds: float, **keywords: int) -> pytest.TestReport:
        return pytest.TestReport(
            node, (node, 1, node), keywords, "passed", None, when, duration=seconds
        )

    life = "tests/kube/e2e/test_life.py::test"
    assert groups.seconds_by_group(
        [
            report(life, "setup", 2.0, integration=1),
            report(life, "call", 3.5, integration=1),
            report("tests/quota/planner/test_comparison.py::test", "call", 0.25),
        ]
    ) == {"operator on Kubernetes": (1, 5.5), groups.WITHOUT_SERVERS: (1, 0.25)}
