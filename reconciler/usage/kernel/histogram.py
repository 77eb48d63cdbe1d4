"""The buckets of integer histograms that merge by addition, and percentiles of the time in them.

Bounds grow by 2^(1/32), weights are whole milliseconds. For reports only; sizing reads the series. Bucket 0 is zero.
Bucket i contains the whole numbers x with BOUNDS[i-1] <= x < BOUNDS[i], where BOUNDS[n] is the smallest whole number not
below 2^(n/32). For a whole number that is i = 1 + floor(32 * log2(x)), but logarithms differ between machines at the
bounds: an implementation must correct its estimate against BOUNDS. Low buckets without a whole number stay empty.
"""

from math import isqrt
from typing import Any, Final

import numpy as np

from reconciler.usage.kernel.series import IntColumn
from reconciler.usage.samples import MAX_UNITS, MILLION

STEPS: Final = 32
"""Buckets per doubling: a bucket is at most 2.2 % wide."""


def _root_up(power: int) -> int:
    """Return the smallest whole number not below 2^(power/32): five exact integer square roots."""
    value = 1 << power
    root = value
    for _ in range(5):
        root = isqrt(root)
    return root if root**STEPS == value else root + 1


def _bounds() -> tuple[int, ...]:
    upper_bounds: list[int] = []
    while not upper_bounds or upper_bounds[-1] <= MAX_UNITS:
        upper_bounds.append(_root_up(len(upper_bounds)))
    return tuple(upper_bounds)


BOUNDS: Final = _bounds()
"""The lowest whole number of each bucket from 1 on, and one more above the largest rate."""


_BOUNDS: Final = np.array(BOUNDS, dtype=np.int64)


def bucket_indexes(units: Any) -> IntColumn:  # noqa: ANN401 - any array that NumPy reads
    """Return the bucket of each rate: that of the whole numbers x with BOUNDS[i-1] <= x < BOUNDS[i]; 0 for 0."""
    return np.searchsorted(_BOUNDS, np.asarray(units), side="right").astype(np.int64)


def percentiles(
    series: IntColumn, buckets: IntColumn, weights: IntColumn, shares_ppm: tuple[int, ...]
) -> tuple[IntColumn, ...]:
    """Return for each share the largest rate of the first bucket up to which it lies, of each series.

    Args:
        series: The number of the series of each entry: 0, 1, 2, …, each at least once.
        buckets: Its bucket.
        weights: The time in the bucket, in milliseconds; a bucket may have several entries.
        shares_ppm: Shares of the time of a series, in millionths.
    """
    order = np.lexsort((buckets, series))
    series, buckets, weights = series[order], buckets[order], weights[order]
    begins = np.flatnonzero(np.diff(series, prepend=-1))
    passed = np.cumsum(weights)
    before = np.concatenate(([0], passed))[begins]
    totals = np.concatenate((before[1:], passed[-1:])) - before
    result = []
    for ppm in shares_ppm:
        enough = before + -(-ppm * totals // MILLION)
        result.append(_BOUNDS[buckets[np.searchsorted(passed, np.maximum(enough, before + 1))]] - 1)
    return tuple(result)
