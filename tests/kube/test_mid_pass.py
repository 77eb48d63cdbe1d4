"""Documents that are created, changed or deleted during a reconciliation are processed only by the next one."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import ConnectError, KubernetesError
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from reconciler.kube.records import record_store
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideSet
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


def test_a_process_that_starts_while_kafka_is_unreachable_releases_no_document():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    world.begin()
    world.sessions.error = ConnectError("nobody answers")
    world.delete("alice")
    assert world.turn().retry
    assert world.obj("alice")["metadata"]["finalizers"] == [FINALIZER]
    world.sessions.error = None
    world.turn()
    assert not world.exists("alice")
    assert world.live() == {}


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


def test_no_document_is_released_while_the_records_cannot_be_read():
    world = World(patience=100)
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn()
    world.begin()
    world.sessions.error = ConnectError("nobody answers")
    world.delete("alice")

    def refuse(verb: str, plural: str, namespace: str, name: str) -> None:
        del namespace, name
        if (verb, plural) == ("list", "configmaps"):
            raise KubernetesError("a Role lacks a right", status=403, reason="Forbidden")

    world.api.before = refuse
    world.kafka.clock.advance(101)
    world.turn()
    assert world.obj("alice")["metadata"]["finalizers"] == [FINALIZER]
    world.api.before = None
    world.turn()
    assert not world.exists("alice"), "its time has passed"
    assert set(world.live()) == {ALICE}


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


def test_a_new_leader_continues_to_report_earlier_drift():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    world.kafka.write(ALICE, RATE, 5000.0)
    for _ in range(2):
        world.turn(resync=True)
    assert world.reason("alice") == "Drifted"
    world.begin()
    world.fenced = True
    world.kafka.clock.advance(5)
    _ = world.writes()
    world.api.events.clear()
    for _ in range(2):
        world.turn(resync=True)
    assert (world.writes(), world.api.events) == ([], [])


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


def override(world: World, value: float, seconds: float) -> Any:
    """Record an override, as `kquota override --kubernetes` does beside a running operator."""
    begun = Override(
        entity=ALICE,
        key=RATE,
        value=value,
        until=world.kafka.clock.now() + seconds,
        author="night",
        reason="storm",
        before=2048.0,
        applied=2048.0,
        declared=2048.0,
    )

    def with_override(stored: StoredRecords) -> StoredRecords:
        return replace(stored, owned=stored.owned.with_changes([OverrideSet(override=begun)]))

    return record_store.change(world.api, "ops", world.kafka.cluster_id, with_override)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_a_deletion_during_an_override_has_its_effect_when_the_override_ends(
    policy: str, restarts: bool
):
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}, deletionPolicy=policy))
    world.turn()
    asyncio.run(override(world, 512.0, 60))
    world.turn()
    world.delete("alice")
    world.turn()
    assert not world.exists("alice"), "an override does not block the deletion of a namespace"
    assert world.live()[ALICE] == limits(rate=512)
    if restarts:
        world.begin()
    world.kafka.clock.advance(61)
    for _ in range(3):
        world.turn(resync=True)
    stays = policy == "Retain"
    assert world.live().get(ALICE) == (limits(rate=2048) if stays else None)
    counts = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["counts"]
    assert (counts["orphaned"], counts["unmanaged"], counts["overridden"]) == (int(stays), 0, 0)


def test_an_override_ends_while_the_finalizer_of_its_document_cannot_be_added():
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    asyncio.run(override(world, 512.0, 60))
    world.turn()
    world.change("alice", limits={"producerByteRate": 4096}, deletionPolicy="Delete")

    def refuse(verb: str, *_: str) -> None:
        if verb == "patch":
            raise KubernetesError("a policy says no", status=403, reason="Forbidden")

    world.api.before = refuse
    world.turn()
    assert world.live()[ALICE] == limits(rate=512)
    world.kafka.clock.advance(61)
    world.turn(resync=True)
    assert world.live()[ALICE] == limits(rate=2048), "the last value that was applied for it"
    world.api.before = None
    world.turn()
    assert world.live()[ALICE] == limits(rate=4096)


@pytest.mark.parametrize("request_number", range(1, 16))
def test_an_override_that_begins_while_the_one_before_it_ends_is_in_force(request_number: int):
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()

    asyncio.run(override(world, 512.0, 60))
    world.turn()
    assert world.live()[ALICE] == limits(rate=512)
    world.kafka.clock.advance(61)
    requests = 0

    def before(*_: object) -> Any:
        nonlocal requests
        requests += 1
        return override(world, 4096.0, 3600) if requests == request_number else None

    world.api.before = before
    world.turn(resync=True)
    is_begun = requests >= request_number
    world.api.before = None
    for _ in range(2):
        world.turn(resync=True)
    assert world.live()[ALICE] == limits(rate=4096 if is_begun else 2048)
