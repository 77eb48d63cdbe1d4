"""The budget of a broker for clients, its commitment by limits, and use beyond a fair share by water-filling.

Cruise Control also plans with 0.8 of a network's capacity. Replication traffic is measured: an estimate from a replication
factor would only be valid for balanced leaders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import MILLION
from reconciler.usage.tags import Bucket

HEADROOM_PPM: Final = 800_000


class BudgetBasis(StrEnum):
    """The basis of a budget."""

    MEASURED = "measured"  # replication was recorded
    NO_DATA = "no_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOfCluster:
    """The network capacity of each broker of a cluster in bytes/s; ``None`` = not configured."""

    cluster_id: str
    ingress: int | None = None
    egress: int | None = None
    headroom_ppm: int = HEADROOM_PPM  # the usable part

    def __post_init__(self) -> None:
        numbers = (self.ingress, self.egress, self.headroom_ppm)
        if any(number is not None and number < 1 for number in numbers):
            raise QuotaValueError(f"the brokerCapacity of {self.cluster_id} is not positive")


MOST_COMMITTED: Final = 2**63 - 1
"""Maximum of a 64-bit column: a few very large limits over a budget of one byte would exceed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketUse:
    """One bucket in one interval: its rate, and its weight, which is its limit (1 without a limit)."""

    bucket: Bucket
    rate: int
    weight: int = 1

    def __post_init__(self) -> None:
        if self.rate < 0 or self.weight < 1:
            raise QuotaValueError(
                f"a use of {self.rate} with weight {self.weight}: rates are not negative, weights are positive"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShare:
    """The part of a rate within the fair share and the excess; they add up to the rate."""

    bucket: Bucket
    fair: int
    excess: int


def budget(capacity: int, replication: int, headroom_ppm: int = HEADROOM_PPM) -> int:
    """Return the rate left for clients in bytes/s: the usable part of a capacity minus replication; never below 0.

    Args:
        capacity: Capacity of the broker's network in one direction.
        replication: Measured replication traffic in that direction.
        headroom_ppm: Usable part, in millionths.
    """
    return max(0, capacity * headroom_ppm // MILLION - replication)


def committed_ppm(limits: Iterable[int], available: int) -> int | None:
    """Return the sum of limits over the budget, in millionths, at most :data:`MOST_COMMITTED`; ``None`` if the budget is 0.

    Above one million is normal: not all clients use their limits at once, so it is no finding by itself.
    """
    return min(MOST_COMMITTED, sum(limits) * MILLION // available) if available else None


def shares(uses: Sequence[BucketUse], available: int) -> tuple[FairShare, ...]:
    """Split a budget by water-filling: each bucket is served up to one level per weight; the rest is its excess.

    The level f solves sum(min(rate, f * weight)) = budget. Whole units: fair shares are rounded down, and the remaining units
    go one by one to the largest remainders, then in the order of the buckets. So the excesses add up exactly to the use
    beyond the budget.

    Returns:
        Shares in the order of the buckets.

    Raises:
        QuotaValueError: The budget is negative, or a bucket occurs twice.
    """
    ordered = sorted(uses, key=lambda use: use.bucket)
    if available < 0 or len({use.bucket for use in uses}) < len(uses):
        raise QuotaValueError("a budget is not negative and every bucket has one share of it")
    fair = {use.bucket: use.rate for use in ordered}
    above, remaining_units = _above(ordered, available)
    weight = sum(use.weight for use in above)
    for use in above:
        fair[use.bucket] = remaining_units * use.weight // weight
    spare = remaining_units - sum(fair[use.bucket] for use in above)
    remainders = sorted(
        above, key=lambda use: (-(remaining_units * use.weight % weight), use.bucket)
    )
    for use in remainders[:spare]:
        fair[use.bucket] += 1
    return tuple(
        FairShare(bucket=use.bucket, fair=fair[use.bucket], excess=use.rate - fair[use.bucket])
        for use in ordered
    )


def _above(uses: Sequence[BucketUse], available: int) -> tuple[list[BucketUse], int]:
    """Return the uses above the level, and the units that the other uses leave for them."""
    remaining_units, weight = available, sum(use.weight for use in uses)
    rising = sorted(uses, key=lambda use: Fraction(use.rate, use.weight))
    for n, rising_use in enumerate(rising):
        if rising_use.rate * weight > remaining_units * rising_use.weight:
            return sorted(rising[n:], key=lambda use: use.bucket), remaining_units
        remaining_units -= rising_use.rate
        weight -= rising_use.weight
    return [], 0
