"""Requests to the operator besides limits: reconcile now; clusters that are not its own."""

import pytest

from tests.kube.e2e.seeing import cluster_events, orphans
from tests.kube.e2e.world import World, eventually
from tests.servers import raw_quotas

pytestmark = pytest.mark.integration

MIB = 1048576.0


def ask(world: World, value: str, *what: str) -> None:
    """Request a reconciliation by the annotation; return when the operator has handled it."""
    annotation = f"kafka-quotas.io/requestedAt={value}"
    world.kube.kubectl("annotate", *what, "--overwrite", annotation)
    handled = ("-o", "jsonpath={.status.lastHandledReconcileAt}")
    eventually(lambda: world.kube.kubectl("get", *what, *handled).stdout == value)


def test_a_requested_reconciliation_starts_immediately(world: World) -> None:
    world.cluster(interval="1h")
    operator = world.start()
    world.quota("alice")
    world.quota("paused", suspend=True)
    world.becomes("alice", "Synced")
    world.becomes("paused", "Suspended")
    for name in ("alice", "paused"):
        ask(world, "first", "clientquota", name, "-n", world.team)
    # Between two intervals there is no reconciliation, unless one is requested; drift needs two.
    raw_quotas.set_quotas(
        world.kafka.port(), {raw_quotas.entity(user="alice"): {"producer_byte_rate": 3 * MIB}}
    )
    ask(world, "second", "quotacluster", "prod")
    ask(world, "by hand", "clientquota", "alice", "-n", world.team)
    world.becomes("alice", "Drifted")
    assert operator.metric("kquota_passes_total", cluster="prod") < 20


def test_a_cluster_with_an_unexpected_id_is_never_written(world: World) -> None:
    world.cluster()
    world.start("--deletion-timeout=6s")
    world.quota("alice", deletionPolicy="Delete")
    world.quota("bob", deletionPolicy="Delete")
    world.quota("carol", deletionPolicy="Delete")
    for name in ("alice", "bob", "carol"):
        world.becomes(name, "Synced")
    world.cluster(expectedClusterId="AAAAAAAAAAAAAAAAAAAAAA")
    world.becomes("prod", "WrongCluster", kind="quotacluster")
    world.quota("alice", limits={"producerByteRate": "2Mi"}, deletionPolicy="Delete")
    world.becomes("alice", "WrongCluster")
    world.delete("bob")
    eventually(lambda: not world.get("bob"), what="the deletion to give up")
    assert {name: values["producer_byte_rate"] for name, values in world.live().items()} == {
        "alice": MIB,
        "bob": MIB,
        "carol": MIB,
    }
    assert cluster_events(world, "WrongCluster")

    # The quota of bob's document is orphaned in the cluster in which it was applied.
    world.cluster()
    world.becomes("alice", "Synced")
    eventually(lambda: orphans(world) == {"user=bob producer_byte_rate"})
    assert world.live()["alice"] == {"producer_byte_rate": 2 * MIB}


def test_only_one_quotacluster_manages_a_kafka_cluster_and_classes_are_separate(
    world: World,
) -> None:
    world.cluster()
    world.start()
    world.quota("alice")
    world.becomes("alice", "Synced")
    world.cluster("twin")
    world.cluster("foreign", operatorClass="blue")
    world.quota("bob", cluster="twin")
    world.quota("carol", cluster="foreign")
    world.becomes("twin", "OtherQuotaCluster", kind="quotacluster")
    world.becomes("bob", "OtherQuotaCluster")
    assert world.reason("prod", kind="quotacluster") == "Synced"
    assert cluster_events(world, "OtherQuotaCluster", "twin")
    # After the first one is deleted, the other one takes over.
    world.kube.kubectl("delete", "quotacluster", "prod")
    world.becomes("bob", "Synced")
    world.becomes("alice", "ClusterNotFound")
    assert set(world.live()) == {"alice", "bob"}
    for name, kind in (("foreign", "quotacluster"), ("carol", "clientquota")):
        assert "status" not in world.get(name, kind=kind), "it belongs to another operator"
    world.kube.kubectl("delete", "quotacluster", "twin")
    world.becomes("bob", "ClusterNotFound")
    world.start("--operator-class=blue", "--no-leader-elect")
    world.becomes("carol", "Synced")
