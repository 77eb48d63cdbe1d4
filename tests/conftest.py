"""Shared by all tests: Hypothesis profiles, fixtures for brokers and Kubernetes, the report of tests not run.

Fixtures start brokers lazily and share them over the session; in `make test`, until the group of tests ends:
`kafka(version, **options)` is a `KafkaCluster` that other tests use too, so use unique entity names, or
`empty_kafka`, which removes all quotas first. `kube` is one Kubernetes for all tests, with the CRDs installed: use
only your `kube_namespace`. `spark` is one Spark session, which jobs and commands that name no master also use.
Without Java or Maven, integration tests are listed as NOT RUN; if `CI` is set, they fail.
"""

import contextlib
import gc
import importlib
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests import groups, hypothesis_profiles, server_logs
from tests.servers import jars, raw_quotas
from tests.servers.cluster_pool import SharedClusters
from tests.servers.kafka import KafkaCluster, StartKafka
from tests.servers.kube.cluster import KubeCluster

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A process that a shell starts with & ignores SIGINT, and so do its children; tests of interruptions would never end.
    _ = signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # nohup ignores SIGHUP in the same way.
    _ = signal.signal(signal.SIGHUP, signal.SIG_DFL)

hypothesis_profiles.load()

NOT_RUN = "NOT RUN: "
"""Prefix of the reason of a skip if a server cannot be started on this machine."""
RUN_ALONE = ".venv/bin/python -m pytest -p no:randomly"


@pytest.fixture(scope="session")
def kafka() -> Iterator[StartKafka]:
    """Return `kafka(version, **options)`, which returns a running cluster, shared by equal arguments."""
    with contextlib.closing(SharedClusters()) as clusters:
        yield clusters.get


@pytest.fixture
def empty_kafka(kafka: StartKafka) -> StartKafka:
    """Like `kafka`, but removes all quotas first; the cluster needs the PLAINTEXT listener."""

    def start(version: str, **options: object) -> KafkaCluster:
        cluster = kafka(version, **options)
        for number in cluster.numbers:
            raw_quotas.clear(cluster.port(number))
        return cluster

    return start


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A local Spark session; tests that take it are marked `integration`."""
    jars.java_identity()
    with importlib.import_module("tests.servers.spark").local_session() as running:
        yield running


@pytest.fixture(scope="session")
def shared_kube() -> Iterator[KubeCluster]:
    """The Kubernetes of the session; use `kube`, which restarts stopped servers."""
    with KubeCluster() as cluster:
        cluster.install_crds()
        yield cluster


@pytest.fixture
def kube(shared_kube: KubeCluster) -> KubeCluster:
    """A shared Kubernetes with the CRDs of `crds/`, all of whose servers run."""
    shared_kube.heal()
    return shared_kube


@pytest.fixture
def kube_namespace(kube: KubeCluster) -> Iterator[str]:
    """The name of an empty namespace for one test; deleted afterwards without waiting."""
    name = kube.fresh_namespace()
    yield name
    kube.heal()
    kube.api.call("DELETE", f"/api/v1/namespaces/{name}")


@contextlib.contextmanager
def unavailable_is_not_run() -> Iterator[None]:
    """Convert `ServersUnavailable` to a failure in CI, elsewhere to a NOT RUN skip."""
    try:
        yield
    except jars.ServersUnavailable as missing:
        reason = str(missing)
    else:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must run this, but: {reason}", pytrace=False)
    pytest.skip(NOT_RUN + reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """End the fixtures of the session between groups of tests, because idle servers take CPU time."""
    if not groups.is_scheduled(item.config) or nextitem is None:
        return None
    if not groups.is_last_with_servers(item.nodeid, nextitem.nodeid):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runtestprotocol(item, nextitem=None)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Check for Java before integration tests; fixtures may find other programs missing."""
    with unavailable_is_not_run():
        if item.get_closest_marker("integration"):
            item.stash[server_logs.BEFORE] = server_logs.sizes()
            jars.java_identity()
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Handle `ServersUnavailable` of servers that a test itself starts."""
    with unavailable_is_not_run():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed integration test the command to run it alone, and new log lines of its servers."""
    report = yield
    if report.failed and item.get_closest_marker("integration"):
        report.sections.append(("run it alone", f"{RUN_ALONE} '{item.nodeid}'"))
        report.sections += server_logs.written_since(item.stash.get(server_logs.BEFORE, {}))
    return report


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With the marks of `make test` or `make stories`, skip files of which these run no test."""
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(groups.ROOT):
        return None
    path = collection_path.relative_to(groups.ROOT).as_posix()
    return True if groups.is_excluded(path, config.option.markexpr) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Mark stories and thorough tests before `-m` selects; then sort the tests by the table of groups."""
    servers = {item.nodeid for item in items if item.get_closest_marker("integration")}
    complete = config.args == config.getini("testpaths") and not config.option.markexpr
    faults = groups.faults_of_tables([item.nodeid for item in items], servers, complete=complete)
    if faults:
        report = pytest.CollectReport(groups.TABLES, "failed", "\n".join(faults), [])
        config.hook.pytest_collectreport(report=report)
    for item in items:
        if item.nodeid in servers and groups.is_story(item.nodeid):
            item.add_marker("story")
        elif item.nodeid not in servers and groups.is_thorough(item.nodeid):
            item.add_marker("thorough")
    result = yield
    if groups.is_scheduled(config):
        groups.sort_items(items)
    return result


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """End the run for a fault of the tables; in a worker of xdist an exception would be lost, so its controller ends."""
    if report.failed and report.nodeid == groups.TABLES and "PYTEST_XDIST_WORKER" not in os.environ:
        raise pytest.UsageError(str(report.longrepr))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude modules and tests from garbage collection, which would search all of them; collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_unconfigure() -> None:
    """Return modules to garbage collection: DuckDB takes those that are left at the end of a process for leaks, and lists them."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(
    config: pytest.Config, log: object
) -> groups.GroupScheduling | None:
    """Schedule `--dist loadscope` by the units of work of `tests.groups`."""
    if config.getoption("dist") != "loadscope":
        return None
    return groups.GroupScheduling(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the time of each group, and the tests that were not run with the reasons."""
    reports = [
        report
        for outcome in ("", "passed", "failed", "error", "skipped")
        for report in terminalreporter.stats.get(outcome, [])
        if isinstance(report, pytest.TestReport)
    ]
    show_groups(terminalreporter, reports)
    show_not_run(terminalreporter, reports)


def show_groups(terminal: pytest.TerminalReporter, reports: list[pytest.TestReport]) -> None:
    """Print a row for each group: number of tests, and their seconds over all workers."""
    rows = groups.seconds_by_group(reports)
    if len(rows) < 2 and groups.WITHOUT_SERVERS in rows:
        return
    terminal.section("time by group")
    for name, (tests, seconds) in sorted(rows.items(), key=lambda row: -row[1][1]):
        terminal.line(f"{name:24}{tests:6} tests {seconds:8.1f} s")


def show_not_run(terminal: pytest.TerminalReporter, reports: list[pytest.TestReport]) -> None:
    """Print the tests whose servers cannot be started on this machine, by reason."""
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
