"""A namespace with too many documents: the oldest are reconciled, the others report it, wait, and can be deleted."""

from typing import Any

import pytest

from reconciler.kube.configuration.namespace_limits import NamespaceLimits
from reconciler.quota.entity import entity
from tests.kube.run.test_cluster_reconciler import ALICE, BOB, RATE, World, limits
from tests.kube.worlds import resource

YOUNG, OLD = "2024-06-01T00:00:00Z", "2024-01-01T00:00:00Z"
TWO = NamespaceLimits(documents=2)


def crowded(**spec: Any) -> World:
    """A world in which `team` has two documents within its limit and three beyond."""
    world = World(limits=TWO, **spec)
    for number in range(2):
        world.put(
            resource(f"old-{number}", entity(user=f"old-{number}"), {RATE: 1024}, created=OLD)
        )
    for number in range(3):
        world.put(
            resource(f"new-{number}", entity(user=f"new-{number}"), {RATE: 1024}, created=YOUNG)
        )
    return world


def ready(world: World, name: str, namespace: str = "team") -> dict[str, Any]:
    obj = world.api.objects["clientquotas", namespace, name]
    return next(
        condition for condition in obj["status"]["conditions"] if condition["type"] == "Ready"
    )


def test_a_document_beyond_the_limit_causes_no_conflict():
    world = crowded()
    world.put(resource("claim", ALICE, {RATE: 5}, created=YOUNG))
    world.put(
        resource("theirs", ALICE, {RATE: 2048}, namespace="other", created="2024-09-01T00:00:00Z")
    )
    world.turn()
    assert ready(world, "theirs", "other")["reason"] == "Synced"
    assert world.live()[ALICE] == limits(2048.0)
    assert ready(world, "claim")["reason"] == "NamespaceLimit"


def applied_and_then_beyond(policy: str) -> World:
    """A document that applied its limit before older ones filled the namespace."""
    world = World(limits=TWO)
    world.put(resource("bob", BOB, {RATE: 4096}, created=YOUNG, deletionPolicy=policy))
    world.turn()
    for number in range(2):
        world.put(
            resource(f"old-{number}", entity(user=f"old-{number}"), {RATE: 1024}, created=OLD)
        )
    world.turn(resync=True)
    assert world.reason("bob") == "NamespaceLimit"
    assert world.live()[BOB] == limits(4096.0)
    return world


@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
def test_a_document_beyond_the_limit_is_deleted_by_its_policy_and_released(
    policy: str, stays: bool
):
    world = applied_and_then_beyond(policy)
    world.delete("bob")
    world.turn(resync=True)
    assert not world.exists("bob")
    assert (BOB in world.live()) == stays
