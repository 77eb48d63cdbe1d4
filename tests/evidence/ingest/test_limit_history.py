"""Limits over time from quota snapshots: what applies when, uncertain times, whose request quota holds a bucket."""

import pytest

from reconciler.evidence.ingest.limit_history import (
    LimitHistory,
    RequestQuotaCover,
    UnknownLimit,
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


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_an_invalid_limit_value_is_unknown(value):
    limits = LimitHistory([look(0, state(u=value))])
    assert limits.limit(limits.at(1), PRODUCE, U) is UnknownLimit.UNSEEN


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
