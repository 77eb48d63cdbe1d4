"""One document for two brokers: a selector, limits of one cluster, labels that move it, grants of each cluster, its deletion."""

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
    """A second broker, of another version; empty before and after."""
    cluster = kafka("4.3.1")
    raw_quotas.clear(cluster.port())
    yield cluster
    raw_quotas.clear(cluster.port())


def alice(cluster: KafkaCluster) -> dict[str, float]:
    return raw_quotas.describe(cluster.port()).get(ALICE, {})


def begin(world: World, west: KafkaCluster, **spec: Any) -> None:
    """Two QuotaClusters of Europe, one of them large, an operator, and a document that selects Europe."""
    world.cluster("east", labels={**EUROPE, "size": "large"})
    world.cluster("west", labels=EUROPE, bootstrapServers=west.bootstrap(), **spec)
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
    """What each selected cluster says, by its name."""
    return {part["name"]: part for part in world.get("alice")["status"]["clusters"]}


def becomes(world: World, reason: str, **reasons: str) -> None:
    """Wait until the document and each selected cluster give these reasons."""

    def is_in_status() -> bool:
        return reasons == {
            name: next(row["reason"] for row in part["conditions"] if row["type"] == "Ready")
            for name, part in parts(world).items()
        }

    eventually(is_in_status, what=f"clusters to say {reasons}")
    world.becomes("alice", reason)


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


def test_each_cluster_judges_the_document_by_its_own_tenants(
    world: World, west: KafkaCluster
) -> None:
    def tenants(user: str, *, most: str) -> list[dict[str, Any]]:
        return [
            {
                "namespaces": [world.team],
                "entities": [{"user": {"prefix": user}}],
                "bounds": {"producerByteRate": {"max": most}},
                "allow": ["Delete"],
            }
        ]

    begin(world, west, tenants=tenants("bob", most="9Mi"))
    becomes(world, "NotGranted", east="Synced", west="NotGranted")
    assert "west: " in world.condition("alice", "Ready")["message"]
    assert alice(world.kafka)["producer_byte_rate"] == 8 * MIB
    assert alice(west) == {}

    # The bound of west admits its general limit; the larger one of east is not judged there.
    granted = tenants("alice", most="2Mi")
    world.cluster("west", labels=EUROPE, bootstrapServers=west.bootstrap(), tenants=granted)
    becomes(world, "Synced", east="Synced", west="Synced")
    assert alice(west)["producer_byte_rate"] == MIB

    # The same bound in the large cluster refuses its value there, and only there.
    world.cluster("east", labels={**EUROPE, "size": "large"}, tenants=granted)
    becomes(world, "NotGranted", east="NotGranted", west="Synced")
    assert alice(world.kafka)["producer_byte_rate"] == 8 * MIB, "a refusal removes nothing"
