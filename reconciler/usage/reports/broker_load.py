"""How much of a broker's budget was used at one time: what all clients together were served, moment by moment.

Spark's columns are tested against these functions; the program itself uses the two constants and the enumeration.

Served, and not wanted: a backlog drains after its peak, so the smaller of rate and limit would hide load that comes
later (:func:`reconciler.usage.kernel.throttling.served`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from reconciler.errors import QuotaValueError
from reconciler.usage.reports.capacity import HEADROOM_PPM, budget
from reconciler.usage.samples import MILLION

COINCIDENT_PPM: Final = 999_000
"""The share of time that the coincident load covers: all but a thousandth."""


class BudgetBasis(StrEnum):
    """What a budget rests on."""

    MEASURED = "measured"  # replication was recorded
    REPLICATION_FACTOR = "replication_factor"  # assumed: one factor of replicas; of what comes in, balanced leaders, too
    NO_DATA = "no_data"


class LoadMoment(NamedTuple):
    """One moment of a broker, one way.

    Attributes:
        dt_ms: The time it stands for.
        served_units: What all buckets together were served in that time.
        recorded_units: What all buckets together were recorded with, in units per second.
        broker_units: What the broker took or gave in all without replication, per second; ``None`` = not recorded.
        replication_units: What replication took, the same way, per second; ``None`` = not recorded.
        copied_units: Of what a broker gives: what clients brought it per second, which followers copy; ``None`` = not recorded.
    """

    dt_ms: int
    served_units: int
    recorded_units: int
    broker_units: int | None
    replication_units: int | None
    copied_units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """One broker, one way, over a window. Shares are millionths.

    Attributes:
        budget_units: The smallest budget of the window, bytes/s; ``None`` = capacity not known.
        coincident_ppm: Served over budget, not exceeded in 99.9 % of the time.
        overload_ms: Time in which more than the budget was served.
        unattributed_ppm: Bytes that no bucket accounts for, of all bytes; ``None`` where the broker's total is not recorded.
        covered_ms: Time that all moments stand for.
        basis: What the budget rests on.
    """

    budget_units: int | None
    coincident_ppm: int | None
    overload_ms: int | None
    unattributed_ppm: int | None
    covered_ms: int
    basis: BudgetBasis


def budget_at(
    moment: LoadMoment,
    capacity: int,
    *,
    headroom_ppm: int = HEADROOM_PPM,
    replication_factor: int | None = None,
    outward: bool = False,
) -> tuple[int | None, BudgetBasis]:
    """What is left for clients at one moment, bytes/s.

    Where replication was not recorded, a factor of replicas may stand for it, and that is labelled. Of what a broker
    takes, one part in so many comes from clients; that holds only for balanced leaders. What it gives is not divided
    so: every follower fetches what clients brought once, whatever consumers fetch, and where that was not recorded
    nothing is known.

    Args:
        moment: Of one broker, one way.
        capacity: Of its network, that way, bytes/s.
        headroom_ppm: Usable part.
        replication_factor: ``None`` = nothing stands for replication.
        outward: Whether it is about what the broker gives.
    """
    if moment.replication_units is not None:
        return budget(capacity, moment.replication_units, headroom_ppm), BudgetBasis.MEASURED
    if replication_factor is not None and not outward:
        return budget(
            capacity, 0, headroom_ppm
        ) // replication_factor, BudgetBasis.REPLICATION_FACTOR
    if replication_factor is not None and moment.copied_units is not None:
        copies = (replication_factor - 1) * moment.copied_units
        return budget(capacity, copies, headroom_ppm), BudgetBasis.REPLICATION_FACTOR
    return None, BudgetBasis.NO_DATA


def load(
    moments: Sequence[LoadMoment],
    capacity: int | None,
    *,
    headroom_ppm: int = HEADROOM_PPM,
    replication_factor: int | None = None,
    outward: bool = False,
) -> BrokerLoad:
    """The load of a window.

    Args:
        moments: Of one broker, one way, in any order.
        capacity: Of its network, that way, bytes/s; ``None`` = not configured.
        headroom_ppm: Usable part.
        replication_factor: What stands for replication where it was not recorded; ``None`` = nothing.
        outward: Whether it is about what the broker gives.

    Raises:
        QuotaValueError: A factor below one.
    """
    if replication_factor is not None and replication_factor < 1:
        raise QuotaValueError("a replication factor is at least 1")
    covered = sum(moment.dt_ms for moment in moments)
    unattributed = unattributed_ppm(moments)
    budgets: list[tuple[LoadMoment, int]] = []
    bases: set[BudgetBasis] = set()
    for moment in moments if capacity is not None else ():
        budget, basis = budget_at(
            moment,
            capacity or 0,
            headroom_ppm=headroom_ppm,
            replication_factor=replication_factor,
            outward=outward,
        )
        if budget is not None:
            budgets.append((moment, budget))
            bases.add(basis)
    if not budgets:
        return BrokerLoad(
            budget_units=None, coincident_ppm=None, overload_ms=None, unattributed_ppm=unattributed,
            covered_ms=covered, basis=BudgetBasis.NO_DATA,
        )  # fmt: skip
    return BrokerLoad(
        budget_units=min(budget for _, budget in budgets),
        coincident_ppm=weighted(((load_ppm(moment, budget), moment.dt_ms) for moment, budget in budgets), COINCIDENT_PPM),
        overload_ms=sum(moment.dt_ms for moment, budget in budgets if load_ppm(moment, budget) > MILLION),
        unattributed_ppm=unattributed,
        covered_ms=covered,
        basis=BudgetBasis.REPLICATION_FACTOR if BudgetBasis.REPLICATION_FACTOR in bases else BudgetBasis.MEASURED,
    )  # fmt: skip


MOST_PPM: Final = 1_000 * MILLION
"""A load is reported up to a thousand times the budget; a budget of nothing is that."""


def load_ppm(moment: LoadMoment, available: int) -> int:
    """Served over budget in millionths, rounded down, at most :data:`MOST_PPM`; anything over no budget is the most."""
    if available <= 0:
        return MOST_PPM if moment.served_units else 0
    rate = moment.served_units * 1000 // moment.dt_ms
    # A quotient first: a rate of 10^13 times a million does not fit 64 bits.
    quotient, remainder = divmod(rate, available)
    return MOST_PPM if quotient >= 1_000 else quotient * MILLION + remainder * MILLION // available


def weighted(values: Iterable[tuple[int, int]], ppm: int) -> int:
    """The smallest value that so many millionths of the weight do not exceed; values come as ``(value, weight)``, at least one."""
    ordered = sorted(values)
    total_weight = sum(weight for _, weight in ordered)
    passed = 0
    for value, weight in ordered:
        passed += weight
        if passed * MILLION >= ppm * total_weight:
            return value
    return ordered[-1][0]


def unattributed_ppm(moments: Sequence[LoadMoment]) -> int | None:
    """Bytes that no bucket accounts for, of all bytes of the broker, in millionths; ``None`` if those are not recorded.

    Gauges of buckets and of the broker cover different windows, so buckets may record more; that is nothing.
    """
    known_moments = [moment for moment in moments if moment.broker_units is not None]
    total_units = sum((moment.broker_units or 0) * moment.dt_ms // 1000 for moment in known_moments)
    if not known_moments or not total_units:
        return None
    attributed_units = sum(moment.recorded_units * moment.dt_ms // 1000 for moment in known_moments)
    return max(0, total_units - attributed_units) * MILLION // total_units
