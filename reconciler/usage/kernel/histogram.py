"""Buckets of rates, and percentiles of the time in them (:mod:`reconciler.usage.histogram`)."""

from typing import Any, Final

import numpy as np

from reconciler.usage.histogram import BOUNDS
from reconciler.usage.kernel.series import IntColumn
from reconciler.usage.samples import MILLION

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
