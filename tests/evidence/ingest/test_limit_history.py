"""Limits over time from quota snapshots: what applies when, uncertain times, whose request quota holds a bucket."""

import pytest

from reconciler.evidence.ingest.limit_history import (
    LimitHistory,
    RequestQuotaCover,
    UnknownLimit,
    may_share,
)
from reconciler.evidence.store.snapshot_import import LimitSnapshot
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import bucket_of

PRODUCE = QuotaType.PRODUCE
U, C, UC = bucket_of("u"), bucket_of("", "c"), bucket_of("u", "c")


def state(key=Key.PRODUCER_BYTE_RATE, **limits):
    """u=1, c=2, uc=3, d=4: limits of a user, a client id, both, the default user."""
    of = {
        "u": entity(user="u"),
        "c": entity(client_id="c"),
        "uc": entity(user="u", client_id="c"),
        "d": entity(user=DEFAULT),
    }
    return QuotaState(
        limits={of[name]: limits_of({key: float(value)}) for name, value in limits.items()}
    )


def look(at, quota_state, name=""):
    return LimitSnapshot(observed_ms=at, snapshot_id=name or str(at), state=quota_state)


def test_a_snapshot_applies_until_another_one_differs():
    limits = LimitHistory([look(300, state(u=7)), look(100, state(u=5)), look(200, state(u=5))])
    values = [
        limits.limit(limits.at(ts), PRODUCE, U) for ts in (50, 100, 150, 200, 201, 299, 300, 999)
    ]
    assert values == [
        UnknownLimit.UNSEEN,
        5,
        5,
        5,
        UnknownLimit.CHANGED,
        UnknownLimit.CHANGED,
        7,
        7,
    ]


def test_between_snapshots_a_limit_that_both_contain_is_certain():
    limits = LimitHistory([look(100, state(u=5)), look(200, state(u=5, c=3))])
    assert limits.limit(limits.at(150), PRODUCE, U) == 5
    assert limits.limit(limits.at(150), PRODUCE, C) is UnknownLimit.CHANGED


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_an_invalid_limit_value_is_unknown(value):
    limits = LimitHistory([look(0, state(u=value))])
    assert limits.limit(limits.at(1), PRODUCE, U) is UnknownLimit.UNSEEN


def test_a_limit_beyond_the_range_of_arithmetic_counts_as_no_limit():
    limits = LimitHistory([look(0, state(u=1e18))])
    assert limits.limit(limits.at(1), PRODUCE, U) is None


def test_a_type_is_measured_while_every_adjacent_snapshot_contains_a_limit():
    limits = LimitHistory(
        [look(100, state()), look(200, state(u=5)), look(250, state(u=6)), look(300, state())]
    )
    at = (50, 100, 150, 200, 225, 250, 275, 300)
    answers = [limits.measured(limits.at(ts), PRODUCE) for ts in at]
    assert answers == [None, False, False, True, True, True, False, False]


def test_an_address_is_counted_while_every_adjacent_snapshot_contains_a_limit_for_it():
    ip, second_ip = bucket_of("", "", "10.0.0.1"), bucket_of("", "", "10.0.0.2")

    def limited(**values):
        of = {"one": entity(ip="10.0.0.1"), "default": entity(ip=DEFAULT)}
        return QuotaState(
            limits={
                of[name]: limits_of({Key.CONNECTION_CREATION_RATE: float(value)})
                for name, value in values.items()
            }
        )

    limits = LimitHistory(
        [
            look(100, limited(one=5)),
            look(200, limited(one=6)),
            look(300, limited(one=2**31 - 1, default=2**31 - 2)),
        ]
    )
    at = (50, 100, 150, 200, 250, 300)
    assert [limits.is_ip_counted(limits.at(ts), ip) for ts in at] == [
        None,
        True,
        True,
        True,
        False,
        False,
    ]
    assert [limits.is_ip_counted(limits.at(ts), second_ip) for ts in at] == [None] + [False] * 4 + [
        True
    ]


@pytest.mark.parametrize(
    ("limits", "bucket", "covering"),
    [
        ({}, U, RequestQuotaCover.NONE),
        ({"u": 1}, U, U),
        ({"u": 1}, UC, U),
        ({"u": 1}, C, RequestQuotaCover.PARTS),
        ({"c": 1}, C, C),
        ({"c": 1}, U, RequestQuotaCover.PARTS),
        ({"uc": 1}, UC, UC),
        ({"uc": 1}, U, RequestQuotaCover.PARTS),
        ({"d": 1, "c": 1}, UC, U),
    ],
)
def test_the_entity_whose_request_quota_limits_a_bucket_is_determined(limits, bucket, covering):
    history = LimitHistory([look(0, state(Key.REQUEST_PERCENTAGE, **limits))])
    assert history.request(history.at(1), bucket) == covering


def test_a_request_quota_that_changes_is_uncertain():
    history = LimitHistory([look(0, state()), look(100, state(Key.REQUEST_PERCENTAGE, u=1))])
    assert history.request(history.at(50), U) is UnknownLimit.CHANGED
    assert LimitHistory([]).request(0, U) is UnknownLimit.UNSEEN


def test_buckets_share_clients_unless_a_name_differs():
    assert may_share(U, C)
    assert may_share(U, UC)
    assert not may_share(U, bucket_of("v", "c"))


def test_the_digest_of_the_limits_of_a_day_changes_only_with_the_limits_of_that_day():
    base = [look(10, state(u=5)), look(500, state(u=5))]
    same = [*base, look(50, state(u=5)), look(150, state(u=5)), look(900, state(u=9))]
    assert LimitHistory(base).digest(100, 200) == LimitHistory(same).digest(100, 200)
    for snapshot in (look(150, state(u=6)), look(50, state(u=6)), look(300, state(u=6))):
        assert LimitHistory([*base, snapshot]).digest(100, 200) != LimitHistory(base).digest(
            100, 200
        )
