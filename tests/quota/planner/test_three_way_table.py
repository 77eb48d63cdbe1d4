"""Every combination of desired, applied and live values, with or without a pending write, matches exactly one row."""

import itertools
from collections.abc import Callable

import pytest

from reconciler.quota.keys import Key
from reconciler.quota.planner.three_way_table import classify
from reconciler.quota.policy import Cause

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
VALUES = (None, 1.0, 2.0, 3.0)

# (desired, applied, live, whether a record or a pending write remains) -> whether the row matches.
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
    Cause.GONE: lambda d, a, v, has_record: d is None and v is None and has_record,
    Cause.UNMANAGED: lambda d, a, v, _: d is None and a is None and v is not None,
    None: lambda d, a, v, has_record: d is None and v is None and not has_record,
}


@pytest.mark.parametrize("key", [RATE, SHARE])
def test_each_combination_matches_exactly_one_row(key):
    causes = set()
    for desired, applied, live, pending in itertools.product(VALUES, VALUES, VALUES, (False, True)):
        has_record = applied is not None or pending
        (row,) = [cause for cause, fits in ROWS.items() if fits(desired, applied, live, has_record)]
        cause = classify(key, desired=desired, applied=applied, live=live, is_pending=pending)
        assert cause is row, (desired, applied, live, pending)
        causes.add(cause)
    assert causes == set(ROWS)


def test_nearly_whole_numbers_are_equal_for_integral_keys_only():
    near = 1.000_000_5
    assert classify(RATE, desired=1.0, applied=1.0, live=near) is Cause.IN_SYNC
    assert classify(RATE, desired=1.0, applied=None, live=near) is Cause.ADOPT
    assert classify(RATE, desired=None, applied=1.0, live=near) is Cause.PRUNE
    assert classify(SHARE, desired=1.0, applied=1.0, live=near) is Cause.DRIFT
