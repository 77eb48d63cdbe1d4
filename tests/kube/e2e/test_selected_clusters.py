"""One document for two brokers: a selector, limits of one cluster, labels that change the selection, its deletion."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kube.e2e.seeing import has_finalizer
from tests.kube.e2e.world import World, eventually
from tests.servers import raw_quotas
from tests.servers.kafka import KafkaCluster, StartKafka

pytestmark = pytest.mark.integration

MIB = 1048576.0
EUROPE = {"region": "eu"}
AMERICA = {"region": "us"}
ALICE = raw_quotas.entity(user="alice")


@pytest.fixture
def west(kafka: StartKafka) -> Iterator[KafkaCluster]:
    """A second broker, of another version; empty at start and end."""
    cluster = kafka("4.3.1")
    raw_quotas.clear(cluster.port())
    yield cluster
    raw_quotas.clear(cluster.port())


def alice(cluster: KafkaCluster) -> dict[str, float]:
    return raw_quotas.describe(cluster.port()).get(ALICE, {})


def begin(world: World, west: KafkaCluster) -> None:
    """Two QuotaClusters of Europe, one of them large, an operator, and a document that selects Europe."""
    world.cluster("east", labels={**EUROPE, "size": "large"})
    world.cluster("west", labels=EUROPE, bootstrapServers=west.bootstrap())
    world.start()
    world.quota(
        "alice",
        limits={"producerByteRate": "1Mi", "consumerByteRate": "3Mi"},
        deletionPolicy="Delete",
        clusterRef=None,
        clusterSelector={"matchLabels": EUROPE},
        clusterLimits=[
            {
                "clusterSelector": {"matchLabels": {"size": "large"}},
                "limits": {"producerByteRate": "8Mi"},
            }
        ],
    )


def parts(world: World) -> dict[str, Any]:
    """The status of each selected cluster, by its name."""
    return {part["name"]: part for part in world.get("alice")["status"]["clusters"]}


def test_both_brokers_get_their_values_a_label_moves_them_and_the_deletion_removes_both(
    world: World, west: KafkaCluster
) -> None:
    begin(world, west)
    obj = world.becomes("alice", "Synced")
    assert has_finalizer(obj)
    assert obj["status"]["clustersReady"] == "2/2"
    large = {"producer_byte_rate": 8 * MIB, "consumer_byte_rate": 3 * MIB}
    general = {"producer_byte_rate": MIB, "consumer_byte_rate": 3 * MIB}
    assert (alice(world.kafka), alice(west)) == (large, general)
    selectors = {
        name: {key["key"]: key["selectedBy"] for key in part["keys"]}
        for name, part in parts(world).items()
    }
    assert selectors == {
        "east": {
            "producer_byte_rate": "region=eu; clusterLimits[0] size=large",
            "consumer_byte_rate": "region=eu",
        },
        "west": {"producer_byte_rate": "region=eu", "consumer_byte_rate": "region=eu"},
    }
    assert parts(world)["east"]["clusterId"] == world.kafka.cluster_id
    assert parts(world)["west"]["clusterId"] == west.cluster_id

    world.cluster("west", labels=AMERICA, bootstrapServers=west.bootstrap())
    eventually(lambda: not alice(west), what="the cluster that is no longer selected to lose it")
    eventually(lambda: set(parts(world)) == {"east"}, what="the status to name one cluster")
    assert world.becomes("alice", "Synced")["status"]["clustersReady"] == "1/1"
    assert alice(world.kafka) == large

    world.cluster("west", labels={**EUROPE, "size": "large"}, bootstrapServers=west.bootstrap())
    eventually(lambda: alice(west) == large, what="the values of a large cluster")
    eventually(lambda: world.get("alice")["status"]["clustersReady"] == "2/2")

    world.delete("alice")
    eventually(lambda: not world.get("alice"), what="the document to be released by both clusters")
    assert (alice(world.kafka), alice(west)) == ({}, {})
