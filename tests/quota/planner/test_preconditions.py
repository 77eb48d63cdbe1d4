"""The preconditions of a plan: its own pairs, and every live limit to which clients of a removed pair fall back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import ABSENT, DEFAULT, entity, level
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.preconditions import (
    differences,
    preconditions_of,
)
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
        basis = preconditions_of(
            [change(subject, value, None, key)], owned=OwnershipRecords(cluster_id="x"), live=live
        )
        expected = {
            (wider, key)
            for wider, wider_key, _ in live.pairs()
            if wider_key is key and level(wider) > level(subject) and may_match_same(subject, wider)
        }
        assert {(pair.entity, pair.key) for pair in basis.relied_on} == expected


@given(STATES)
def test_many_removals_rely_on_the_limits_that_each_of_them_relies_on(live):
    pairs = list(live.pairs())
    together = preconditions_of(
        [change(e, v, None, k) for e, k, v in pairs[::2]],
        owned=OwnershipRecords(cluster_id="x"),
        live=live,
    )
    alone = [
        preconditions_of([change(e, v, None, k)], owned=OwnershipRecords(cluster_id="x"), live=live)
        for e, k, v in pairs[::2]
    ]
    own = {(e, k) for e, k, _ in pairs[::2]}
    relied = {(pair.entity, pair.key) for basis in alone for pair in basis.relied_on}
    assert {(pair.entity, pair.key) for pair in together.relied_on} == relied - own


def test_removals_of_one_kind_rely_on_the_same_client_ids():
    row = (1.0, None, None, None, None)
    users, client = [entity(user="a"), entity(user="b")], entity(client_id="app")
    live = QuotaState(limits=dict.fromkeys([*users, client], row))
    basis = preconditions_of(
        [change(e, 1.0, None) for e in users], owned=OwnershipRecords(cluster_id="x"), live=live
    )
    assert [pair.entity for pair in basis.relied_on] == [client]


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
    basis = preconditions_of(
        [change(e, v, None, k) for e, k, v in live.pairs() if e in removed],
        owned=OwnershipRecords(cluster_id="x"),
        live=live,
    )
    assert {pair.entity for pair in basis.relied_on} == set(relied_on)


def test_a_set_relies_on_its_own_pair_only():
    live = QuotaState(limits={entity(user=DEFAULT): (1.0, None, None, None, None)})
    basis = preconditions_of(
        [change(entity(user="a"), None, 2.0)], owned=OwnershipRecords(cluster_id="x"), live=live
    )
    assert [pair.live for pair in basis.pairs] == [None]
    assert basis.relied_on == ()


def test_preconditions_equal_themselves_and_every_difference_is_reported():
    subject = entity(user="a")
    live = QuotaState(
        limits={
            subject: (1.0, None, None, None, None),
            entity(user=DEFAULT): (9.0, None, None, None, None),
        }
    )
    owned = OwnershipRecords(cluster_id="x").with_changes(
        [Recorded(entity=subject, key=RATE, value=1.0, owner=Owner(document="a/b", since=1.0))]
    )
    changes = [change(subject, 1.0, None)]
    then = preconditions_of(changes, owned=owned, live=live)
    assert differences(then, preconditions_of(changes, owned=owned, live=live)) == ()

    elsewhere = live.with_values([(entity(user="other"), RATE, 5.0), (subject, SHARE, 3.0)])
    assert differences(then, preconditions_of(changes, owned=owned, live=elsewhere)) == ()

    other_live = live.with_values([(subject, RATE, 2.0)])
    (difference,) = differences(then, preconditions_of(changes, owned=owned, live=other_live))
    assert (difference.then.live, difference.now.live) == (1.0, 2.0)

    gone = live.with_values([(entity(user=DEFAULT), RATE, None)])
    (difference,) = differences(then, preconditions_of(changes, owned=owned, live=gone))
    assert (difference.entity, difference.now) == (entity(user=DEFAULT), None)

    new = live.with_values([(entity(client_id="c"), RATE, 4.0)])
    (difference,) = differences(then, preconditions_of(changes, owned=owned, live=new))
    assert (difference.entity, difference.then) == (entity(client_id="c"), None)

    transferred_records = owned.with_changes(
        [Recorded(entity=subject, key=RATE, value=1.0, owner=Owner(document="c/d"))]
    )
    (difference,) = differences(
        then, preconditions_of(changes, owned=transferred_records, live=live)
    )
    assert (difference.then.document, difference.now.document) == ("a/b", "c/d")


def test_a_value_that_kafka_enforces_equally_is_not_a_difference():
    subject = entity(user="a")
    changes = [change(subject, 1_000_000.0, 5.0)]
    first, second = (
        preconditions_of(
            changes,
            owned=OwnershipRecords(cluster_id="x"),
            live=QuotaState(limits={subject: (v, None, None, None, None)}),
        )
        for v in (1_000_000.0, 1_000_000.0000005)
    )
    assert differences(first, second) == ()
