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

import hypothesis
import pytest

from tests.servers import jars, raw_quotas
from tests.servers.kafka import KafkaCluster, StartKafka
from tests.servers.kube.cluster import KubeCluster
from tests.servers.shared import SharedClusters

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts this with & ignores Ctrl-C for it and its children, and tests of interruptions would never end.
    _ = signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("fast", derandomize=True, max_examples=25, deadline=None)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

NOT_RUN = pytest.StashKey[dict[str, str]]()


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
def unavailable_is_told(item: pytest.Item) -> Iterator[None]:
    """Turns `ServersUnavailable` into a failure in CI, elsewhere into an entry of the NOT RUN list."""
    try:
        yield
    except jars.ServersUnavailable as missing:
        reason = str(missing)
    else:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must run this, but: {reason}", pytrace=False)
    item.config.stash.setdefault(NOT_RUN, {})[item.nodeid] = reason
    pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Real servers need Java, whatever else they need; fixtures may find out more."""
    with unavailable_is_told(item):
        if item.get_closest_marker("integration"):
            jars.java_identity()
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test may start servers of its own."""
    with unavailable_is_told(item):
        return (yield)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Lists loudly what was not run, and why."""
    not_run = config.stash.get(NOT_RUN, {})
    if not not_run:
        return
    terminalreporter.section("NOT RUN", sep="!", red=True, bold=True)
    for reason in sorted(set(not_run.values())):
        tests = sorted(test for test, why in not_run.items() if why == reason)
        terminalreporter.line(f"NOT RUN: {len(tests)} tests, because {reason}", red=True)
        for test in tests:
            terminalreporter.line(f"  {test}")
