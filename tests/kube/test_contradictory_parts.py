"""Parts of records that contradict each other, records of documents that were not observed, and damaged ConfigMaps."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import InventoryError, KubernetesUnavailable
from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.api.resource_paths import CONFIG_MAPS, ApiResource
from reconciler.kube.records.config_map_reader import read
from reconciler.kube.records.config_maps import config_maps
from reconciler.kube.records.record_parts import part_of
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.ownership import Intent, IntentStarted, Owner, OwnershipRecords
from reconciler.quota.policy import DeletionPolicy
from tests.kube.scenarios import resource
from tests.kube.worlds import KubeWorld
from tests.reconcile.scenarios import ALICE, BOB, RATE

SALT = "salt"


def entity_in_part(number: int, prefix: str) -> Entity:
    names = (entity(user=f"{prefix}{place}") for place in range(99))
    return next(subject for subject in names if part_of(subject, SALT) == number)


def store(world: KubeWorld, stored: StoredRecords) -> None:
    """Replace the ConfigMaps of the records, and the process that has read them."""
    for key in [key for key in world.api.objects if key[0] == CONFIG_MAPS.plural]:
        del world.api.objects[key]
    objects = config_maps(stored, namespace="ops")
    for obj in objects.values():
        world.api.put(CONFIG_MAPS, obj)
    world.restart()


def test_an_interrupted_write_of_parts_removes_no_retained_limit() -> None:
    first, second = entity_in_part(2, "u"), entity_in_part(0, "v")
    world = KubeWorld(policy="Upsert")
    world.put(resource("x", first, {RATE: 2048}, deletionPolicy="Retain"))
    world.run()
    world.delete("team/x", finalizer=False)
    world.run()
    world.run()
    world.put(resource("x", second, {RATE: 4096}, deletionPolicy="Retain"))
    original = world.api.replace

    async def lose_one_part(of: ApiResource, namespace: str, name: str, body: Obj) -> Any:
        if of is CONFIG_MAPS and name.endswith("-2"):
            raise KubernetesUnavailable("lost")
        return await original(of, namespace, name, body)

    world.api.replace = lose_one_part
    with pytest.raises(KubernetesUnavailable):
        _ = world.run()
    world.api.replace = original
    world.restart()
    for _ in range(3):
        world.run()
        assert world.live()[first][COLUMN_OF[RATE]] == 2048
    assert world.live()[second][COLUMN_OF[RATE]] == 4096


def test_an_open_write_of_a_document_deleted_unobserved_removes_no_limit() -> None:
    world = KubeWorld(policy="Upsert", live={ALICE: {RATE: 2048.0}})
    world.put(resource("other", BOB, {RATE: 1}))
    world.run()
    stored = world.load()[0]
    owner = Owner(document="team/alice", deletion_policy=DeletionPolicy.DELETE, since=0.0)
    intent = Intent(value=2048.0, at=world.clock.now(), owner=owner)
    owned = stored.owned.with_changes([IntentStarted(entity=ALICE, key=RATE, intent=intent)])
    store(world, replace(stored, owned=owned, uids={**stored.uids, "team/alice": "gone"}))
    for _ in range(3):
        world.run()
        assert world.live()[ALICE][COLUMN_OF[RATE]] == 2048


@pytest.mark.parametrize("policy", ["Upsert", "Sync"])
def test_a_restored_document_owns_its_limits_again_and_its_deletion_removes_them(
    policy: str,
) -> None:
    world = KubeWorld(policy=policy)
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.run()
    del world.api.objects["clientquotas", "team", "alice"]
    world.restart()
    restored = resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete")
    restored["metadata"]["uid"] = "another"
    world.put(restored)
    world.run()
    world.run()
    world.delete("team/alice", finalizer=True)
    world.run()
    world.run()
    assert world.live() == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda obj: obj.pop("binaryData"),
        lambda obj: obj.__setitem__("binaryData", None),
        lambda obj: obj["binaryData"].pop("content", None),
    ],
    ids=["none", "null", "without content"],
)
def test_a_config_map_without_its_content_is_an_error_and_not_empty(
    damage: Callable[[Obj], object],
) -> None:
    stored = StoredRecords(owned=OwnershipRecords(cluster_id="c", is_known=True), salt=SALT)
    objects = config_maps(stored, namespace="ops")
    parts = list(objects.values())
    _ = damage(parts[0])
    with pytest.raises(InventoryError):
        _ = read("c", parts)
