"""How much of a broker's budget was used at one time: what all clients together were served, moment by moment.

Served, and not wanted: a backlog drains after its peak, so the smaller of rate and limit would hide load that comes
later (:func:`reconciler.usage.kernel.throttling.served`). All arithmetic is in whole numbers.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from reconciler.errors import QuotaValueError
from reconciler.usage.capacity import HEADROOM_PPM, BudgetBasis, budget
from reconciler.usage.kernel.series import NOT_RECORDED, IntColumn
from reconciler.usage.samples import MILLION

COINCIDENT_PPM: Final = 999_000
"""The share of time that the coincident load covers: all but a thousandth."""

MOST_PPM: Final = 1_000 * MILLION
"""A load is reported up to a thousand times the budget; a budget of nothing is that."""

_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMoments:
    """Moments of a broker, one way, in any order. What is not recorded is :data:`NOT_RECORDED`.

    Attributes:
        served_units: What all buckets together were served in that time.
        recorded_units: What all buckets together were recorded with, in units per second.
        broker_units: What the broker took or gave in all without replication, per second.
        replication_units: What replication took, the same way, per second.
        copied_units: Of what a broker gives: what clients brought it per second, which followers copy.
    """

    dt_ms: IntColumn
    served_units: IntColumn
    recorded_units: IntColumn
    broker_units: IntColumn
    replication_units: IntColumn
    copied_units: IntColumn

    def __post_init__(self) -> None:
        served = int(self.served_units.max(initial=0))
        if served > _MOST // 1000:
            raise QuotaValueError(f"{served} bytes at one moment are more than a broker can serve")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapacity:
    """What is known of the network of a broker, one way.

    Attributes:
        units: Bytes/s; ``None`` = not configured.
        replication_factor: What stands for replication where it was not recorded; ``None`` = nothing.
        outward: Whether it is about what the broker gives.
    """

    units: int | None
    headroom_ppm: int = HEADROOM_PPM
    replication_factor: int | None = None
    outward: bool = False

    def __post_init__(self) -> None:
        if self.replication_factor is not None and self.replication_factor < 1:
            raise QuotaValueError("a replication factor is at least 1")
        if self.units is not None and self.units > _MOST // MILLION:
            raise QuotaValueError(f"a capacity of {self.units} bytes/s is more than a broker has")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """One broker, one way, over a window. Shares are millionths.

    Attributes:
        budget_units: The smallest budget of the window, bytes/s; ``None`` = capacity not known.
        coincident_ppm: Served over budget, not exceeded in 99.9 % of the time.
        overload_ms: Time in which more than the budget was served.
        unattributed_ppm: Bytes that no bucket accounts for, of all bytes; ``None`` where the broker's total is not recorded.
    """

    budget_units: int | None
    coincident_ppm: int | None
    overload_ms: int | None
    unattributed_ppm: int | None
    covered_ms: int
    basis: BudgetBasis


def budgets(moments: BrokerMoments, capacity: BrokerCapacity) -> IntColumn:
    """What is left for clients at each moment, bytes/s; :data:`NOT_RECORDED` = not known.

    Where replication was not recorded, a factor of replicas may stand for it, and that is labelled. Of what a broker
    takes, one part in so many comes from clients; that holds only for balanced leaders. What it gives is not divided
    so: every follower fetches what clients brought once, whatever consumers fetch, and where that was not recorded
    nothing is known.
    """
    unknown = np.full(len(moments.dt_ms), NOT_RECORDED, np.int64)
    if capacity.units is None:
        return unknown
    usable = budget(capacity.units, 0, capacity.headroom_ppm)
    assumed: IntColumn = unknown
    factor = capacity.replication_factor
    if factor is not None and not capacity.outward:
        assumed = np.full_like(unknown, usable // factor)
    elif factor is not None:
        copies = moments.copied_units * (factor - 1)
        is_known = moments.copied_units != NOT_RECORDED
        assumed = np.where(is_known, np.maximum(0, usable - copies), unknown)
    measured = np.maximum(0, usable - moments.replication_units)
    return np.where(_is_measured(moments), measured, assumed)


def load(moments: BrokerMoments, capacity: BrokerCapacity) -> BrokerLoad:
    """The load of a window."""
    available = budgets(moments, capacity)
    is_known = available != NOT_RECORDED
    covered, unattributed = int(moments.dt_ms.sum()), unattributed_ppm(moments)
    if not is_known.any():
        return BrokerLoad(
            budget_units=None,
            coincident_ppm=None,
            overload_ms=None,
            unattributed_ppm=unattributed,
            covered_ms=covered,
            basis=BudgetBasis.NO_DATA,
        )
    spans, available = moments.dt_ms[is_known], available[is_known]
    loads = load_ppm(moments.served_units[is_known], spans, available)
    is_measured = bool(_is_measured(moments)[is_known].all())
    return BrokerLoad(
        budget_units=int(available.min()),
        coincident_ppm=weighted(loads, spans, COINCIDENT_PPM),
        overload_ms=int(spans[loads > MILLION].sum()),
        unattributed_ppm=unattributed,
        covered_ms=covered,
        basis=BudgetBasis.MEASURED if is_measured else BudgetBasis.REPLICATION_FACTOR,
    )


def load_ppm(served_units: IntColumn, dt_ms: IntColumn, available: IntColumn) -> IntColumn:
    """Served over budget in millionths, rounded down, at most :data:`MOST_PPM`; anything over no budget is the most.

    Args:
        served_units: In the time of each moment.
        dt_ms: That time.
        available: The budget of each, bytes/s; not above the largest capacity.
    """
    rate = served_units * 1000 // dt_ms
    some = np.maximum(available, 1)
    # A quotient first: a rate times a million may not fit 64 bits.
    quotient, remainder = np.divmod(rate, some)
    ppm = np.minimum(quotient, 1_000) * MILLION + remainder * MILLION // some
    nothing = np.where(served_units > 0, MOST_PPM, 0)
    return np.where(available > 0, np.minimum(ppm, MOST_PPM), nothing)


def weighted(values: IntColumn, weights: IntColumn, ppm: int) -> int:
    """The smallest of some values, at least one, that so many millionths of the weight do not exceed."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(weights[order])
    enough = -(-int(passed[-1]) * ppm // MILLION)
    return int(values[order][np.searchsorted(passed, enough)])


def unattributed_ppm(moments: BrokerMoments) -> int | None:
    """Bytes that no bucket accounts for, of all bytes of the broker, in millionths; ``None`` if those are not recorded.

    Gauges of buckets and of the broker cover different windows, so buckets may record more; that is nothing.
    """
    is_known = moments.broker_units != NOT_RECORDED
    spans = moments.dt_ms[is_known]
    total_units = int((moments.broker_units[is_known] * spans // 1000).sum())
    if not total_units:
        return None
    attributed_units = int((moments.recorded_units[is_known] * spans // 1000).sum())
    return max(0, total_units - attributed_units) * MILLION // total_units


def _is_measured(moments: BrokerMoments) -> npt.NDArray[np.bool_]:
    is_recorded: npt.NDArray[np.bool_] = moments.replication_units != NOT_RECORDED
    return is_recorded
