"""Every combination of desired, applied, live and intended values falls into exactly one row."""

import itertools
from collections.abc import Callable

import pytest

from reconciler.quota.keys import Key
from reconciler.quota.owned import Intent, Owner
from reconciler.quota.policy import Cause
from reconciler.quota.table import classify, effective_applied, landed

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
VALUES = (None, 1.0, 2.0, 3.0)
NO_INTENT = "none"
OWNER = Owner(document="team/one")

# (desired, applied or intended, live, whether a record or an intent is left) -> whether the row says so.
Row = Callable[[float | None, float | None, float | None, bool], bool]
ROWS: dict[Cause | None, Row] = {
    Cause.IN_SYNC: lambda d, a, v, _: d is not None and d == a == v,
    Cause.ADOPT: lambda d, a, v, _: d is not None and a is None and d == v,
    Cause.CREATE: lambda d, a, v, _: d is not None and a is None and v is None,
    Cause.TAKEOVER: lambda d, a, v, _: d is not None and a is None and v not in (None, d),
    Cause.SPEC: lambda d, a, v, _: d is not None and a is not None and d != a and v == a,
    Cause.CONVERGED: lambda d, a, v, _: d is not None and a is not None and v == d and a != d,
    Cause.DRIFT: lambda d, a, v, _: d is not None and d == a and v != a,
    Cause.SPEC_OVER_DRIFT: lambda d, a, v, _: None not in (d, a) and d != a and v not in (a, d),
    Cause.PRUNE: lambda d, a, v, _: d is None and v is not None and v == a,
    Cause.CHANGED_BY_ANOTHER: lambda d, a, v, _: d is None and None not in (a, v) and v != a,
    Cause.GONE: lambda d, a, v, left: d is None and v is None and left,
    Cause.UNMANAGED: lambda d, a, v, _: d is None and a is None and v is not None,
    None: lambda d, a, v, left: d is None and v is None and not left,
}


def intent_of(value: float | str | None) -> Intent | None:
    return None if value == NO_INTENT else Intent(value=value, owner=OWNER)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [RATE, SHARE])
def test_each_combination_falls_into_exactly_one_row(key):
    found = set()
    for desired, applied, live, intended in itertools.product(
        VALUES, VALUES, VALUES, (NO_INTENT, *VALUES)
    ):
        last = intended if intended == live else applied
        left = applied is not None or intended != NO_INTENT
        (row,) = [cause for cause, fits in ROWS.items() if fits(desired, last, live, left)]
        cause = classify(
            key, desired=desired, applied=applied, live=live, intent=intent_of(intended)
        )
        assert cause is row, (desired, applied, live, intended)
        found.add(cause)
    assert found == set(ROWS)


def test_a_live_value_that_was_intended_counts_as_applied():
    intent = intent_of(2.0)
    assert effective_applied(RATE, 1.0, intent, 2.0) == 2.0
    assert effective_applied(RATE, 1.0, intent, 1.0) == 1.0
    assert effective_applied(RATE, None, intent, None) is None
    assert effective_applied(RATE, 1.0, None, 2.0) == 1.0


def test_an_intended_removal_that_happened_leaves_nothing_applied():
    assert landed(RATE, intent_of(None), None)
    assert effective_applied(RATE, 1.0, intent_of(None), None) is None
    again = classify(RATE, desired=1.0, applied=1.0, live=None, intent=intent_of(None))
    assert again is Cause.CREATE


def test_without_an_intent_nothing_landed():
    assert not landed(RATE, None, None)


def test_near_whole_numbers_are_the_same_for_integral_keys_only():
    near = 1.000_000_5
    assert classify(RATE, desired=1.0, applied=1.0, live=near) is Cause.IN_SYNC
    assert classify(RATE, desired=1.0, applied=None, live=near) is Cause.ADOPT
    assert classify(RATE, desired=None, applied=1.0, live=near) is Cause.PRUNE
    assert classify(SHARE, desired=1.0, applied=1.0, live=near) is Cause.DRIFT
