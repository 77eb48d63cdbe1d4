"""Which integration tests run beside each other: one table of groups, the scheduler that follows it, the time of each group.

Tests of one unit of work run on one worker process, in the order of their files, so that the servers they share are
started once. A group whose tests share servers is one unit, or one for each text that its pattern captures; elsewhere
every file is a unit. Units start in the order of the table, the longest first.
"""

import re
from collections import defaultdict
from dataclasses import dataclass

import pytest
from xdist.scheduler import LoadScopeScheduling

WITHOUT_SERVERS = "without servers"


@dataclass(frozen=True, slots=True)
class Group:
    """Tests that the summary counts together.

    Attributes:
        name: As the summary prints it.
        pattern: Matches the start of the node ids of its tests.
        shared: Whether its tests share servers and therefore stay on one worker; where the pattern captures a
            text, on one worker for each text.
    """

    name: str
    pattern: re.Pattern[str]
    shared: bool = False


def _group(name: str, pattern: str, *, shared: bool = False) -> Group:
    return Group(name, re.compile(pattern), shared)


GROUPS = (
    _group("operator on Kubernetes", r"tests/kube/e2e/", shared=True),
    _group("Spark", r"tests/evidence/spark/", shared=True),
    _group("Kubernetes API", r"tests/(kube/|servers/kube/test_cluster)", shared=True),
    _group("broker contract", r"tests/contract/[^\[]*\[.*?kafka-([\d.]+)", shared=True),
    _group("broker contract", r"tests/contract/"),
    _group("recorded use", r"tests/(recording|evidence|usage|cli/spark|cli/test_spark)"),
    _group("commands on brokers", r"tests/(e2e|cli|client|quota|docs)/"),
    _group("code hosts", r"tests/forge/"),
    _group("chart and image", r"tests/(charts|packaging)/"),
    _group("pages in Chromium", r"tests/render/"),
    _group("alerts and metrics", r"tests/(alerts|metrics)/"),
    _group("the test servers", r"tests/servers/"),
)


STORIES = {
    r"tests/contract/.*\[.*?kafka-4\.4\.0": "the client and the sandbox agree with a current broker",
    r"tests/kube/e2e/test_life\.py": "a custom resource is in the broker, and a restart writes nothing",
    r"tests/kube/e2e/test_policies\.py.*\[": "create, update and delete under each policy",
    r"tests/kube/e2e/test_crashes\.py.*_lost_": "a process that is killed loses and repeats nothing",
    r"tests/kube/e2e/test_tenants\.py": "a namespace declares what it was granted",
    r"tests/kube/crds/test_previous\.py": "objects of the previous definitions stay valid",
    r"tests/charts/test_install\.py::test_a_release_lives": "the chart is installed, upgraded and removed",
    r"tests/forge/test_workflows\.py::test_a_plan_is_commented_.*kafka": "preview, merge, apply and verification",
    r"tests/forge/test_workflows\.py::test_a_broker_that_changed_.*kafka": "a stale plan is refused",
    r"tests/forge/test_workflows\.py::test_a_fork_is_planned": "a fork is planned without a cluster",
    r"tests/e2e/test_intermediate_limits\.py::test_a_(mixed|controller)": "no client is without its limit on the way",
    r"tests/e2e/test_command_line\.py": "ten thousand documents in few requests",
    r"tests/e2e/test_crash_recovery\.py": "an apply that is killed is finished by the next",
    r"tests/recording/test_pipeline\.py": "a recording becomes a preview, a simulation and a page",
    r"tests/evidence/ingest/test_ingest_from_prometheus\.py": "recorded use comes from a real Prometheus",
    r"tests/alerts/test_end_to_end\.py::test_a_change": "drift becomes an alert, and its end too",
    r"tests/render/test_page_in_chromium\.py::test_(a_page|no_name)": "the page in a browser",
}
"""What `make test` runs on real servers: patterns of node ids, and what each shows."""


def is_story(node: str) -> bool:
    """Whether `make test` runs an integration test; `make test-all` runs them all."""
    return any(re.match(pattern, node) for pattern in STORIES)


def group_of(node: str) -> Group:
    """The first group of the table that holds a node id of an integration test.

    Raises:
        KeyError: the table has no line for it.
    """
    for group in GROUPS:
        if group.pattern.match(node):
            return group
    raise KeyError(f"{node}: tests/groups.py has no group for it")


def unit_of_work(node: str) -> str:
    """A text that the integration tests have in common that stay together."""
    group = group_of(node)
    match = group.pattern.match(node) if group.shared else None
    if match is None:
        return node.partition("::")[0]
    return " ".join((group.name, *match.groups(default="")))


def sort_integration_tests(items: list[pytest.Item]) -> None:
    """Puts groups in the order of the table and tests in the order of their file, whatever plugin shuffled them."""

    def key(item: pytest.Item) -> tuple[int, str, int, str]:
        path, line, _ = item.location
        return GROUPS.index(group_of(item.nodeid)), path, line or 0, item.nodeid

    if all(item.get_closest_marker("integration") for item in items):
        items.sort(key=key)


class GroupScheduling(LoadScopeScheduling):
    """xdist's scheduling by scope, where a scope is a unit of work."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        """Keeps the order of `sort_integration_tests`: xdist would start the unit with most tests first."""
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of_work(nodeid)


def seconds_by_group(reports: list[pytest.TestReport]) -> dict[str, tuple[int, float]]:
    """Group name -> number of tests and the seconds that their setup, call and teardown took."""
    tests: dict[str, set[str]] = defaultdict(set)
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        integration = "integration" in report.keywords
        name = group_of(report.nodeid).name if integration else WITHOUT_SERVERS
        tests[name].add(report.nodeid)
        seconds[name] += report.duration
    return {name: (len(tests[name]), seconds[name]) for name in tests}
