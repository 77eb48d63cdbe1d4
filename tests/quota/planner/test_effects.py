"""The effects of a change on the kinds of clients to which its entity applies."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.effects import (
    LimitEffect,
    PlanEffects,
    candidates_by_client,
    change_factor,
    effects_of,
)
from reconciler.quota.planner.plan import QuotaChange, apply_to
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import QuotaState, limits_of
from tests.quota.strategies import entities, keys_of, numbers, states

RATE = Key.PRODUCER_BYTE_RATE
NOBODY = "nobody named this"


def change(
    subject: Entity, before: float | None, after: float | None, key: Key = RATE
) -> QuotaChange:
    return QuotaChange(entity=subject, key=key, before=before, after=after, cause=Cause.SPEC)


def state(values: dict[Entity, float]) -> QuotaState:
    return QuotaState(
        limits={subject: limits_of({RATE: value}) for subject, value in values.items()}
    )


def kinds_of_clients(subject: Entity) -> list[Principal]:
    """Clients to which an entity applies, by its text: unnamed clients for each default."""
    user, client, ip = subject
    if ip is not False:
        return [Principal(ip=NOBODY if ip is None else ip)]
    name = user if isinstance(user, str) else NOBODY
    if client is False:
        return [Principal(user=name, client_id=NOBODY), Principal(user=name)]
    return [Principal(user=name, client_id=client if isinstance(client, str) else NOBODY)]


@given(states(), entities.filter(lambda subject: "" not in subject), st.data())
def test_each_kind_of_client_is_resolved_before_and_after(live, subject, data):
    key = data.draw(st.sampled_from(keys_of(subject)))
    new = data.draw(st.none() | numbers)
    new_change = change(subject, live.value(subject, key), new, key)
    after = apply_to(live, [new_change])
    effects = effects_of(new_change, live, after)
    expected = []
    for client in kinds_of_clients(subject):
        was, will = (
            next(limit for limit in resolve(s, client).effective if limit.key is key)
            for s in (live, after)
        )
        holds = subject in (was.source, will.source)
        reach = LimitEffect(before=was.value, after=will.value, is_decisive=holds)
        expected.append(reach)
    assert list(effects) == expected


def test_the_effect_is_that_on_clients_to_which_the_limit_applies():
    live = state({entity(user="alice", client_id=DEFAULT): 7.0})
    new_change = change(entity(user="alice"), None, 5.0)
    reach = PlanEffects(live, [new_change]).effects[0]
    assert (reach.before, reach.after) == (None, 5.0)
    other_key = limits_of({Key.REQUEST_PERCENTAGE: 1.0})
    wide = QuotaState(
        limits={entity(user="alice"): other_key, **state({entity(user=DEFAULT): 9.0}).limits}
    )
    assert PlanEffects(wide, [new_change]).effects[0].before == 9.0


@given(entities)
@example(entity(ip=DEFAULT))
def test_an_entity_is_a_candidate_for_its_clients(subject):
    assert all(subject in candidates for candidates in candidates_by_client(subject))


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        (10.0, 20.0, 2.0),
        (20.0, 10.0, 0.5),
        (None, 10.0, None),
        (10.0, None, None),
        (0.0, 10.0, None),
        (10.0, 0.0, None),
        (-1.0, 10.0, None),
        (math.nan, 10.0, None),
        (math.inf, 10.0, None),
        (10.0, math.inf, None),
    ],
)
def test_a_factor_exists_only_between_enforceable_limits(before, after, factor):
    assert change_factor(before, after) == factor
