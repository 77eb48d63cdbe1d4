"""The cache: changes that trigger a cluster, deletions, and replacement by a complete listing."""

from reconciler.kube.watch.resource_cache import ResourceCache
from tests.kube.worlds import seen


def quota_cluster(name, *, uid="c1", generation=1):
    return {"metadata": {"name": name, "uid": uid, "generation": generation}, "spec": {}}


def test_clusters_are_triggered_by_their_spec_and_their_deletion():
    cache = ResourceCache()
    assert cache.cluster_seen(seen(quota_cluster("prod"))) == {"prod"}
    assert cache.cluster_seen(seen(quota_cluster("prod"))) == frozenset()
    assert cache.cluster_seen(seen(quota_cluster("prod", generation=2))) == {"prod"}
    assert cache.clusters_listed([seen(quota_cluster("test"))]) == {"prod", "test"}
    assert cache.cluster_gone(seen(quota_cluster("prod"))) == frozenset()
    assert cache.cluster_gone(seen(quota_cluster("test"))) == {"test"}
