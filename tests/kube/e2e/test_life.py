"""From `kubectl apply` to the broker and back: create, change, delete, restart."""

import pytest

from tests.kube.e2e.world import World, eventually

pytestmark = pytest.mark.integration


def test_an_applied_document_is_in_the_broker_and_a_restart_writes_nothing(world: World) -> None:
    world.cluster()
    operator = world.start()
    world.quota("alice", limits={"producerByteRate": "10Mi"})
    alice = world.becomes("alice", "Synced")
    assert world.live() == {"alice": {"producer_byte_rate": 10485760.0}}
    assert alice["status"]["entity"] == "user=alice"

    world.quota("alice", limits={"producerByteRate": "20Mi", "requestPercentage": 50})
    world.becomes("alice", "Synced")
    assert world.live() == {"alice": {"producer_byte_rate": 20971520.0, "request_percentage": 50.0}}

    # A stop ends the current request: the status of the change is written before it.
    eventually(
        lambda: world.get("prod", kind="quotacluster")["status"]["counts"]["owned"] == 2,
        what="the QuotaCluster to count both keys",
    )
    passes = operator.metric("kquota_passes_total", cluster="prod")
    eventually(
        lambda: operator.metric("kquota_passes_total", cluster="prod") >= passes + 2,
        what="two reconciliations after the change",
    )
    assert operator.stop() == 0
    with world.counted() as writes:
        again = world.start()
        eventually(lambda: again.metric("kquota_passes_total", cluster="prod") >= 2)
    assert writes == {}
