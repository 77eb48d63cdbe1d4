"""Every live limit to which clients of a removed pair fall back, and no other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import ABSENT, DEFAULT, entity, level
from reconciler.quota.keys import Key
from reconciler.quota.planner.effects import Fallback, fallbacks
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.state import QuotaState
from tests.quota.reference import may_match_same

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
SLOTS = (ABSENT, DEFAULT, "a", "b")
ENTITIES = [
    *(entity(user=u, client_id=c) for u in SLOTS for c in SLOTS if (u, c) != (ABSENT, ABSENT)),
    entity(ip=DEFAULT),
    entity(ip="10.0.0.1"),
]
STATES = st.dictionaries(st.sampled_from(ENTITIES), st.sampled_from([1.0, 2.0])).map(
    lambda values: QuotaState(
        limits={
            e: (None, None, None, None, v) if e[2] is not ABSENT else (v, None, None, None, None)
            for e, v in values.items()
        }
    )
)


def change(subject, before, after, key=RATE) -> QuotaChange:
    return QuotaChange(entity=subject, key=key, before=before, after=after, cause=Cause.PRUNE)


@given(STATES)
def test_a_removal_relies_on_every_wider_live_limit_that_can_match_one_of_its_clients(live):
    for subject, key, value in live.pairs():
        basis = fallbacks([change(subject, value, None, key)], live)
        expected = {
            (wider, key)
            for wider, wider_key, _ in live.pairs()
            if wider_key is key and level(wider) > level(subject) and may_match_same(subject, wider)
        }
        assert {(pair.entity, pair.key) for pair in basis} == expected


@given(STATES)
def test_many_removals_rely_on_the_limits_that_each_of_them_relies_on(live):
    pairs = list(live.pairs())
    together = fallbacks([change(e, v, None, k) for e, k, v in pairs[::2]], live)
    alone = [fallbacks([change(e, v, None, k)], live) for e, k, v in pairs[::2]]
    own = {(e, k) for e, k, _ in pairs[::2]}
    relied = {(pair.entity, pair.key) for basis in alone for pair in basis}
    assert {(pair.entity, pair.key) for pair in together} == relied - own


USER_LEVELS = [entity(user="a"), entity(user=DEFAULT)]
CLIENT_LEVELS = [entity(client_id="app"), entity(client_id=DEFAULT)]


@pytest.mark.parametrize(
    ("removed", "relied_on"),
    [
        ([entity(ip="10.0.0.1")], [entity(ip=DEFAULT)]),
        ([entity(ip=DEFAULT)], []),
        ([entity(client_id="app")], [entity(client_id=DEFAULT)]),
        (USER_LEVELS, CLIENT_LEVELS),
    ],
)
def test_removals_rely_on_the_wider_limits_of_their_own_clients(removed, relied_on):
    wider = [*CLIENT_LEVELS, entity(ip=DEFAULT)]
    row, ip_row = (1.0, None, None, None, None), (None, None, None, None, 1.0)
    live = QuotaState(
        limits={e: row if e[2] is ABSENT else ip_row for e in dict.fromkeys([*removed, *wider])}
    )
    basis = fallbacks([change(e, v, None, k) for e, k, v in live.pairs() if e in removed], live)
    assert {pair.entity for pair in basis} == set(relied_on)


def test_a_set_relies_on_no_limit_and_a_removal_on_no_changed_one():
    default, a, b = entity(user=DEFAULT), entity(user="a"), entity(client_id="b")
    live = QuotaState(limits=dict.fromkeys((default, a, b), (1.0, None, None, None, None)))
    assert fallbacks([change(a, 1.0, 2.0)], live) == ()
    changes = [change(a, 1.0, None), change(default, 1.0, 5.0)]
    assert fallbacks(changes, live) == (Fallback(b, RATE, 1.0),)
