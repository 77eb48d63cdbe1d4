"""Which QuotaCluster looks after a Kafka cluster that several point at."""

from typing import Any

from reconciler.kube.run.cluster_assignments import ClusterAssignments
from reconciler.kube.watch.resource_cache import ResourceCache
from tests.kube.worlds import quota_cluster


def cluster(name: str, *, had: str = "", created: str = "2024-01-01T00:00:00Z") -> dict[str, Any]:
    made = quota_cluster(name)
    made["metadata"]["creationTimestamp"] = created
    if had:
        made["status"] = {"clusterId": had}
    return made


def keepers(*clusters: dict[str, Any]) -> tuple[ClusterAssignments, ResourceCache]:
    cache = ResourceCache()
    for one in clusters:
        _ = cache.cluster_seen(one)
    return ClusterAssignments(cache), cache


def test_the_first_that_asks_has_it():
    asked, _ = keepers(cluster("prod"), cluster("also"))
    assert asked.of("X", "prod") == "prod"
    assert asked.of("X", "also") == "prod"
    assert asked.of("Y", "also") == "also"


def test_after_a_restart_the_one_that_had_it_has_it_whoever_asks_first():
    asked, _ = keepers(cluster("prod", had="X"), cluster("also"))
    assert asked.of("X", "also") == "prod"
    assert asked.of("X", "prod") == "prod"


def test_of_two_that_had_it_the_older_one_has_it():
    older = cluster("z", had="X", created="2023-01-01T00:00:00Z")
    asked, _ = keepers(cluster("a", had="X"), older)
    assert asked.of("X", "a") == "z"


def test_who_is_deleted_or_looks_after_another_one_leaves_it_to_the_next():
    asked, cache = keepers(cluster("prod"), cluster("also"))
    assert asked.of("X", "prod") == "prod"
    assert asked.of("Y", "prod") == "prod"
    assert asked.of("X", "also") == "also"
    _ = cache.cluster_gone(cluster("also"))
    assert asked.of("X", "prod") == "prod"
    asked.forget("prod")
    assert asked.of("X", "prod") == "prod"
