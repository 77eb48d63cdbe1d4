"""The spans of a series in which the broker recorded throttling, and the points of its chart."""

from typing import NamedTuple

import numpy as np

from reconciler.usage.kernel.series import SampleSeries


class ThrottledSpan(NamedTuple):
    """A time without a break in which the broker recorded throttling: the largest delay and rate of its readings."""

    begin_ms: int
    end_ms: int
    delay_ms: int
    rate_units: int


def throttled_spans(series: SampleSeries, max_gap_ms: int) -> tuple[ThrottledSpan, ...]:
    """Return the spans of a series, in time order. A gap above ``max_gap_ms`` ends a span."""
    readings = np.flatnonzero(series.throttle_ms > 0)
    if not readings.size:
        return ()
    is_break = (np.diff(readings) > 1) | (np.diff(series.ts_ms[readings]) > max_gap_ms)
    runs = np.split(readings, np.flatnonzero(is_break) + 1)
    return tuple(
        ThrottledSpan(
            begin_ms=int(series.ts_ms[run[0]] - series.dt_ms[run[0]]),
            end_ms=int(series.ts_ms[run[-1]]),
            delay_ms=int(series.throttle_ms[run].max()),
            rate_units=int(series.rate_units[run].max()),
        )
        for run in runs
    )


def chart_points(
    series: SampleSeries, from_ms: int, length_ms: int
) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]]:
    """Return ``(begin, mean rate, largest rate)`` of each point of a chart, and the begins of points with throttling.

    Args:
        series: At least one reading, none before ``from_ms``.
        from_ms: Begin of the first point.
        length_ms: Length of a point. A reading belongs to the point in which it was taken.
    """
    numbers = (series.ts_ms - from_ms) // length_ms
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    begins = (from_ms + numbers[firsts] * length_ms).tolist()
    # As doubles: the units of a long point can exceed 64 bits.
    units = np.add.reduceat(series.rate_units * series.dt_ms.astype(np.float64), firsts)
    means = np.rint(units / np.add.reduceat(series.dt_ms, firsts)).astype(np.int64).tolist()
    largest = np.maximum.reduceat(series.rate_units, firsts).tolist()
    throttled = np.maximum.reduceat(series.throttle_ms, firsts) > 0
    points = tuple(zip(begins, means, largest, strict=True))
    return points, tuple(begin for begin, marked in zip(begins, throttled, strict=True) if marked)
