"""How much of a broker's budget was used at one time: what all clients together were served, moment by moment.

Served, and not wanted: a backlog drains after its peak, so the smaller of rate and limit would hide load that comes
later (:attr:`reconciler.usage.throttle.Row.served`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from reconciler.errors import QuotaValueError
from reconciler.usage.capacity import HEADROOM_PPM, budget
from reconciler.usage.samples import MILLION

COINCIDENT_PPM: Final = 999_000
"""The share of time that the coincident load covers: all but a thousandth."""


class Basis(StrEnum):
    """What a budget rests on."""

    MEASURED = "measured"  # replication was recorded
    REPLICATION_FACTOR = "replication_factor"  # assumed: one factor of replicas; of what comes in, balanced leaders, too
    NO_DATA = "no_data"


class Moment(NamedTuple):
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
class Load:
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
    basis: Basis


def budget_at(
    moment: Moment,
    capacity: int,
    *,
    headroom_ppm: int = HEADROOM_PPM,
    replication_factor: int | None = None,
    outward: bool = False,
) -> tuple[int | None, Basis]:
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
        return budget(capacity, moment.replication_units, headroom_ppm), Basis.MEASURED
    if replication_factor is not None and not outward:
        return budget(capacity, 0, headroom_ppm) // replication_factor, Basis.REPLICATION_FACTOR
    if replication_factor is not None and moment.copied_units is not None:
        copies = (replication_factor - 1) * moment.copied_units
        return budget(capacity, copies, headroom_ppm), Basis.REPLICATION_FACTOR
    return None, Basis.NO_DATA


def load(
    moments: Sequence[Moment],
    capacity: int | None,
    *,
    headroom_ppm: int = HEADROOM_PPM,
    replication_factor: int | None = None,
    outward: bool = False,
) -> Load:
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
    covered = sum(one.dt_ms for one in moments)
    unattributed = unattributed_ppm(moments)
    budgets: list[tuple[Moment, int]] = []
    bases: set[Basis] = set()
    for one in moments if capacity is not None else ():
        found, basis = budget_at(
            one,
            capacity or 0,
            headroom_ppm=headroom_ppm,
            replication_factor=replication_factor,
            outward=outward,
        )
        if found is not None:
            budgets.append((one, found))
            bases.add(basis)
    if not budgets:
        return Load(
            budget_units=None, coincident_ppm=None, overload_ms=None, unattributed_ppm=unattributed,
            covered_ms=covered, basis=Basis.NO_DATA,
        )  # fmt: skip
    return Load(
        budget_units=min(found for _, found in budgets),
        coincident_ppm=weighted(((load_ppm(one, found), one.dt_ms) for one, found in budgets), COINCIDENT_PPM),
        overload_ms=sum(one.dt_ms for one, found in budgets if load_ppm(one, found) > MILLION),
        unattributed_ppm=unattributed,
        covered_ms=covered,
        basis=Basis.REPLICATION_FACTOR if Basis.REPLICATION_FACTOR in bases else Basis.MEASURED,
    )  # fmt: skip


MOST_PPM: Final = 1_000 * MILLION
"""A load is told up to a thousand times the budget; a budget of nothing is that."""


def load_ppm(moment: Moment, available: int) -> int:
    """Served over budget in millionths, rounded down, at most :data:`MOST_PPM`; anything over no budget is the most."""
    if available <= 0:
        return MOST_PPM if moment.served_units else 0
    rate = moment.served_units * 1000 // moment.dt_ms
    # A quotient first: a rate of 10^13 times a million does not fit 64 bits.
    whole, rest = divmod(rate, available)
    return MOST_PPM if whole >= 1_000 else whole * MILLION + rest * MILLION // available


def weighted(values: Iterable[tuple[int, int]], ppm: int) -> int:
    """The smallest value that so many millionths of the weight do not exceed; values come as ``(value, weight)``, at least one."""
    ordered = sorted(values)
    whole = sum(weight for _, weight in ordered)
    passed = 0
    for value, weight in ordered:
        passed += weight
        if passed * MILLION >= ppm * whole:
            return value
    return ordered[-1][0]


def unattributed_ppm(moments: Sequence[Moment]) -> int | None:
    """Bytes that no bucket accounts for, of all bytes of the broker, in millionths; ``None`` if those are not recorded.

    Gauges of buckets and of the broker cover different windows, so buckets may record more; that is nothing.
    """
    known = [one for one in moments if one.broker_units is not None]
    whole = sum((one.broker_units or 0) * one.dt_ms // 1000 for one in known)
    if not known or not whole:
        return None
    named = sum(one.recorded_units * one.dt_ms // 1000 for one in known)
    return max(0, whole - named) * MILLION // whole
