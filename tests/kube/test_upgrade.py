"""An upgrade from records in a growing series of ConfigMaps, which are no longer read: every limit stays in Kafka.

Ownership is adopted again by the documents that declare what is live, so nothing has to be migrated.
"""

import asyncio
from typing import Any

import pytest

from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import record_store
from reconciler.quota.entity import entity
from tests.kube.run.test_cluster_reconciler import RATE, SHARE, World, limits
from tests.kube.worlds import resource

CONTENT = (
    "H4sIAAAAAAAAA41RQU7DMBC85xl7NsUpIFDOvIBr1INrb8DEXZeNU4Sq/J2N4xwjxYfVjjzjmZHv0Hty"
    "0ED/M8ZkHjzdkFLkP1DQRb6YBE2twIZxSMgDNPcKOtNjXq4cv9EKA0BV0FP8JWgSjygIyaG8qw9agFxk"
    "cVu1kNBcHk3wFsXiHQMmWepXXc5Bn9TKOsezcD4wGU9bHGs4BlA0hrDB+Iy0aSUsYLSRXUlXgnUmDFhm"
    "e9TPb1IjW7zodZvHSS0+OehuTZ01Jfhu1TGrljK7RU+5oackn5obztCx79IKIl+/DM1fVfANmb3DhT1V"
    "01T9A93ReSgkAgAA"
)
DOCUMENTS = (
    "H4sIAAAAAAAAA6tWKklNzNVPzMlMTlWyUirNTNGFsHUgEkn5SVBhEAsqmJxYlJ8DFYawoRLp+XkwU8DM"
    "WgCrNsk7XwAAAA=="
)
SERIES = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "kquota-b5d54c39e66671c9-ledger-0-0of1",
        "namespace": "ops",
        "labels": {
            "app.kubernetes.io/managed-by": "kafka-quota-reconciler",
            "kafka-quotas.io/cluster": "b5d54c39e66671c9",
            "kafka-quotas.io/records": "ledger",
        },
        "annotations": {"kafka-quotas.io/cluster-id": "fake"},
    },
    "binaryData": {"content": CONTENT, "documents": DOCUMENTS},
}
"""As the operator before wrote it: producer_byte_rate 2048 and request_percentage 50 of alice, bob, carol and gone."""

NAMES = {"alice": "Delete", "bob": "Retain", "carol": None, "gone": "Delete"}


def upgraded(**spec: Any) -> World:
    """The documents, quotas and records of before, where ``gone`` was deleted while no operator ran."""
    world = World(expectedClusterId="fake", **spec)
    world.kafka.cluster_id = "fake"
    world.api.put(CONFIG_MAPS, SERIES)
    for name, policy in NAMES.items():
        world.kafka.write(entity(user=name), RATE, 2048.0)
        world.kafka.write(entity(user=name), SHARE, 50.0)
        more = {} if policy is None else {"deletionPolicy": policy}
        document = resource(name, entity(user=name), {RATE: 2048, SHARE: 50}, **more)
        document["status"] = {
            "observedGeneration": 1,
            "clusterId": "fake",
            "keys": [{"key": RATE.value, "desired": 2048, "live": 2048, "applied": 2048}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Synced"}],
        }
        if name != "gone":
            world.put(document)
    return world


@pytest.mark.parametrize("policy", ["Upsert", "Sync"])
def test_an_upgrade_keeps_every_limit_and_adopts_ownership_again(policy: str) -> None:
    world = upgraded(policy=policy, confirmSync="fake")
    before = world.live()
    for _ in range(3):
        world.turn(resync=True)
    assert world.live() == before == dict.fromkeys(before, limits(2048.0, 50.0))
    assert {name for name in NAMES if name != "gone" and world.reason(name) == "Synced"} == {
        "alice",
        "bob",
        "carol",
    }
    owned = asyncio.run(record_store.read(world.api, "ops", "fake")).owned
    assert {subject[0] for subject in owned.records} == {"alice", "bob", "carol"}
    assert world.api.find(CONFIG_MAPS, "ops", "kquota-b5d54c39e66671c9-ledger-0-0of1")
    world.delete("alice")
    world.delete("bob")
    for _ in range(3):
        world.turn(resync=True)
    assert set(world.live()) == {entity(user=name) for name in ("bob", "carol", "gone")}
