"""What all tests share: hypothesis profiles, real brokers, and honesty about what was not run.

Fixtures here start brokers lazily and share them over the session: `kafka(version, **options)` is a
`KafkaCluster` that other tests use too, so keep to entity names of your own, or take `empty_kafka`,
which removes all quotas first. `kube` is one Kubernetes for all, with the CRDs installed: keep to
your own `kube_namespace`. Without Java or Maven integration tests are listed as NOT RUN; where
`CI` is set they fail.
"""

import contextlib
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests import groups, server_logs
from tests.servers import jars, raw_quotas
from tests.servers.cluster_pool import SharedClusters
from tests.servers.kafka import KafkaCluster, StartKafka
from tests.servers.kube.cluster import KubeCluster

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts this with & ignores Ctrl-C for it and its children, and tests of interruptions would never end.
    _ = signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # nohup does the same with SIGHUP.
    _ = signal.signal(signal.SIGHUP, signal.SIG_DFL)

hypothesis.settings.register_profile("fast", derandomize=True, max_examples=25, deadline=None)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

NOT_RUN = "NOT RUN: "
"""How the reason of a skip begins that says which server cannot be started here."""
RUN_ALONE = ".venv/bin/python -m pytest -p no:randomly"


@pytest.fixture(scope="session")
def kafka() -> Iterator[StartKafka]:
    """`kafka(version, **options)`: a running cluster, the same one for the same arguments."""
    with contextlib.closing(SharedClusters()) as clusters:
        yield clusters.get


@pytest.fixture
def empty_kafka(kafka: StartKafka) -> StartKafka:
    """Like `kafka`, without any quota; the cluster needs the PLAINTEXT listener."""

    def start(version: str, **options: object) -> KafkaCluster:
        cluster = kafka(version, **options)
        for number in cluster.numbers:
            raw_quotas.clear(cluster.port(number))
        return cluster

    return start


@pytest.fixture(scope="session")
def shared_kube() -> Iterator[KubeCluster]:
    """The Kubernetes of the session; take `kube` instead, which repairs it."""
    with KubeCluster() as cluster:
        cluster.install_crds()
        yield cluster


@pytest.fixture
def kube(shared_kube: KubeCluster) -> KubeCluster:
    """A Kubernetes with the CRDs of `crds/`, whose servers all run; other tests use it too."""
    shared_kube.heal()
    return shared_kube


@pytest.fixture
def kube_namespace(kube: KubeCluster) -> Iterator[str]:
    """The name of an empty namespace for one test; it is deleted afterwards, without waiting."""
    name = kube.fresh_namespace()
    yield name
    kube.heal()
    kube.api.call("DELETE", f"/api/v1/namespaces/{name}")


@contextlib.contextmanager
def unavailable_is_not_run() -> Iterator[None]:
    """Turns `ServersUnavailable` into a failure in CI, elsewhere into an entry of the NOT RUN list."""
    try:
        yield
    except jars.ServersUnavailable as missing:
        reason = str(missing)
    else:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must run this, but: {reason}", pytrace=False)
    pytest.skip(NOT_RUN + reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Real servers need Java, whatever else they need; fixtures may find out more."""
    with unavailable_is_not_run():
        if item.get_closest_marker("integration"):
            item.stash[server_logs.BEFORE] = server_logs.sizes()
            jars.java_identity()
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test may start servers of its own."""
    with unavailable_is_not_run():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed integration test shows how to run it alone, and what its servers wrote meanwhile."""
    report = yield
    if report.failed and item.get_closest_marker("integration"):
        report.sections.append(("run it alone", f"{RUN_ALONE} '{item.nodeid}'"))
        report.sections += server_logs.written_since(item.stash.get(server_logs.BEFORE, {}))
    return report


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run of the stories alone imports only files that have some."""
    if config.option.markexpr != "story" or collection_path.suffix != ".py":
        return None
    path = collection_path.relative_to(groups.ROOT).as_posix()
    return True if not groups.may_hold_stories(path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Marks stories and thorough tests before `-m` chooses; then puts the groups in the order of their table."""
    if config.args == config.getini("testpaths") and config.option.markexpr != "story":
        missing = groups.patterns_without_tests([item.nodeid for item in items])
        if missing:
            raise pytest.UsageError(f"tests/groups.py: no test matches {', '.join(missing)}")
    for item in items:
        if item.get_closest_marker("integration"):
            if not groups.may_need_servers(item.nodeid):
                raise pytest.UsageError(f"{item.nodeid}: mark integration tests in their own file")
            if groups.group_of(item.nodeid) is None:
                raise pytest.UsageError(f"{item.nodeid}: tests/groups.py has no group for it")
            if groups.is_story(item.nodeid):
                item.add_marker("story")
        elif groups.is_thorough(item.nodeid):
            item.add_marker("thorough")
    result = yield
    if config.option.dist == "loadscope":
        groups.sort_items(items)
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: object
) -> groups.GroupScheduling | None:
    """`--dist loadscope` means the units of work of `tests.groups`."""
    if config.getoption("dist") != "loadscope":
        return None
    return groups.GroupScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the time of each group, and lists loudly what was not run, and why."""
    reports = [
        report
        for outcome in ("", "passed", "failed", "error", "skipped")
        for report in terminalreporter.stats.get(outcome, [])
        if isinstance(report, pytest.TestReport)
    ]
    show_groups(terminalreporter, reports)
    show_not_run(terminalreporter, reports)


def show_groups(terminal: pytest.TerminalReporter, reports: list[pytest.TestReport]) -> None:
    """A row for each group: tests, and the seconds in them over all workers."""
    rows = groups.seconds_by_group(reports)
    if len(rows) < 2 and groups.WITHOUT_SERVERS in rows:
        return
    terminal.section("time by group")
    for name, (tests, seconds) in sorted(rows.items(), key=lambda row: -row[1][1]):
        terminal.line(f"{name:24}{tests:6} tests {seconds:8.1f} s")


def show_not_run(terminal: pytest.TerminalReporter, reports: list[pytest.TestReport]) -> None:
    """The tests whose servers cannot be started here, by reason."""
    reasons: dict[str, list[str]] = {}
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, mark, why = reason.partition(NOT_RUN)
        if report.skipped and mark:
            reasons.setdefault(why, []).append(report.nodeid)
    if not reasons:
        return
    terminal.section("NOT RUN", sep="!", red=True, bold=True)
    for why, tests in sorted(reasons.items()):
        terminal.line(f"NOT RUN: {len(tests)} tests, because {why}", red=True)
        for test in sorted(tests):
            terminal.line(f"  {test}")
