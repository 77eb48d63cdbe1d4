"""One Kubernetes for the tests of the chart, with the CRDs of kquota and the other CRDs that the chart uses."""

from collections.abc import Iterator

import pytest

from tests.charts import foreign
from tests.charts.chart_renderer import NAMESPACE
from tests.servers.kube.cluster import KubeCluster

WATCHED = ("kqr-one", "kqr-two")
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="session")
def chart_kube() -> Iterator[KubeCluster]:
    """A Kubernetes with the CRDs of kquota, cert-manager and the Prometheus operator, and the chart's namespaces.

    For tests that do not install the CRDs of kquota by helm.
    """
    with KubeCluster() as cluster:
        cluster.kubectl("apply", "--server-side", "-f", str(foreign.definitions()))
        for name in (NAMESPACE, *WATCHED):
            metadata = {"name": name, "labels": RESTRICTED if name == NAMESPACE else {}}
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        gvisor = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runsc"}
        cluster.apply({**gvisor, "metadata": {"name": "gvisor"}})
        cluster.install_crds()
        yield cluster
