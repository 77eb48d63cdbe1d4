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


def test_documents_beyond_the_limit_show_figures_and_are_not_applied():
    world = crowded()
    world.turn()
    assert set(world.live()) == {entity(user="old-0"), entity(user="old-1")}
    assert world.reason("old-0") == "Synced"
    condition = ready(world, "new-2")
    assert (condition["status"], condition["reason"]) == ("False", "NamespaceLimit")
    assert (
        "the oldest 2 ClientQuotas, 16 MiB in total, are served; delete some"
        in condition["message"]
    )
    stalled = [
        entry for entry in world.obj("new-2")["status"]["conditions"] if entry["type"] == "Stalled"
    ]
    assert stalled[0]["status"] == "True"


def test_one_more_document_changes_no_status_of_the_others():
    world = crowded()
    world.turn()
    world.writes()
    world.put(resource("new-9", entity(user="new-9"), {RATE: 1024}, created=YOUNG))
    world.turn(resync=True)
    assert world.writes().count(("apply", "clientquotas")) == 1


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


def test_previously_applied_limits_remain_owned_across_restarts():
    world = applied_and_then_beyond("Delete")
    world.begin()
    world.put(resource("rival", BOB, {RATE: 1}, namespace="other"))
    world.turn(resync=True)
    assert world.live()[BOB] == limits(4096.0)
    assert [key["applied"] for key in world.obj("bob")["status"]["keys"]] == [4096]


@pytest.mark.parametrize("has_status", [True, False])
@pytest.mark.parametrize(("policy", "stays"), [("Delete", False), ("Retain", True)])
def test_a_document_beyond_the_limit_is_deleted_by_its_policy_and_released(
    policy: str, stays: bool, has_status: bool
):
    world = applied_and_then_beyond(policy)
    if not has_status:  # A person removed it, or it was not written yet.
        world.begin()
        world.obj("bob")["status"] = {}
    world.delete("bob")
    world.turn(resync=True)
    assert not world.exists("bob")
    assert (BOB in world.live()) == stays


def test_a_document_beyond_the_limit_is_served_when_there_is_space():
    world = crowded()
    world.turn()
    for name in ("old-0", "old-1"):
        world.delete(name)
    world.turn(resync=True)
    world.turn(resync=True)
    assert world.reason("new-0") == "Synced"
    assert world.reason("new-2") == "NamespaceLimit"
    assert world.live()[entity(user="new-1")] == limits(1024.0)
