"""Documents that are created, changed or deleted during a reconciliation are processed only by the next one."""

from typing import Any

import pytest

from reconciler.errors import ConnectError, KubernetesError
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from tests.kube.run.test_cluster_reconciler import ALICE, BOB, RATE, World, limits
from tests.kube.worlds import resource, seen

INTENT = ("create", "configmaps")
"""The first write of a reconciliation after its plan."""


def meanwhile(world: World, at: tuple[str, str], what: Any) -> None:
    """Execute an action, once, directly before an action of the operator."""
    done: list[bool] = []

    def before(verb: str, plural: str, namespace: str, name: str) -> None:
        del namespace, name
        if (verb, plural) == at and not done:
            done.append(True)
            what()

    world.api.before = before


def observe(world: World, name: str) -> None:
    """Report the current document to the watch."""
    _ = world.cache.observe(seen(world.obj(name)))


def test_a_document_that_appears_during_a_reconciliation_is_not_shown_as_synced():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))

    def come() -> None:
        world.put(resource("bob", BOB, {RATE: 4096}))
        observe(world, "bob")

    meanwhile(world, INTENT, come)
    world.turn()
    assert world.reason("alice") == "Synced"
    assert "status" not in world.obj("bob")
    world.turn()
    assert world.reason("bob") == "Synced"
    assert world.live()[BOB] == limits(rate=4096)


def test_a_change_during_a_reconciliation_is_not_reported_as_observed():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))

    def change() -> None:
        world.change("alice", limits={"producerByteRate": 4096})
        observe(world, "alice")

    meanwhile(world, INTENT, change)
    world.turn()
    status = world.obj("alice")["status"]
    assert (status["observedGeneration"], status["keys"][0]["desired"]) == (1, 2048)
    assert world.live()[ALICE] == limits(rate=2048)
    world.turn()
    assert world.obj("alice")["status"]["observedGeneration"] == 2
    assert world.live()[ALICE] == limits(rate=4096)


def test_a_document_that_is_deleted_during_a_reconciliation_is_not_released_by_it():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    world.put(resource("bob", BOB, {RATE: 4096}))

    def delete() -> None:
        world.delete("alice")
        observe(world, "alice")

    meanwhile(world, ("update", "configmaps"), delete)
    world.turn()
    assert world.live()[BOB] == limits(rate=4096)
    assert world.obj("alice")["metadata"]["finalizers"] == [FINALIZER]
    world.turn()
    assert not world.exists("alice")
    assert ALICE not in world.live()


def test_nothing_is_written_for_a_document_without_a_finalizer_and_others_continue():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.put(resource("bob", BOB, {RATE: 4096}))

    def refuse(verb: str, plural: str, namespace: str, name: str) -> None:
        del namespace
        if (verb, plural, name) == ("patch", "clientquotas", "alice"):
            raise KubernetesError("a policy says no", status=403, reason="Forbidden")

    world.api.before = refuse
    assert world.turn().retry
    assert set(world.live()) == {BOB}
    assert (world.reason("alice"), world.reason("bob")) == ("KubernetesRefused", "Synced")
    world.api.before = None
    world.turn()
    assert set(world.live()) == {ALICE, BOB}
    assert world.reason("alice") == "Synced"


def test_a_limit_applied_to_another_cluster_is_recorded_there_as_an_orphan():
    world = World(patience=100)
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    world.api.find(QUOTA_CLUSTERS, None, "prod")["spec"]["expectedClusterId"] = "another"
    world.api.find(QUOTA_CLUSTERS, None, "prod")["metadata"]["generation"] += 1
    world.delete("alice")
    world.turn()
    assert world.obj("alice")["metadata"]["finalizers"] == [FINALIZER]
    world.kafka.clock.advance(101)
    world.turn()
    assert not world.exists("alice")
    assert set(world.live()) == {ALICE}
    del world.api.find(QUOTA_CLUSTERS, None, "prod")["spec"]["expectedClusterId"]
    world.api.find(QUOTA_CLUSTERS, None, "prod")["metadata"]["generation"] += 1
    world.turn(resync=True)
    counts = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["counts"]
    assert (counts["orphaned"], counts["unmanaged"]) == (1, 0)


@pytest.mark.parametrize(
    ("deletion", "sync"),
    [({"deletionPolicy": "Delete"}, False), ({}, True)],
    ids=["Delete", "Sync"],
)
def test_a_limit_orphaned_by_the_timeout_is_not_removed_when_the_brokers_return(
    deletion: dict[str, str], *, sync: bool
) -> None:
    world = World(patience=100)
    if sync:
        world.api.find(QUOTA_CLUSTERS, None, "prod")["spec"] |= {
            "policy": "Sync",
            "expectedClusterId": world.kafka.cluster_id,
            "confirmSync": world.kafka.cluster_id,
        }
    world.put(resource("alice", ALICE, {RATE: 2048}, **deletion))
    world.put(resource("bob", BOB, {RATE: 4096}))
    world.turn()
    world.sessions.error = ConnectError("nobody answers")
    world.delete("alice")
    world.kafka.clock.advance(101)
    world.turn()
    assert not world.exists("alice")
    world.sessions.error = None
    for _ in range(2):
        world.turn(resync=True)
    assert set(world.live()) == {ALICE, BOB}
    counts = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["counts"]
    assert counts["orphaned"] == 1


def test_the_status_of_a_document_is_never_written_to_another_one_of_its_name():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))

    def make_again() -> None:
        world.delete("alice")
        document = resource("alice", BOB, {RATE: 4096})
        document["metadata"]["uid"] = "another"
        world.put(document)

    meanwhile(world, ("apply", "clientquotas"), make_again)
    world.turn()
    assert "status" not in world.obj("alice")
    world.turn(resync=True)
    assert world.obj("alice")["status"]["entity"] == "user=bob"
    counts = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["counts"]
    assert (counts["owned"], counts["orphaned"], counts["unmanaged"]) == (2, 1, 0)


@pytest.mark.parametrize("last_word", ["Retain", None])
@pytest.mark.parametrize("watched", [True, False])
def test_a_document_changed_to_retain_and_deleted_immediately_keeps_the_quota(
    last_word: str | None, *, watched: bool
) -> None:
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.put(resource("bob", BOB, {RATE: 4096}))
    world.turn()
    world.change("alice", deletionPolicy=last_word)
    if last_word is None:
        del world.obj("alice")["spec"]["deletionPolicy"]
    world.delete("alice")
    if not watched:
        world.begin()
    world.turn()
    assert not world.exists("alice")
    world.turn(resync=True)
    assert set(world.live()) == {ALICE, BOB}
    counts = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["counts"]
    assert counts["orphaned"] == 1


def test_records_of_a_replaced_cluster_are_known_when_it_returns():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    first = world.kafka.cluster_id

    def replaced_by(cluster_id: str) -> None:
        world.kafka.cluster_id = cluster_id
        obj = world.api.find(QUOTA_CLUSTERS, None, "prod")
        obj["spec"]["expectedClusterId"] = cluster_id
        obj["metadata"]["generation"] += 1
        world.turn(resync=True)

    replaced_by("another")
    assert world.obj("alice")["status"]["clusterId"] == "another"
    world.begin()
    world.delete("alice")
    world.turn(resync=True)
    replaced_by(first)
    counts = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["counts"]
    assert (counts["orphaned"], counts["unmanaged"]) == (1, 0)
    assert set(world.live()) == {ALICE}
