"""A namespace that fills its share of a part of the records: its newest documents report it, and all others go on."""

from typing import Any

import pytest

from reconciler.kube.records import record_index
from reconciler.kube.records.record_index import RECORDS_FULL, size_of
from reconciler.kube.records.stored_records import part_of
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from tests.kube.worlds import KubeWorld, resource

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
OLD, YOUNG, YOUNGEST = (f"2024-0{month}-01T00:00:00Z" for month in (1, 3, 6))


def users(part: int) -> list[Entity]:
    """Users with names of one length whose records are in one part."""
    subjects = (entity(user=f"user-{number:03}") for number in range(400))
    return [subject for subject in subjects if part_of(subject, "salt") == part]


FIRST, SECOND, THIRD, FOURTH, *_ = users(5)
ELSEWHERE = users(6)[0]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> KubeWorld:
    """A world in which `team` fills its share of a part with two of three documents."""
    monkeypatch.setattr(record_index, "SHARE", 2 * size_of(FIRST, "team/a", 1))
    world = KubeWorld()
    for name, subject, created in (("a", FIRST, OLD), ("c", THIRD, YOUNGEST), ("b", SECOND, YOUNG)):
        put(world, name, subject, created=created)
    world.run()
    return world


def put(world: KubeWorld, name: str, subject: Entity, *, value: int = 1024, **more: Any) -> None:
    world.put(resource(name, subject, {RATE: value}, deletionPolicy="Delete", **more))


def reasons(world: KubeWorld) -> dict[str, str]:
    return {document: world.reason(document) for document in world.objects}


def test_only_the_newest_documents_of_a_full_namespace_are_refused(world: KubeWorld) -> None:
    put(world, "x", FOURTH, namespace="other", created=YOUNGEST)
    put(world, "d", ELSEWHERE, created=YOUNGEST)
    world.run()
    assert reasons(world) == {
        "team/a": "Synced",
        "team/b": "Synced",
        "team/c": "NamespaceLimit",
        "team/d": "Synced",
        "other/x": "Synced",
    }
    assert world.live().keys() == {FIRST, SECOND, ELSEWHERE, FOURTH}
    condition = world.condition("team/c")
    assert (condition["status"], condition["message"]) == ("False", RECORDS_FULL)
    assert world.condition("team/c", "Stalled")["status"] == "True"
    assert "finalizers" not in world.objects["team/c"]["metadata"]


def test_one_more_limit_that_has_no_room_leaves_what_the_document_owns(world: KubeWorld) -> None:
    limits = {RATE: 4096, SHARE: 50}
    world.put(resource("b", SECOND, limits, created=YOUNG, deletionPolicy="Delete"))
    for _ in range(2):
        world.run()
        assert world.reason("team/b") == "NamespaceLimit"
        assert world.live()[SECOND][0] == 1024
        assert world.owned.records[SECOND].applied[0] == 1024


def test_a_restart_refuses_the_same_documents_and_writes_nothing(world: KubeWorld) -> None:
    before = reasons(world)
    world.restart()
    world.writes.clear()
    world.run()
    assert reasons(world) == before
    assert world.writes == []
