"""Parts of records that contradict each other, records of documents that were not observed, and damaged ConfigMaps."""

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.errors import InventoryError, KubernetesUnavailable
from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.api.resource_paths import CONFIG_MAPS, ApiResource
from reconciler.kube.records.config_maps import config_maps, read
from reconciler.kube.records.stored_records import StoredRecords, part_of
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.ownership import OwnershipRecords
from tests.kube.scenarios import resource
from tests.kube.worlds import KubeWorld
from tests.reconcile.scenarios import RATE

SALT = "salt"


def entity_in_part(number: int, prefix: str) -> Entity:
    names = (entity(user=f"{prefix}{place}") for place in range(99))
    return next(subject for subject in names if part_of(subject, SALT) == number)


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
