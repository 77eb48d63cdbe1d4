"""The impact of a plan: directions, affected principals, rules that never apply, keys without limit."""

import pytest
from hypothesis import given

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import RULES, Key
from reconciler.quota.planner.impact import (
    AffectedPrincipal,
    BucketSharing,
    assess,
    own_entity,
    shadows,
)
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal, resolve
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
