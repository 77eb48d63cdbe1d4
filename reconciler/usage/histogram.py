"""Integer histograms that merge by addition: buckets that grow by 2^(1/32), weights in whole milliseconds.

For reports only; sizing looks at the series. Bucket 0 is zero. Bucket i holds the whole numbers x with
BOUNDS[i-1] <= x < BOUNDS[i], where BOUNDS[n] is the smallest whole number not below 2^(n/32). For a whole number that
is the same as i = 1 + floor(32 * log2(x)), but logarithms differ between machines at the borders: an engine may
guess by one and has to correct the guess against the bounds. Low buckets that hold no whole number stay empty.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from math import isqrt
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import MAX_UNITS, MILLION, Sample

STEPS: Final = 32
"""Buckets per doubling: a bucket is at most 2.2 % wide."""


def _root_up(power: int) -> int:
    """The smallest whole number not below 2^(power/32): five square roots, each exact."""
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
"""The first whole number of each bucket from 1 on, and one more above the largest rate."""


def bucket_index(units: int) -> int:
    """The bucket of a rate.

    Raises:
        QuotaValueError: The rate is below 0 or above :data:`~reconciler.usage.samples.MAX_UNITS`.
    """
    if not 0 <= units <= MAX_UNITS:
        raise QuotaValueError(f"a rate of {units} units has no bucket")
    return bisect_right(BOUNDS, units)


def largest_in(index: int) -> int:
    """The largest whole number of a bucket, which stands for all of it: a percentile is never reported too low."""
    return BOUNDS[index] - 1


def histogram(samples: Iterable[Sample]) -> dict[int, int]:
    """Milliseconds per bucket, ascending; empty buckets are left out."""
    weights_by_bucket: dict[int, int] = {}
    for sample in samples:
        index = bucket_index(sample.rate_units)
        weights_by_bucket[index] = weights_by_bucket.get(index, 0) + sample.dt_ms
    return dict(sorted(weights_by_bucket.items()))


def merged(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Histograms of days or brokers as one; the order does not matter."""
    weights_by_bucket: dict[int, int] = {}
    for part in parts:
        for index, weight in part.items():
            weights_by_bucket[index] = weights_by_bucket.get(index, 0) + weight
    return dict(sorted(weights_by_bucket.items()))


def percentile(counts: Mapping[int, int], ppm: int) -> int | None:
    """The rate that was not exceeded in so many millionths of the time, at most one bucket too high.

    Returns:
        The largest number of the first bucket up to which that much of the time lies; ``None`` for no time.

    Raises:
        QuotaValueError: ``ppm`` is not from 1 to 1,000,000.
    """
    if not 0 < ppm <= MILLION:
        raise QuotaValueError(f"there is no percentile of {ppm} millionths")
    total_weight = sum(counts.values())
    passed = 0
    for index in sorted(counts):
        passed += counts[index]
        if passed * MILLION >= ppm * total_weight:
            return largest_in(index)
    return None
