"""An upgrade of chart and operator over the objects of the previous operator: no write to Kafka, no loss."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.policy import DeletionPolicy
from tests.kube.e2e.seeing import orphans, records, sent, through, watched_kafka
from tests.kube.e2e.world import Place, World, eventually
from tests.servers import raw_quotas
from tests.servers.kafka import KafkaCluster
from tests.servers.kube.api import MERGE_PATCH
from tests.servers.kube.cluster import KubeCluster
from tests.upgrade.previous_objects import CHART, CLUSTER_ID, OBJECTS, TEAM

pytestmark = pytest.mark.integration

GROUP = "/apis/kafka-quotas.io/v1alpha1"
REASONS = {
    "alice": "Synced",
    "bob": "Synced",
    "dave": "OverrideActive",
    "erin": "Drifted",
    "frank": "Suspended",
}
RATE = Key.PRODUCER_BYTE_RATE


class PreviousPlace(Place):
    """Kubernetes with the previous chart, where any user may still write statuses."""

    def install(self) -> None:
        self.release(CHART)

    def upgrade(self) -> None:
        super().install()


@pytest.fixture
def previous_place() -> Iterator[PreviousPlace]:
    kafka = KafkaCluster("4.4.0")
    kafka.cluster_id = CLUSTER_ID
    with KubeCluster() as kube, kafka:
        yield PreviousPlace(kube, kafka)


def put(kube: KubeCluster, obj: dict[str, Any], path: str) -> None:
    """Create an object with its status."""
    kube.api.call("POST", path, obj).need()
    if "status" in obj:
        url = f"{path}/{obj['metadata']['name']}/status"
        kube.api.call("PATCH", url, {"status": obj["status"]}, kind=MERGE_PATCH).need()


def live_quotas(world: World) -> dict[Any, dict[str, float]]:
    return raw_quotas.describe(world.kafka.port())


def restore(world: World, bootstrap: str) -> None:
    """Restore all objects of the previous operator."""
    kube = world.kube
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}
    kube.api.call("POST", "/api/v1/namespaces", body).need()
    for obj in OBJECTS["quotaclusters"]:
        spec = {**obj["spec"], "bootstrapServers": bootstrap}
        put(kube, {**obj, "spec": spec}, f"{GROUP}/quotaclusters")
    for obj in OBJECTS["clientquotas"]:
        put(kube, obj, f"{GROUP}/namespaces/{TEAM}/clientquotas")
    for obj in OBJECTS["configmaps"]:
        put(kube, obj, f"/api/v1/namespaces/{world.place.namespace}/configmaps")
    quotas = {tuple(map(tuple, names)): values for names, values in OBJECTS["live"]}
    raw_quotas.set_quotas(world.kafka.port(), quotas)
    raw_quotas.wait_for(world.kafka.port(), lambda live: live == quotas)


def reasons(world: World) -> dict[str, str]:
    return {name: world.reason(name, namespace=TEAM) for name in REASONS}


def test_an_upgrade_writes_nothing_to_kafka_and_loses_nothing(
    previous_place: PreviousPlace, tmp_path: Path
) -> None:
    place = previous_place
    with World(place, tmp_path) as world, watched_kafka(world) as proxy:
        restore(world, through(proxy))
        before = live_quotas(world)
        place.upgrade()
        operator = world.start()
        eventually(lambda: operator.metric("kquota_passes_total") >= 4)
        eventually(lambda: reasons(world) == REASONS, what=f"the reasons {REASONS}")

        assert sent(proxy) == 0
        assert live_quotas(world) == before
        owned = records(world)
        owners = {
            (subject, key): owner
            for subject, record in owned.records.items()
            for key, owner in record.pairs()
        }
        assert {subject[0] for subject, _ in owners} == {*REASONS, "carol"}
        alice, bob = entity(user="alice"), entity(user="bob")
        assert owners[alice, RATE].deletion_policy is DeletionPolicy.DELETE
        assert owners[alice, RATE].document == f"{TEAM}/alice"
        assert owners[bob, Key.CONSUMER_BYTE_RATE].deletion_policy is DeletionPolicy.RETAIN
        assert orphans(world) == {"user=carol producer_byte_rate"}
        override = owned.overrides[entity(user="dave"), RATE]
        assert (override.reason, override.declared) == ("INC-1", 3145728.0)
        counts = world.get("prod", kind="quotacluster")["status"]["counts"]
        earlier_counts = OBJECTS["quotaclusters"][0]["status"]["counts"]
        assert {name: counts[name] for name in earlier_counts} == earlier_counts

        # It continues to reconcile the adopted documents.
        for name in ("alice", "bob"):
            world.delete(name, namespace=TEAM)
        eventually(lambda: "alice" not in world.live(), what="what is ours to be removed")
        eventually(lambda: not world.get("bob", namespace=TEAM))
        assert world.live()["bob"] == before[raw_quotas.entity(user="bob")]
        world.quota("carol", namespace=TEAM, limits={"producerByteRate": "2Mi"})
        world.becomes("carol", "Synced", namespace=TEAM)
        maps = place.items("configmaps", place.namespace)
        series = [obj["metadata"].get("labels", {}).get("kafka-quotas.io/records") for obj in maps]
        assert "records" not in series, "the older series is replaced"
        assert json.dumps(series).count("ledger") == 1
