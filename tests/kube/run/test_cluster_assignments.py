"""Which QuotaCluster manages a Kafka cluster to which several point."""

from typing import Any

from reconciler.kube.run.cluster_assignments import ClusterAssignments
from reconciler.kube.watch.resource_cache import ResourceCache
from tests.kube.worlds import quota_cluster, seen


def cluster(name: str, *, had: str = "", created: str = "2024-01-01T00:00:00Z") -> dict[str, Any]:
    obj = quota_cluster(name)
    obj["metadata"]["creationTimestamp"] = created
    if had:
        obj["status"] = {"clusterId": had}
    return obj


def keepers(*clusters: dict[str, Any]) -> tuple[ClusterAssignments, ResourceCache]:
    cache = ResourceCache()
    for obj in clusters:
        _ = cache.cluster_seen(seen(obj))
    return ClusterAssignments(cache), cache


def test_the_first_quota_cluster_that_requests_a_kafka_cluster_is_assigned():
    assignments, _ = keepers(cluster("prod"), cluster("also"))
    assert assignments.of("X", "prod") == "prod"
    assert assignments.of("X", "also") == "prod"
    assert assignments.of("Y", "also") == "also"


def test_after_a_restart_the_previously_assigned_quota_cluster_is_assigned_in_any_order():
    assignments, _ = keepers(cluster("prod", had="X"), cluster("also"))
    assert assignments.of("X", "also") == "prod"
    assert assignments.of("X", "prod") == "prod"


def test_of_two_previously_assigned_quota_clusters_the_older_one_is_assigned():
    older = cluster("z", had="X", created="2023-01-01T00:00:00Z")
    assignments, _ = keepers(cluster("a", had="X"), older)
    assert assignments.of("X", "a") == "z"


def test_a_quota_cluster_that_is_deleted_or_changes_its_kafka_cluster_releases_the_assignment():
    assignments, cache = keepers(cluster("prod"), cluster("also"))
    assert assignments.of("X", "prod") == "prod"
    assert assignments.of("Y", "prod") == "prod"
    assert assignments.of("X", "also") == "also"
    _ = cache.cluster_gone(seen(cluster("also")))
    assert assignments.of("X", "prod") == "prod"
    assignments.forget("prod")
    assert assignments.of("X", "prod") == "prod"
