"""What a broker can give clients, how much of it is promised, and whose use goes beyond a fair share: water-filling.

Source of the rule: Cruise Control plans with 0.8 of a network's capacity; what replication takes of it is measured,
because a factor of replicas holds only for balanced leaders.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.usage.samples import MILLION
from reconciler.usage.tags import Bucket

HEADROOM_PPM: Final = 800_000


class BudgetBasis(StrEnum):
    """What a budget rests on."""

    MEASURED = "measured"  # replication was recorded
    REPLICATION_FACTOR = "replication_factor"  # assumed: one factor of replicas; of what comes in, balanced leaders, too
    NO_DATA = "no_data"


MOST_COMMITTED: Final = 2**63 - 1
"""What a column of 64 bits holds: a few limits near the cut over a budget of a byte are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketUse:
    """One bucket in one interval: its rate, and its weight, which is the limit in force (1 if it has none)."""

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
    """What a bucket may use of a budget, and how much it uses beyond that; they add up to its rate."""

    bucket: Bucket
    fair: int
    excess: int


def budget(capacity: int, replication: int, headroom_ppm: int = HEADROOM_PPM) -> int:
    """What is left for clients in bytes/s: the usable part of a capacity less what replication takes; never below 0.

    Args:
        capacity: Of the broker's network, one way.
        replication: As measured at that moment, the same way.
        headroom_ppm: Usable part, in millionths.
    """
    return max(0, capacity * headroom_ppm // MILLION - replication)


def committed_ppm(limits: Iterable[int], available: int) -> int | None:
    """All limits of a broker over its budget, in millionths, at most :data:`MOST_COMMITTED`; ``None`` where there is no budget.

    Above one million is normal: not all clients use their limits at once. Alone it is no finding.
    """
    return min(MOST_COMMITTED, sum(limits) * MILLION // available) if available else None


def shares(uses: Sequence[BucketUse], available: int) -> tuple[FairShare, ...]:
    """A budget split by water-filling: up to one level per weight every bucket is served, what is above it is excess.

    The level f is where sum(min(rate, f * weight)) is the budget. Whole units: fair shares are rounded down, and the units
    that are left go one by one to the largest remainders, then in the order of the buckets. So the excesses add up
    to exactly what is used beyond the budget.

    Returns:
        In the order of the buckets.

    Raises:
        QuotaValueError: The budget is negative, or a bucket stands there twice.
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
    """Who uses more than the level gives, and what the others leave for them."""
    remaining_units, weight = available, sum(use.weight for use in uses)
    rising = sorted(uses, key=lambda use: _WeightedRate(use.rate, use.weight))
    for n, rising_use in enumerate(rising):
        if rising_use.rate * weight > remaining_units * rising_use.weight:
            return sorted(rising[n:], key=lambda use: use.bucket), remaining_units
        remaining_units -= rising_use.rate
        weight -= rising_use.weight
    return [], 0


@dataclass(frozen=True, slots=True)
class _WeightedRate:
    """A rate per weight, compared without a fraction."""

    rate: int
    weight: int

    def __lt__(self, other: "_WeightedRate") -> bool:
        return self.rate * other.weight < other.rate * self.weight
