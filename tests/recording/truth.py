"""The measured result of records, and the core's forecast: throttled time and worst delay, of groups and of runs."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.usage.kernel.throttling import Demand, demand_of
from reconciler.usage.samples import QuotaType, cadence
from tests.usage.reference import (
    Sample,
    UntimedSample,
    between,
    columns,
    rate_units,
    throttled_ms,
    timed,
)

LATE_MS: Final = 1_000
"""A record that waits longer than without limits by this much was throttled, like MIN_DELAY_MS of the model."""

TIME_BOUND: Final = 0.15
DELAY_BOUND: Final = 0.20
STALL_MS: Final = 100
"""A record without limits that takes longer than the median by this much waited for the machine; by less, it did not wait."""

Points = Sequence[tuple[int, float]]
"""Milliseconds since the epoch and value."""

Families = Mapping[tuple[str, str, str], Points]
"""The series of one metric by quota type, user and client id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One record: when it was due, and its delay; a record that never arrived has a minimum delay."""

    due_ms: int
    took_ms: int
    arrived: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The measured result for the clients of a group."""

    # Time in which at least one record was late by more than a second beyond the baseline.
    throttled_ms: int
    worst_ms: int  # the longest wait of a record, less the usual one; 0 if that is no wait
    baseline_ms: int  # the 99th percentile of delays without limits
    # Time in which a record without limits waited for the machine. A limited client uses no quota meanwhile, so that a
    # later record may wait that much longer.
    machine_ms: int
    # Whether a record had not arrived at the end of the half, so that the true figures are higher.
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A forecast and the measured value, in milliseconds."""

    told_ms: int
    true_ms: int

    @property
    def off(self) -> float:
        """The relative error of the forecast."""
        return (
            (self.told_ms - self.true_ms) / self.true_ms
            if self.true_ms
            else float(self.told_ms > 0)
        )

    def within(self, bound: float, *, machine_ms: int = 0) -> bool:
        """Whether the error is at most this share of the measured value, plus what the machine may have added to it."""
        return abs(self.told_ms - self.true_ms) <= bound * self.true_ms + machine_ms


def truth(free: Sequence[Way], limited: Sequence[Way]) -> Truth:
    """The effect of a limit on the records of a group, compared with the same group without limits."""
    took = sorted(record.took_ms for record in free)
    baseline = took[len(took) * 99 // 100]
    late = LATE_MS + baseline
    usual = statistics.median_low(took)
    worst_ms = max(record.took_ms for record in limited) - usual
    return Truth(
        throttled_ms=_late_ms(limited, late),
        worst_ms=worst_ms if worst_ms > STALL_MS else 0,
        baseline_ms=baseline,
        machine_ms=_late_ms(free, usual + STALL_MS),
        is_cut=not all(record.arrived for record in limited),
    )


def _late_ms(records: Sequence[Way], late: int) -> int:
    """The time in which at least one record had been under way for longer than ``late``."""
    spans = sorted(
        (record.due_ms + late, record.due_ms + record.took_ms)
        for record in records
        if record.took_ms > late
    )
    total, reached = 0, 0
    for begin, end in spans:
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def samples(
    kind: QuotaType, rates: Points, delays: Points, *, scrapes: Sequence[int], scrape_ms: int
) -> tuple[Sample, ...]:
    """The samples of a series after ingest.

    Args:
        kind: Measured quota type.
        rates: Its points.
        delays: Points of its throttle time; NaN = none.
        scrapes: The scrapes that count.
        scrape_ms: The scrape step.
    """
    moments = set(scrapes)
    throttle = {ts: 0 if value != value else round(value) for ts, value in delays}  # noqa: PLR0124 - true only for NaN
    readings = [
        UntimedSample(ts, units, throttle.get(ts))
        for ts, value in rates
        if ts in moments and (units := rate_units(kind, value)) is not None
    ]
    return timed(readings, cadence(scrape_ms))


def demand(samples: Sequence[Sample], span: tuple[int, int], scrape_ms: int) -> Demand:
    """The recorded demand of a time range."""
    return demand_of(columns(between(samples, *span)), cadence(scrape_ms).max_gap_ms)


def observed(samples: Sequence[Sample], span: tuple[int, int]) -> int | None:
    """The time in which the broker itself reported throttling."""
    return throttled_ms(between(samples, *span))


def points_of(
    matrix: Mapping[str, object], name: str
) -> dict[tuple[str, str, str], list[tuple[int, float]]]:
    """The series of a metric in a response of Prometheus: (type, user, client id) -> points. Names stay encoded."""
    points: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for series in matrix["data"]["result"]:
        labels = series["metric"]
        if labels["__name__"] == name:
            who = (labels.get("type", ""), labels.get("user", ""), labels.get("client_id", ""))
            points[who] = [
                (round(float(at) * 1000), float(value)) for at, value in series["values"]
            ]
    return points
