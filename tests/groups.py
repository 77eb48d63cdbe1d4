"""Scheduling of tests: tables of groups, stories and thorough tests; the xdist scheduler; the time of each group.

Tests of one unit of work run on one worker process, in the order of their files, so that shared servers are started
once. A group whose tests share servers is one unit, or one for each text that its pattern captures; all other files are
units of their own. Units start in the order of the table, the longest first; files without servers come last, those with
thorough tests before the others, so that no long unit is left for the end.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
TABLES = "tests/groups.py"
WITHOUT_SERVERS = "without servers"
STORIES_ALONE = "story"
MAIN_CLAIMS = "story or not (integration or thorough)"
"""The tests of `make stories` and of `make test`, as the Makefile selects them by `-m`."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of tests in the summary.

    Attributes:
        name: Name in the summary.
        pattern: Matches the start of the node ids of its tests.
        shared: Whether its tests share servers and therefore run on one worker; if the pattern captures a text, on
            one worker for each text.
    """

    name: str
    pattern: re.Pattern[str]
    shared: bool = False


def _group(name: str, pattern: str, *, shared: bool = False) -> Group:
    return Group(name, re.compile(pattern), shared)


GROUPS = (
    _group("operator on Kubernetes", r"tests/kube/e2e/", shared=True),
    _group("Spark", r"tests/evidence/spark", shared=True),
    _group("Kubernetes API", r"tests/kube/", shared=True),
    _group("broker contract", r"tests/contract/[^\[]*\[.*?kafka-([\d.]+)", shared=True),
    _group("broker contract", r"tests/contract/"),
    _group("recorded use", r"tests/(recording|evidence|usage)"),
    _group("commands on brokers", r"tests/(e2e|cli|client|quota|docs|bench|sequences)/"),
    _group("code hosts", r"tests/forge/"),
    _group(
        "chart and image",
        r"tests/charts/test_(admission|chart_renderer|rights|service_accounts)",
        shared=True,
    ),
    _group("chart and image", r"tests/(charts|packaging)/"),
    _group("pages in Chromium", r"tests/render/"),
    _group("alerts and metrics", r"tests/(alerts|metrics)/"),
)


STORIES = {
    r"tests/contract/.*\[.*?kafka-4\.4\.0": "the client and the sandbox agree with a current broker",
    r"tests/kube/e2e/test_life\.py": "a custom resource is in the broker, and a restart writes nothing",
    r"tests/kube/e2e/test_policies\.py.*\[(Upsert|Sync)\]": "create, update and delete, with and without removals",
    r"tests/kube/e2e/test_crashes\.py.*_lost_answer": "a process that is killed loses and repeats nothing",
    r"tests/kube/e2e/test_tenants\.py": "a namespace declares what it was granted",
    r"tests/charts/test_install\.py::test_a_release_is_installed_": "the chart is installed, upgraded and removed",
    r"tests/forge/test_workflows\.py::test_a_plan_is_commented_": "preview, merge, apply and verification",
    r"tests/forge/test_workflows\.py::test_a_broker_that_changed_": "a stale plan is refused",
    r"tests/forge/test_workflows\.py::test_a_fork_is_planned": "a fork is planned without a cluster",
    r"tests/e2e/test_intermediate_limits\.py::test_a_(mixed|controller)": "no client is without its limit on the way",
    r"tests/e2e/test_command_line\.py::test_ten_thousand": "ten thousand documents in few requests",
    r"tests/e2e/test_crash_recovery\.py.*\[after-(intent|send)": "an apply that is killed is finished by the next",
    r"tests/recording/test_pipeline\.py": "a recording becomes a preview, a simulation and a page",
    r"tests/evidence/ingest/test_with_prometheus\.py": "recorded use comes from a real Prometheus",
    r"tests/alerts/test_end_to_end\.py::test_a_change": "drift becomes an alert, and its end too",
    r"tests/render/test_page_in_chromium\.py::test_(a_page_renders|no_name)": "the page in a browser",
}
"""Integration tests that `make test` runs: patterns of node ids, and the subject of each."""


THOROUGH = {
    r"tests/limits/": "memory and time of the largest input, one process for each",
    r"tests/cli/test_interruptions\.py": "signals in the middle of an apply; stories kill one on real brokers",
    r"tests/cli/test_drift_watch\.py": "a service beside its broker, with signals",
    r"tests/cli/service/test_watch\.py": "a service beside a repository, with signals",
    r"tests/evidence/store/test_killed\.py": "kill -9 at each step of a commit",
    r"tests/evidence/ingest/test_file_import\.py::test_an_ingest_that_is_killed": "kill -9 at each step of an ingest",
    r"tests/kube/leadership/test_lease_thread\.py": "leases of real seconds",
    r"tests/sequences/.*ten_thousand": "the first three hundred sequences run always",
    r"tests/small_worlds/": "every history of a small world",
    r"tests/contract/.*(ten_thousand_records|rejected_entities_do_not_count|removal_counts|many_entities_are).*\[sandbox": "the largest request, against each version of the rules",
    r"tests/simulation/.*(same_trace|is_minimised|finds_sets|counted_as_missed|unknown_fault)": "the search for broken laws, which is a tool",
    r"tests/wire/.*every_mutation_at_every_offset": "random damage is compared with the same reference",
    r"tests/recording/test_real_brokers\.py": "ten recorded runs; the story of the pipeline compares one with its forecast",
    r"tests/cli/test_demo\.py.*\[sandbox\]": "the demo as a whole; each of its commands has tests",
    r"tests/test_vocabulary\.py.*names_in_tests": "reads all tests",
    r"tests/docs/.*(quick_start|every_example_of_a_document)": "each example of the documents, run",
}
"""Tests without servers that only `make test-all` runs: patterns of node ids, and the reason for their duration."""


def is_story(node: str) -> bool:
    """Whether `make test` runs an integration test; `make test-all` runs all."""
    return any(re.match(pattern, node) for pattern in STORIES)


def is_thorough(node: str) -> bool:
    """Whether only `make test-all` runs a test without servers."""
    return any(re.match(pattern, node) for pattern in THOROUGH)


def may_hold_stories(path: str) -> bool:
    """Whether the pattern of a story can match a test of a file."""
    return any(re.match(pattern.partition("::")[0].partition(".*")[0], path) for pattern in STORIES)


def is_excluded(path: str, marks: str) -> bool:
    """Whether `-m` selects no test of a file, which then need not be imported.

    Args:
        path: Path of the file below the root.
        marks: Expression of `-m`.
    """
    if marks not in (STORIES_ALONE, MAIN_CLAIMS) or may_hold_stories(path):
        return False
    return marks == STORIES_ALONE or needs_servers_throughout(path) or is_thorough_throughout(path)


def needs_servers_throughout(path: str) -> bool:
    """Whether a test file marks all its tests as integration tests."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return (
        re.search(r"^pytestmark = \[?pytest\.mark\.integration\b", text, re.MULTILINE) is not None
    )


def is_thorough_throughout(path: str) -> bool:
    """Whether a pattern of a thorough test matches all tests of a file."""
    return any(
        re.match(pattern, path)
        for pattern in THOROUGH
        if "::" not in pattern and ".*" not in pattern
    )


def faults_of_tables(nodes: list[str], servers: AbstractSet[str], *, complete: bool) -> list[str]:
    """Return what is wrong between the tables and the collected tests, in sentences.

    Args:
        nodes: Node ids of the collected tests.
        servers: Those of integration tests.
        complete: Whether all tests are collected, so that each pattern must match one.
    """
    faults = [
        f"{TABLES}: no test matches {pattern}, because it was renamed or removed"
        for pattern in (*STORIES, *THOROUGH, *(group.pattern.pattern for group in GROUPS))
        if complete and not any(re.match(pattern, node) for node in nodes)
    ]
    faults += [
        f"{node}: mark integration tests in their own file"
        for node in nodes
        if node in servers and not may_need_servers(node)
    ]
    faults += [
        f"{node}: {TABLES} has no group for it"
        for node in nodes
        if node in servers and group_of(node) is None
    ]
    return faults


def group_of(node: str) -> Group | None:
    """Return the first group of the table that matches a node id, or `None`."""
    return next((group for group in GROUPS if group.pattern.match(node)), None)


@functools.cache
def mentions_servers(path: str) -> bool:
    """Whether a test file marks tests as integration tests."""
    return "integration" in (ROOT / path).read_text(encoding="utf-8")


def may_need_servers(node: str) -> bool:
    """Whether a test may be an integration test, by its node id alone: the scheduler has no markers."""
    path = node.partition("::")[0]
    return re.match(r"tests/contract/[^\[]*\[.*?kafka-", node) is not None or mentions_servers(path)


def unit_of_work(node: str) -> str:
    """Return the name of the unit of work of a test."""
    path = node.partition("::")[0]
    group = group_of(node)
    if group is None or not group.shared or not may_need_servers(node):
        return path
    match = group.pattern.match(node)
    return " ".join((group.name, *(match.groups(default="") if match else ())))


def is_last_with_servers(node: str, next_node: str) -> bool:
    """Whether no test that uses the servers of a test may come after it on its worker."""
    if not may_need_servers(node):
        return False
    group = group_of(node)
    if group is None or group is not group_of(next_node) or not may_need_servers(next_node):
        return True
    return group.shared and unit_of_work(node) != unit_of_work(next_node)


def is_scheduled(config: pytest.Config) -> bool:
    """Whether `GroupScheduling` distributes the tests; xdist overwrites `--dist` in its workers, which collect them."""
    return "loadscope" in (config.option.dist, *config.invocation_params.args)


def sort_items(items: list[pytest.Item]) -> None:
    """Sort groups by the table, then thorough tests first, and tests by their files, after any plugin that shuffles."""

    def key(item: pytest.Item) -> tuple[int, bool, str, int, str]:
        path, line, _ = item.location
        node = item.nodeid
        group = group_of(node) if may_need_servers(node) else None
        place = GROUPS.index(group) if group else len(GROUPS)
        return place, not is_thorough(node), path, line or 0, node

    items.sort(key=key)


class GroupScheduling(LoadScopeScheduling):
    """xdist's scheduling by scope, with units of work as scopes."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        """Keep the order of `sort_items`; by default xdist starts the unit with most tests first."""
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of_work(nodeid)


def seconds_by_group(reports: list[pytest.TestReport]) -> dict[str, tuple[int, float]]:
    """Return group name -> number of tests, and seconds of their setup, call and teardown."""
    tests: dict[str, set[str]] = defaultdict(set)
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        group = group_of(report.nodeid) if "integration" in report.keywords else None
        name = group.name if group else WITHOUT_SERVERS
        tests[name].add(report.nodeid)
        seconds[name] += report.duration
    return {name: (len(tests[name]), seconds[name]) for name in tests}
