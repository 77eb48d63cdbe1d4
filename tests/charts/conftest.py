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
    """A Kubernetes that knows our resources, cert-manager's and the Prometheus operator's, with the namespaces of the values.

    For tests that do not install our CRDs by helm.
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
