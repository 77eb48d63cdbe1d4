"""One Kubernetes for the tests of the chart: no CRDs of ours until a chart brings them, and the definitions of others."""

from collections.abc import Iterator

import pytest

from tests.charts import foreign
from tests.charts.chart_renderer import NAMESPACE
from tests.servers.kube.cluster import KubeCluster

WATCHED = ("kqr-one", "kqr-two")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="session")
def bare_kube() -> Iterator[KubeCluster]:
    """A Kubernetes that knows cert-manager's and the Prometheus operator's resources, with the namespaces of the values."""
    with KubeCluster() as cluster:
        cluster.kubectl("apply", "--server-side", "-f", str(foreign.definitions()))
        for name in (NAMESPACE, *WATCHED):
            metadata = {"name": name, "labels": RESTRICTED if name == NAMESPACE else {}}
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        gvisor = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runsc"}
        cluster.apply({**gvisor, "metadata": {"name": "gvisor"}})
        yield cluster


@pytest.fixture(scope="session")
def chart_kube(bare_kube: KubeCluster) -> KubeCluster:
    """The same, with the CRDs of `crds/` applied by kubectl: for tests that do not install them by helm."""
    bare_kube.install_crds()
    return bare_kube
