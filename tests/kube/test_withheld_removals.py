"""A namespace that asks for too many removals: it is withheld for at most a day, never silently, and alone."""

from typing import Any

import pytest

from reconciler.errors import ConnectError
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.quota.entity import entity
from tests.kube.run.test_cluster_reconciler import RATE, World
from tests.kube.worlds import DELETED, resource, seen

DAY = 86_400.0


def deleting(count: int, *, patience: float = 600.0, **guards: Any) -> World:
    """A namespace whose documents are all deleted at the same time."""
    world = World(patience=patience, guards=guards)
    for number in range(count):
        subject = entity(user=f"u{number:03}")
        world.put(resource(f"d{number}", subject, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn(resync=True)
    assert len(world.live()) == count
    for number in range(count):
        world.delete(f"d{number}")
    return world


def documents_of(world: World) -> list[dict[str, Any]]:
    return [obj for (plural, *_), obj in world.api.objects.items() if plural == "clientquotas"]


def status_of_cluster(world: World) -> dict[str, Any]:
    return world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]


def test_nothing_of_the_namespace_is_removed_and_conditions_name_what_allows_it() -> None:
    world = deleting(12, maxRemovedPercent=100)
    outcome = world.turn(resync=True)
    assert (len(world.live()), len(documents_of(world))) == (12, 12)
    assert (outcome.retry, outcome.note) == (False, "")
    text = "none of them is made until guards.approvedRemovals has the namespace"
    (message,) = {obj["status"]["keys"][0]["message"] for obj in documents_of(world)}
    assert text in message
    ready = next(row for row in status_of_cluster(world)["conditions"] if row["type"] == "Ready")
    assert ready["reason"] == "GuardRefused"
    assert text in ready["message"]
    subject = entity(user="theirs")
    world.put(resource("theirs", subject, {RATE: 2048}, deletionPolicy="Delete", namespace="other"))
    world.turn(resync=True)
    assert subject in world.live()
    world.api.find(CLIENT_QUOTAS, "other", "theirs")["metadata"]["deletionTimestamp"] = DELETED
    world.turn(resync=True)
    assert subject not in world.live()
    assert ("clientquotas", "other", "theirs") not in world.api.objects


@pytest.mark.parametrize("restarts", [False, True])
def test_a_withheld_deletion_ends_after_a_day_with_events_and_the_limits_stay(
    restarts: bool,
) -> None:
    world = deleting(12, maxRemovedPercent=100)
    world.turn(resync=True)
    deleted_at = seen(documents_of(world)[0]).deleted_at
    assert deleted_at is not None
    for age in (DAY / 2, DAY - 1.0):
        world.kafka.clock.advance(deleted_at + age - world.kafka.clock.now())
        if restarts:
            world.begin()
        world.turn(resync=True)
        assert len(documents_of(world)) == 12
    world.kafka.clock.advance(1.0)
    world.turn(resync=True)
    assert (len(world.live()), documents_of(world)) == (12, [])
    assert status_of_cluster(world)["counts"]["orphaned"] == 12
    notes = [event["note"] for event in world.api.events if event["reason"] == "Released"]
    assert len(notes) == 12
    assert all("1 limits stay in Kafka" in note for note in notes)


def test_an_approval_lets_the_namespace_go() -> None:
    world = deleting(12, maxRemovedPercent=100)
    world.turn(resync=True)
    obj = world.api.find(QUOTA_CLUSTERS, None, "prod")
    obj["spec"]["guards"]["approvedRemovals"] = [
        {"namespace": "team", "until": "2100-01-01T00:00:00Z"}
    ]
    obj["metadata"]["generation"] += 1
    world.turn(resync=True)
    assert (world.live(), documents_of(world)) == ({}, [])


@pytest.mark.parametrize("restarts", [False, True])
def test_an_outage_after_removals_were_withheld_has_the_whole_timeout(restarts: bool) -> None:
    world = deleting(12, maxRemovedPercent=100)
    world.kafka.clock.advance(5000.0)
    world.turn(resync=True)
    world.sessions.error = ConnectError("the brokers are away")
    if restarts:
        for document in documents_of(world):  # Users may write statuses: the records tell the time.
            document["status"] = {}
        world.begin()
        world.turn(resync=True)
    world.kafka.clock.advance(599.0)
    world.turn(resync=True)
    assert len(documents_of(world)) == 12
    world.kafka.clock.advance(1.0)
    world.turn(resync=True)
    assert (len(world.live()), documents_of(world)) == (12, [])
