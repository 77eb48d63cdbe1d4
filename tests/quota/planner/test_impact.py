"""The impact of a plan: directions, affected principals, rules that never apply, keys without limit."""

import pytest
from hypothesis import given

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import RULES, Key
from reconciler.quota.planner.effects import Direction
from reconciler.quota.planner.impact import (
    AffectedPrincipal,
    BucketSharing,
    assess,
    own_entity,
    shadows,
)
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal, principals_with_quotas, resolve
from reconciler.quota.state import QuotaState, limits_of
from tests.quota.strategies import CLIENTS, USERS, states

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
ALICE = Principal(user="alice", client_id="app")


def plan(live: QuotaState, *values: tuple[Entity, Key, float | None]) -> Plan:
    return Plan(
        cluster_id="c",
        changes=tuple(
            QuotaChange(entity=e, key=k, before=live.value(e, k), after=v, cause=Cause.SPEC)
            for e, k, v in values
        ),
    )


def rates(**values: float) -> QuotaState:
    return QuotaState(
        limits={entity(user=user): limits_of({RATE: value}) for user, value in values.items()}
    )


@given(states(), states())
def test_exactly_the_clients_whose_limit_or_bucket_changes_are_affected(live, target):
    values = {(e, k): None for e, k, _ in live.pairs()} | {(e, k): v for e, k, v in target.pairs()}
    new_plan = plan(live, *((e, k, v) for (e, k), v in values.items() if live.value(e, k) != v))
    after = apply_to(live, new_plan.changes)
    principals = [Principal(user=u, client_id=c) for u in USERS for c in (*CLIENTS, None, "")]
    impact = assess(new_plan, live, known_principals=principals)
    expected = [
        AffectedPrincipal(principal=principal, key=old.key, before=old, after=new)
        for principal in impact.principals
        for old, new in zip(
            resolve(live, principal).effective, resolve(after, principal).effective, strict=True
        )
        if (old.value, old.bucket) != (new.value, new.bucket)
    ]
    planned = {(change.pair, change.before, change.after) for change in new_plan.changes}
    assert impact.affected_count == len({item.principal for item in expected})
    assert list(impact.affected) == [
        item
        for item in expected
        if ((own_entity(item.principal), item.key), item.before.value, item.after.value)
        not in planned
    ]


def test_a_limit_of_the_empty_client_id_is_that_of_no_client():
    nameless = entity(user="alice", client_id="")
    live = QuotaState(limits={nameless: limits_of({RATE: 5.0})})
    clients = [Principal(user="alice", client_id="")]
    impact = assess(plan(live, (nameless, RATE, 4.0)), live, known_principals=clients)
    assert (impact.affected, impact.affected_count) == ((), 0)


def test_a_client_whose_new_limit_is_its_own_is_counted_and_not_named():
    new_plan = plan(QuotaState(), (entity(user="alice"), RATE, 5.0))
    impact = assess(new_plan, QuotaState(), known_principals=[Principal(user="alice")])
    assert (impact.affected, impact.affected_count) == ((), 1)


def test_an_equal_limit_in_another_bucket_is_a_move():
    live = rates(alice=5.0)
    new_plan = plan(
        live, (entity(user="alice", client_id="app"), RATE, 5.0), (entity(user="alice"), RATE, 6.0)
    )
    principals = [ALICE, Principal(user="alice"), Principal(user="bob")]
    impact = assess(new_plan, live, known_principals=principals)
    (pair,) = impact.affected  # The row of its change says it of the user alone.
    assert (pair.principal, pair.moved, pair.before.value, pair.after.value) == (
        ALICE,
        True,
        5.0,
        5.0,
    )
    assert impact.affected_count == 2


def test_known_principals_are_counted_once_and_sorted_for_any_missing_names():
    live, new_plan = QuotaState(), plan(QuotaState(), (entity(user=DEFAULT), RATE, 1.0))
    principals = [
        Principal(user="b"),
        Principal(user="a", client_id=""),
        Principal(user="a"),
        Principal(user="b"),
    ]
    impact = assess(new_plan, live, known_principals=principals)
    assert impact.principal_count == 3
    assert [item.principal for item in impact.affected] == [
        Principal(user="a"),
        Principal(user="a", client_id=""),
        Principal(user="b"),
    ]


def test_principals_are_derived_from_users_and_addresses_of_the_state():
    state = QuotaState(
        limits={
            subject: limits_of({RATE: 1.0})
            for subject in (
                entity(user="alice", client_id="app"),
                entity(user="alice", client_id=DEFAULT),
                entity(user="bob"),
                entity(user=DEFAULT),
                entity(client_id="app"),
                entity(ip="::1"),
                entity(ip=DEFAULT),
            )
        }
    )
    assert principals_with_quotas(state) == {
        Principal(user="alice", client_id="app"),
        Principal(user="alice"),
        Principal(user="bob"),
        Principal(ip="::1"),
    }


# -- shadows ------------------------------------------------------------------------------------------

EVERYBODY = [
    Principal(user=user, client_id=client)
    for user in (*(name for name in USERS if name), "stranger")
    for client in (*CLIENTS, "stranger")
]


@given(states())
def test_a_shadowed_limit_applies_to_no_client_and_any_other_may_apply(state):
    shadowed = {(limit.entity, limit.key): limit.by for limit in shadows(state)}
    for subject, key, _ in state.pairs():
        if RULES[key].on_ip or "" in subject:
            continue
        sources = {
            effective.source
            for who in EVERYBODY
            for effective in resolve(state, who).effective
            if effective.key is key
        }
        if (subject, key) in shadowed:
            assert subject not in sources
            assert state.value(shadowed[subject, key], key) is not None
        elif subject[0] is False:
            # A client of another user has this client-id, so the limit applies.
            assert subject in sources


@pytest.mark.parametrize(
    ("subject", "total"),
    [
        (entity(client_id="app"), 3),
        (entity(client_id="app-1"), 0),  # one known client has it
        (entity(client_id="app-2"), 0),  # only one id begins with it
        (entity(client_id="web"), 0),
        (entity(user="alice", client_id="app"), 2),
        (entity(user="bob", client_id="app"), 0),
        (entity(user=DEFAULT, client_id="app"), 3),
    ],
)
def test_a_limit_of_the_beginning_of_known_client_ids_is_reported(subject, total):
    names = (("alice", "app-1"), ("alice", "app-1-producer"), ("carol", "app-2"), ("bob", ""))
    clients = [Principal(user=user, client_id=client_id) for user, client_id in names]
    impact = assess(
        plan(QuotaState(), (subject, RATE, 5.0)), QuotaState(), known_principals=clients
    )
    assert [(row.entity, row.total, row.example) for row in impact.unmatched] == (
        [(subject, total, "app-1")] if total else []
    )


# ---- what one client sees ---------------------------------------------------------------------


def change_for_client(before: Entity | None, after: Entity | None, who: Principal = ALICE):
    """The change for a client whose limit moves from one entity to another."""
    live = QuotaState(limits={} if before is None else {before: limits_of({RATE: 10.0})})
    values = [(subject, RATE, None) for subject in (before,) if subject is not None]
    values += [(subject, RATE, 5.0) for subject in (after,) if subject is not None]
    (principal,) = assess(plan(live, *values), live, known_principals=[who]).affected
    return principal


BOTH, USER, CLIENT = (
    entity(user="alice", client_id="app"),
    entity(user="alice"),
    entity(client_id="app"),
)


@pytest.mark.parametrize(
    ("before", "after", "sharing"),
    [
        (USER, BOTH, BucketSharing.SPLIT),
        (CLIENT, BOTH, BucketSharing.SPLIT),
        (BOTH, USER, BucketSharing.JOINED),
        (BOTH, CLIENT, BucketSharing.JOINED),
        (USER, CLIENT, BucketSharing.OTHER),
        (USER, entity(user=DEFAULT), BucketSharing.SAME),
        (None, USER, BucketSharing.BEGUN),
        (USER, None, BucketSharing.ENDED),
    ],
)
def test_a_bucket_is_split_joined_or_unchanged(before, after, sharing):
    assert change_for_client(before, after).sharing is sharing


def test_the_effect_on_clients_of_a_foreign_limit_is_unknown():
    live = QuotaState(
        limits=rates(alice=5.0, bob=5.0).limits,
        foreign_entities=(
            ((("client-id-prefix", "etl-"),), ((str(RATE), 7.0),)),
            ((("team", "a"), ("user", "bob")), ((str(RATE), 7.0),)),
        ),
    )
    changes = plan(live, (entity(user="alice"), RATE, 4.0), (entity(user="bob"), RATE, 4.0))
    clients = [Principal(user="alice", client_id=name) for name in ("etl-1", "web")]
    impact = assess(changes, live, known_principals=clients)
    assert [effect.direction for effect in impact.effects] == [
        Direction.TIGHTENED,
        Direction.UNKNOWN,
    ]
    etl, web = impact.affected
    assert (etl.direction, etl.factor, etl.moved, etl.sharing) == (
        Direction.UNKNOWN,
        None,
        False,
        BucketSharing.SAME,
    )
    assert not etl.is_shared_anew
    assert (web.direction, web.factor) == (Direction.TIGHTENED, 0.8)
    assert impact.count(Direction.UNKNOWN) == 1
