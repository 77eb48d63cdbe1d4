"""The load of a broker relative to its budget: the rate served to all clients together, moment by moment.

Served rate, not demand: a backlog drains after its peak, so the smaller of rate and limit would hide later load
(:func:`reconciler.usage.kernel.throttling.served`). All arithmetic uses integers.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from reconciler.errors import QuotaValueError
from reconciler.usage.capacity import HEADROOM_PPM, BudgetBasis, budget
from reconciler.usage.kernel.series import NOT_RECORDED, IntColumn
from reconciler.usage.samples import MILLION

COINCIDENT_PPM: Final = 999_000
"""The share of time that the coincident load covers: 99.9 %."""

MOST_PPM: Final = 1_000 * MILLION
"""Maximum reported load, a thousand times the budget; also the load over a budget of 0."""

_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMoments:
    """Moments of a broker in one direction, in any order. Values that were not recorded are :data:`NOT_RECORDED`."""

    dt_ms: IntColumn
    served_units: IntColumn  # units served to all buckets together in the time of each moment
    recorded_units: IntColumn  # recorded rate of all buckets together, in units per second
    broker_units: IntColumn  # total rate of the broker without replication, per second
    replication_units: IntColumn  # rate of replication in the same direction, per second

    def __post_init__(self) -> None:
        served = int(self.served_units.max(initial=0))
        if served > _MOST // 1000:
            raise QuotaValueError(f"{served} bytes at one moment are more than a broker can serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapacity:
    """The network capacity of a broker in one direction."""

    units: int | None  # bytes/s; None = not configured
    headroom_ppm: int = HEADROOM_PPM

    def __post_init__(self) -> None:
        if self.units is not None and self.units > _MOST // MILLION:
            raise QuotaValueError(f"a capacity of {self.units} bytes/s is more than a broker has")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """The load of one broker in one direction over a window. Shares are millionths."""

    budget_units: int | None  # the smallest budget of the window, bytes/s; None = unknown capacity
    coincident_ppm: int | None  # served rate over budget, not exceeded in 99.9 % of the time
    overload_ms: int | None  # time in which the served rate exceeded the budget
    # Bytes of no bucket, of all bytes; None if the broker's total is not recorded.
    unattributed_ppm: int | None
    covered_ms: int  # recorded time, without that of an unknown budget if some budget is known
    basis: BudgetBasis


def budgets(moments: BrokerMoments, capacity: BrokerCapacity) -> IntColumn:
    """Return the rate left for clients at each moment, bytes/s; :data:`NOT_RECORDED` = unknown: no capacity or no recorded replication."""
    unknown = np.full(len(moments.dt_ms), NOT_RECORDED, np.int64)
    if capacity.units is None:
        return unknown
    usable = budget(capacity.units, 0, capacity.headroom_ppm)
    measured = np.maximum(0, usable - moments.replication_units)
    return np.where(moments.replication_units != NOT_RECORDED, measured, unknown)


def load(moments: BrokerMoments, capacity: BrokerCapacity) -> BrokerLoad:
    """Compute the load of a window."""
    available = budgets(moments, capacity)
    is_known = available != NOT_RECORDED
    unattributed = unattributed_ppm(moments)
    if not is_known.any():
        return BrokerLoad(
            budget_units=None,
            coincident_ppm=None,
            overload_ms=None,
            unattributed_ppm=unattributed,
            covered_ms=int(moments.dt_ms.sum()),
            basis=BudgetBasis.NO_DATA,
        )
    spans, available = moments.dt_ms[is_known], available[is_known]
    loads = load_ppm(moments.served_units[is_known], spans, available)
    return BrokerLoad(
        budget_units=int(available.min()),
        coincident_ppm=weighted(loads, spans, COINCIDENT_PPM),
        overload_ms=int(spans[loads > MILLION].sum()),
        unattributed_ppm=unattributed,
        covered_ms=int(spans.sum()),
        basis=BudgetBasis.MEASURED,
    )


def load_ppm(served_units: IntColumn, dt_ms: IntColumn, available: IntColumn) -> IntColumn:
    """Return the served rate over the budget in millionths, rounded down, at most :data:`MOST_PPM`, also for use of a budget of 0.

    Args:
        served_units: Units served in the time of each moment.
        dt_ms: The time of each moment.
        available: The budget of each moment, bytes/s; at most the largest capacity.
    """
    rate = served_units * 1000 // dt_ms
    some = np.maximum(available, 1)
    # Divides first: a rate times a million may not fit 64 bits.
    quotient, remainder = np.divmod(rate, some)
    ppm = np.minimum(quotient, 1_000) * MILLION + remainder * MILLION // some
    nothing = np.where(served_units > 0, MOST_PPM, 0)
    return np.where(available > 0, np.minimum(ppm, MOST_PPM), nothing)


def weighted(values: IntColumn, weights: IntColumn, ppm: int) -> int:
    """Return the smallest of the values (at least one is required) that is not exceeded in ``ppm`` millionths of the weight."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    enough = -(-int(passed[-1]) * ppm // MILLION)
    return int(values[order][np.searchsorted(passed, enough)])


def unattributed_ppm(moments: BrokerMoments) -> int | None:
    """Return the bytes of no bucket, of all bytes of the broker, in millionths; ``None`` if the total is not recorded or 0.

    Gauges of buckets and of the broker cover different windows, so buckets may record more; that counts as 0.
    """
    is_known = moments.broker_units != NOT_RECORDED
    spans = moments.dt_ms[is_known]
    total_units = int((moments.broker_units[is_known] * spans // 1000).sum())
    if not total_units:
        return None
    attributed_units = int((moments.recorded_units[is_known] * spans // 1000).sum())
    return max(0, total_units - attributed_units) * MILLION // total_units


class CoincidentRates:
    """The rates of one broker, added up moment by moment, before and after a plan: one scrape reads all clients.

    Args:
        total: Times and rates of all clients together; ``None`` = what is added adds up to them.
    """

    def __init__(self, total: tuple[IntColumn, IntColumn] | None = None) -> None:
        self._is_total = total is not None
        self._times = np.zeros(0, np.int64)
        self._sums = np.zeros((2, 0), np.int64)
        if total is not None:
            self._count(total[0], np.stack((total[1], total[1])))

    def add(self, times: IntColumn, recorded: IntColumn, changed: IntColumn) -> None:
        """Add the rates of a client, at most one of each moment: to a recorded total the difference alone."""
        before = np.zeros_like(recorded) if self._is_total else recorded
        after = changed - recorded if self._is_total else changed
        self._count(times, np.stack((before, after)))

    def _count(self, times: IntColumn, rates: IntColumn) -> None:
        if not np.isin(times, self._times, assume_unique=True).all():
            moments = np.union1d(self._times, times)
            sums = np.zeros((2, moments.size), np.int64)
            sums[:, np.searchsorted(moments, self._times)] = self._sums
            self._times, self._sums = moments, sums
        self._sums[:, np.searchsorted(self._times, times)] += rates

    @property
    def figures(self) -> tuple[int, int]:
        """The rates before and after that are not exceeded in 99.9 % of the moments."""
        same = np.ones_like(self._times)
        before, after = (weighted(each, same, COINCIDENT_PPM) for each in self._sums)
        return before, max(0, after)
