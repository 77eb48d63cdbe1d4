"""Deletions of one namespace wait for their removal budget, and no other namespace waits with them."""

from typing import Any

import pytest

from reconciler.app.loop.reconcile_runner import CLOCK_SECONDS
from reconciler.errors import ConnectError
from reconciler.kube.api.custom_resources import deletion_requested_at
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.quota.entity import entity
from tests.kube.run.test_cluster_reconciler import RATE, World
from tests.kube.worlds import DELETED, resource

HOUR = 3600.0


def deleting(count: int, *, patience: float = 600.0, **guards: Any) -> World:
    """A namespace whose documents are all deleted at the same time."""
    world = World(patience=patience, guards=guards)
    for number in range(count):
        world.put(
            resource(
                f"d{number}", entity(user=f"u{number:03}"), {RATE: 2048}, deletionPolicy="Delete"
            )
        )
    world.turn(resync=True)
    assert len(world.live()) == count
    for number in range(count):
        world.delete(f"d{number}")
    return world


def documents_of(world: World) -> list[dict[str, Any]]:
    return [obj for (plural, *_), obj in world.api.objects.items() if plural == "clientquotas"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_namespace_with_more_documents_than_its_budget_is_deleted_completely(
    restarts: bool,
) -> None:
    world = deleting(25, maxRemovedPercent=100)
    world.turn(resync=True)
    assert (len(world.live()), len(documents_of(world))) == (15, 15)
    (message,) = {obj["status"]["keys"][0]["message"] for obj in documents_of(world)}
    assert (
        "10 of 10 removals of namespace team are used within 1h; 15 wait; the next is made at"
        in message
    )
    assert "the next is made at" in documents_of(world)[0]["status"]["conditions"][0]["message"]
    # Longer than the deletion timeout, and not longer than the window.
    for _ in range(5):
        world.kafka.clock.advance(700.0)
        if restarts:
            world.begin()
        world.turn(resync=True)
        assert (len(world.live()), len(documents_of(world))) == (15, 15)
    for count in (5, 0):
        world.kafka.clock.advance(HOUR)
        if restarts:
            world.begin()
        world.turn(resync=True)
        assert (len(world.live()), len(documents_of(world))) == (count, count)
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    assert status["counts"].get("orphaned", 0) == 0


def test_an_outage_while_documents_wait_for_their_budget_orphans_none_of_them() -> None:
    world = deleting(12, maxRemovedPercent=100)
    world.turn(resync=True)
    world.sessions.error = ConnectError("the brokers are away")
    world.begin()
    world.kafka.clock.advance(HOUR)
    world.turn(resync=True)
    assert len(documents_of(world)) == 2
    world.sessions.error = None
    world.turn(resync=True)
    assert (world.live(), documents_of(world)) == ({}, [])


@pytest.mark.parametrize("restart_at", [0.0, 300.0, 590.0])
def test_the_timeout_counts_from_the_deletion_also_if_the_operator_restarts_during_an_outage(
    restart_at: float,
) -> None:
    world = deleting(3)
    world.sessions.error = ConnectError("the brokers are away")
    deleted_at = deletion_requested_at(documents_of(world)[0])
    assert deleted_at is not None
    world.kafka.clock.advance(deleted_at + restart_at - world.kafka.clock.now())
    world.turn(resync=True)
    world.begin()
    world.turn(resync=True)
    world.kafka.clock.advance(599.0 - restart_at)
    world.turn(resync=True)
    assert len(documents_of(world)) == 3
    world.kafka.clock.advance(1.0)
    world.turn(resync=True)
    assert (len(world.live()), documents_of(world)) == (3, [])


def test_after_a_restart_during_an_outage_the_timeout_of_a_wait_for_a_budget_counts_from_there() -> (
    None
):
    """The status says only that it waited when the brokers answered last."""
    world = deleting(12, maxRemovedPercent=100)
    world.turn(resync=True)
    world.sessions.error = ConnectError("the brokers are away")
    world.kafka.clock.advance(500.0)
    world.begin()
    world.turn(resync=True)
    world.kafka.clock.advance(599.0)
    world.turn(resync=True)
    assert len(documents_of(world)) == 2
    world.kafka.clock.advance(1.0)
    world.turn(resync=True)
    assert (len(world.live()), documents_of(world)) == (2, [])


def test_documents_that_wait_for_their_budget_are_compared_again_when_it_has_room() -> None:
    world = deleting(12, maxRemovedPercent=100)
    outcome = world.turn()
    assert len(documents_of(world)) == 2
    assert (outcome.retry, outcome.note) == (False, "")
    assert outcome.removal_after == pytest.approx(HOUR + CLOCK_SECONDS)
    world.kafka.clock.advance(outcome.removal_after)
    outcome = world.turn()
    assert (world.live(), documents_of(world)) == ({}, [])
    assert (outcome.retry, outcome.removal_after) == (False, None)


def test_a_document_whose_removal_is_held_by_one_that_waits_for_its_budget_waits_as_long() -> None:
    """It is of another namespace, which has a budget left, and at a closer level."""
    world = World(patience=600.0, guards={"maxRemovedPercent": 100})
    for number in range(12):
        subject, limits = entity(user=f"u{number:03}"), {RATE: 2048}
        world.put(resource(f"d{number}", subject, limits, deletionPolicy="Delete"))
    closer, limits = entity(user="u011", client_id="c"), {RATE: 1024}
    world.put(resource("x", closer, limits, namespace="other", deletionPolicy="Delete"))
    world.turn(resync=True)
    for document in documents_of(world):
        document["metadata"]["deletionTimestamp"] = DELETED
    for _ in range(4):
        outcome = world.turn()
        assert (len(world.live()), len(documents_of(world))) == (3, 3)
        assert (outcome.retry, outcome.note) == (False, "")
        world.kafka.clock.advance(800.0)
    assert outcome.removal_after is not None
    world.kafka.clock.advance(outcome.removal_after)
    world.turn()
    assert (world.live(), documents_of(world)) == ({}, [])


def test_documents_that_no_budget_releases_are_retried_until_their_timeout() -> None:
    world = deleting(3, maxRemovals=0)
    outcome = world.turn()
    assert (outcome.retry, outcome.removal_after) == (True, None)
    assert outcome.note == "3 deleted documents wait for their quotas to be removed"


def test_the_timeout_applies_to_removals_that_no_budget_will_allow() -> None:
    world = deleting(3, maxRemovals=0)
    world.turn(resync=True)
    assert len(documents_of(world)) == 3
    world.kafka.clock.advance(700.0)
    world.turn(resync=True)
    assert (len(world.live()), documents_of(world)) == (3, [])


def test_a_deletion_in_another_namespace_is_executed_immediately_and_is_not_informed() -> None:
    world = deleting(25, maxRemovedPercent=100)
    world.turn(resync=True)
    subject = entity(user="theirs")
    world.put(resource("theirs", subject, {RATE: 2048}, deletionPolicy="Delete", namespace="other"))
    world.turn(resync=True)
    assert subject in world.live()
    obj = world.api.find(CLIENT_QUOTAS, "other", "theirs")
    obj["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z"
    world.turn(resync=True)
    assert subject not in world.live()
    assert ("clientquotas", "other", "theirs") not in world.api.objects
