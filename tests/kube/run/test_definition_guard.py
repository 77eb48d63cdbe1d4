"""A deleted CRD of ClientQuota removes no limit from Kafka; the check is requested only before removals."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import Forbidden, KubernetesUnavailable
from reconciler.kube.api.resource_paths import (
    CLIENT_QUOTA_DEFINITION,
    DEFINITIONS,
    QUOTA_CLUSTERS,
)
from reconciler.kube.run.definition_guard import at_risk, is_recorded
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import key_columns
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Intent, Owner, OwnershipRecord, OwnershipRecords
from reconciler.quota.planner.desired_state import Declaration, ResolvedClaims, merge
from reconciler.quota.policy import DeletionPolicy, Policy
from tests.kube.run.test_cluster_reconciler import RATE, SHARE, World
from tests.kube.worlds import resource

ALICE, BOB = entity(user="alice"), entity(user="bob")
NAMES = ("alice", "bob")


def world_of_two(**spec: Any) -> World:
    world = World(**spec)
    for name in NAMES:
        world.put(
            resource(name, entity(user=name), {RATE: 2048, SHARE: 50}, deletionPolicy="Delete")
        )
    world.turn(resync=True)
    assert set(world.live()) == {ALICE, BOB}
    return world


def going(world: World) -> None:
    """Delete the definition like the API server: it gets its timestamp, then every document is deleted."""
    metadata = world.api.find(DEFINITIONS, None, CLIENT_QUOTA_DEFINITION)["metadata"]
    metadata["deletionTimestamp"] = "2023-11-14T22:13:20Z"
    for name in NAMES:
        world.delete(name)


def gone(world: World) -> None:
    """The definition is deleted, and the documents are terminating."""
    del world.api.objects[DEFINITIONS.plural, "", CLIENT_QUOTA_DEFINITION]
    for name in NAMES:
        world.delete(name)


def gets(world: World) -> int:
    return sum(call[:2] == ("get", DEFINITIONS.plural) for call in world.api.calls)


def ready(world: World) -> dict[str, Any]:
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    (condition,) = [entry for entry in status["conditions"] if entry["type"] == "Ready"]
    return dict(condition)


@pytest.mark.parametrize("ends", [going, gone])
@pytest.mark.parametrize("restarts", [False, True])
def test_while_the_definition_is_deleted_every_limit_is_kept_and_no_document_is_blocked_forever(
    ends: Callable[[World], None], restarts: bool
) -> None:
    world = world_of_two()
    before = world.live()
    ends(world)
    for _ in range(3):
        if restarts:
            world.begin()
        world.turn(resync=True)
        assert world.live() == before
    assert all(world.exists(name) for name in NAMES)
    assert ready(world)["reason"] == "GuardRefused"
    assert "4 removals are not made" in ready(world)["message"]
    assert "restore the documents from git" in ready(world)["message"]
    assert "kquota operator release" in world.obj("alice")["status"]["conditions"][0]["message"]
    # They are released after the deletion timeout, and their limits are recorded as orphans.
    world.kafka.clock.advance(700.0)
    world.turn(resync=True)
    world.turn(resync=True)
    assert world.live() == before
    assert not any(world.exists(name) for name in NAMES)
    counts = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["counts"]
    assert counts["orphaned"] == 4


def test_the_definition_is_read_once_per_reconciliation_with_removals_of_deleted_documents_only() -> (
    None
):
    world = world_of_two()
    world.turn(resync=True)
    world.change("alice", limits={"producerByteRate": 2048})
    world.turn(resync=True)
    assert world.live()[ALICE] != world.live()[BOB], (
        "a key that is deleted from its document is removed"
    )
    assert gets(world) == 0
    world.delete("alice")
    world.turn(resync=True)
    assert gets(world) == 1
    assert set(world.live()) == {BOB}
    world.turn(resync=True)
    assert gets(world) == 1


def failing(error: Exception) -> Callable[[str, str, str, str], None]:
    def before(verb: str, plural: str, _: str, __: str) -> None:
        if (verb, plural) == ("get", DEFINITIONS.plural):
            raise error

    return before


def test_without_the_right_to_read_the_definition_only_the_removal_guard_decides() -> None:
    world = world_of_two(guards={"maxRemovals": 2})
    world.api.before = failing(Forbidden("get customresourcedefinitions: not allowed", status=403))
    for name in NAMES:
        world.delete(name)
    world.turn(resync=True)
    assert len(world.live()) == 2
    assert "none of them is made" in ready(world)["message"]


def test_removals_wait_while_the_definition_cannot_be_read_and_other_changes_continue() -> None:
    world = world_of_two()
    world.api.before = failing(KubernetesUnavailable("no answer"))
    world.delete("alice")
    world.change("bob", limits={"producerByteRate": 4096, "requestPercentage": 50})
    turn = world.turn(resync=True)
    assert turn.retry
    assert ALICE in world.live()
    assert "removals wait" in ready(world)["message"]
    assert world.kafka.truth.value(BOB, RATE) == 4096
    world.api.before = None
    world.turn(resync=True)
    assert ALICE not in world.live()
    assert ("clientquotas", "team", "alice") not in world.api.objects


OWNER = Owner(document="team/alice", deletion_policy=DeletionPolicy.DELETE)
ROW = key_columns([2048.0, None, None, None, None])
OWNERS = key_columns([OWNER, None, None, None, None])
PAIR = (ALICE, RATE)
OWNED = OwnershipRecords(cluster_id="id", records={ALICE: OwnershipRecord(ROW, OWNERS)})
DECLARED = Declaration(
    document="team/alice", entity=ALICE, limits=ROW, deletion_policy=DeletionPolicy.DELETE
)


def is_recorded_for(*declarations: Declaration, owned: OwnershipRecords = OWNED) -> bool:
    resolved = ResolvedClaims(desired=merge(declarations))
    risk = at_risk(owned, resolved, Policy.SYNC, is_missing=lambda _: False)
    return not risk and is_recorded(owned, resolved)


def test_documents_that_declare_the_owned_values_are_recorded() -> None:
    suspended = replace(DECLARED, suspended=True)
    assert is_recorded_for(DECLARED)
    assert is_recorded_for(suspended)
    assert is_recorded_for(owned=OwnershipRecords(cluster_id="id"))
    assert is_recorded_for(owned=replace(OWNED, orphaned=frozenset({PAIR})))


@pytest.mark.parametrize(
    "declarations",
    [
        (),
        (replace(DECLARED, limits=key_columns([4096.0, None, None, None, None])),),
        (replace(DECLARED, limits=key_columns([2048.0, 1.0, None, None, None])),),
        (replace(DECLARED, limits=key_columns([None, 2048.0, None, None, None])),),
        (replace(DECLARED, document="team/other"),),
        (replace(DECLARED, deletion_policy=None),),
        (DECLARED, replace(DECLARED, document="team/bob", entity=BOB)),
    ],
    ids=["missing", "value", "more", "key", "owner", "policy", "entity"],
)
def test_documents_that_differ_from_the_owned_values_are_not_recorded(
    declarations: tuple[Declaration, ...],
) -> None:
    assert not is_recorded_for(*declarations)


def test_pairs_with_an_intent_or_an_override_are_not_recorded_for_a_document() -> None:
    override = Override(
        entity=ALICE,
        key=RATE,
        value=1.0,
        until=9.0,
        author="a",
        reason="r",
        before=None,
        declared=2048.0,
    )
    intent = Intent(value=4096.0, owner=OWNER)
    assert not is_recorded_for(DECLARED, owned=replace(OWNED, intents={PAIR: intent}))
    assert not is_recorded_for(DECLARED, owned=replace(OWNED, overrides={PAIR: override}))


@pytest.mark.parametrize(
    ("deletion_policy", "policy", "more", "expected"),
    [
        (DeletionPolicy.DELETE, Policy.UPSERT, {}, {ALICE}),
        (DeletionPolicy.RETAIN, Policy.SYNC, {}, set()),
        (None, Policy.SYNC, {}, {ALICE}),
        (None, Policy.UPSERT, {}, set()),
        (None, Policy.UPSERT, {"is_missing": True}, {ALICE}),
        (DeletionPolicy.RETAIN, Policy.UPSERT, {"leaves_key": True}, {ALICE}),
        (DeletionPolicy.DELETE, Policy.SYNC, {"is_orphaned": True}, set()),
        (None, Policy.UPSERT, {"is_orphaned": True, "is_missing": True}, set()),
        (None, Policy.SYNC, {"is_orphaned": True}, {ALICE}),
    ],
)
def test_an_undeclared_value_is_at_risk_unless_its_document_was_deleted_and_retains_it(
    deletion_policy: DeletionPolicy | None,
    policy: Policy,
    more: dict[str, bool],
    expected: set[Entity],
) -> None:
    owner = replace(OWNER, deletion_policy=deletion_policy)
    owned = OwnershipRecords(
        cluster_id="id",
        records={ALICE: OwnershipRecord(ROW, key_columns([owner, None, None, None, None]))},
        orphaned=frozenset({PAIR} if more.get("is_orphaned") else ()),
    )
    remaining = replace(DECLARED, limits=key_columns([None, 1.0, None, None, None]))
    declarations = [remaining] if more.get("leaves_key") else []
    resolved = ResolvedClaims(desired=merge(declarations))
    risk = at_risk(owned, resolved, policy, is_missing=lambda _: more.get("is_missing", False))
    assert risk == expected
