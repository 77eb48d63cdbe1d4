"""Shared by the tests of the CRDs."""

from collections.abc import Iterator

import pytest

from tests.kube.crds.documents import FULL_CLUSTER
from tests.kube.crds.resources import create
from tests.manifest.samples import cluster
from tests.servers.kube.cluster import KubeCluster


@pytest.fixture
def own_cluster(kube: KubeCluster, kube_namespace: str) -> Iterator[str]:
    """The path of a QuotaCluster with every field, named after the namespace of the test."""
    document = cluster(**FULL_CLUSTER)
    document["metadata"]["name"] = kube_namespace
    path = create(kube, document)
    yield path
    kube.api.call("DELETE", path)
