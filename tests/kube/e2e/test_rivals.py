"""Two documents for one limit: the owner, the status of the other one, and the deletion of either."""

import pytest

from tests.kube.e2e.seeing import History, sent, through, watched_kafka
from tests.kube.e2e.world import World, eventually

pytestmark = pytest.mark.integration

MIB = 1048576.0


@pytest.mark.parametrize("policy", ["Sync", "Upsert"])
def test_the_next_document_takes_over_a_pair_without_an_intermediate_value(
    world: World, policy: str
) -> None:
    confirmed = {"confirmSync": world.kafka.cluster_id, "expectedClusterId": world.kafka.cluster_id}
    gone = {} if policy == "Sync" else {"deletionPolicy": "Delete"}
    with watched_kafka(world) as proxy:
        world.cluster(
            policy=policy,
            bootstrapServers=through(proxy),
            **(confirmed if policy == "Sync" else {}),
        )
        world.start()
        world.quota("first", user="alice", limits={"producerByteRate": "1Mi"}, **gone)
        world.becomes("first", "Synced")
        world.kube.apply(
            world.document("second", user="alice", limits={"producerByteRate": "2Mi"}, **gone),
            world.document("third", user="alice", limits={"producerByteRate": "3Mi"}, **gone),
            world.document("other-key", user="alice", limits={"consumerByteRate": "4Mi"}, **gone),
            namespace=world.team,
        )
        world.becomes("other-key", "Synced")
        for loser in ("second", "third"):
            world.becomes(loser, "Conflict")
            assert world.condition(loser, "Stalled")["status"] == "True"
            assert world.condition(loser, "Conflict")["status"] == "True"
            assert "first" in world.condition(loser, "Ready")["message"]
        assert world.live()["alice"] == {"producer_byte_rate": MIB, "consumer_byte_rate": 4 * MIB}

        before = sent(proxy)
        world.kube.kubectl("delete", "clientquota", "third", "-n", world.team, "--timeout=240s")
        world.place.kube.kubectl("get", "quotacluster", "prod")
        assert sent(proxy) == before, "deleting a loser wrote to Kafka"

        with History(world.kafka.port(), "alice") as history:
            eventually(lambda: history.states)
            world.delete("first")
            world.becomes("second", "Synced")
            eventually(lambda: not world.get("first"), what="the winner to be gone")
        assert history.of("producer_byte_rate") == [MIB, 2 * MIB]
        assert history.of("consumer_byte_rate") == [4 * MIB]
        assert world.condition("second", "Conflict")["status"] == "False"
        assert sent(proxy) == before + 1


def test_a_losing_document_that_is_created_and_deleted_changes_nothing(world: World) -> None:
    world.cluster(
        policy="Sync", confirmSync=world.kafka.cluster_id, expectedClusterId=world.kafka.cluster_id
    )
    operator = world.start()
    world.quota("first", user="alice", limits={"producerByteRate": "1Mi"})
    world.becomes("first", "Synced")
    world.quota("second", user="alice", limits={"producerByteRate": "1Mi"}, deletionPolicy="Delete")
    world.becomes("second", "Conflict")
    world.quota("second", user="alice", limits={"producerByteRate": "5Mi"}, deletionPolicy="Delete")
    world.becomes("second", "Conflict")
    assert operator.stop() == 0
    with History(world.kafka.port(), "alice") as history:
        world.delete("second")
        world.start()
        eventually(lambda: not world.get("second"), what="the loser to be gone")
        world.becomes("first", "Synced")
    assert history.of("producer_byte_rate") == [MIB]
