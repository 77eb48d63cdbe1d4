"""What was used and how near to the limit it came: percentiles of time by histogram, and one word for the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.usage.histogram import histogram, percentile
from reconciler.usage.samples import Sample
from reconciler.usage.series import censored_ms, covered_ms, throttled_ms


class UsageState(StrEnum):
    """How a bucket stands to its limit on one broker."""

    UNUSED = "unused"  # a limit, a broker that counts, and no use
    IDLE = "idle"  # used, and never above a tenth of its limit
    USED = "used"
    NEAR_LIMIT = "near_limit"  # at nine tenths of its limit or above, and not seen throttled
    THROTTLED = "throttled"
    NO_DATA = "no_data"  # the broker does not count this at all


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageProfile:
    """Use of one bucket on one broker over a window. Rates are units per second.

    Attributes:
        covered_ms: Time that samples cover.
        p50_units: The rate that was not exceeded in half of the time, at most one histogram bucket too high; ``None`` for no time.
        p95_units: The same for 95 % of the time.
        p99_units: The same for 99 %.
        max_rate_units: The largest rate.
        throttled_ms: Time in which the broker was seen to throttle; ``None`` = not recorded.
        censored_ms: Time in which more was wanted than recorded.
    """

    covered_ms: int
    p50_units: int | None
    p95_units: int | None
    p99_units: int | None
    max_rate_units: int
    throttled_ms: int | None
    censored_ms: int


def profile(samples: Sequence[Sample]) -> UsageProfile:
    """The profile of a series."""
    return from_histogram(
        histogram(samples),
        max_rate_units=max((sample.rate_units for sample in samples), default=0),
        throttled=throttled_ms(samples) if samples else None,
        censored=censored_ms(samples),
        covered=covered_ms(samples),
    )


def from_histogram(
    counts: Mapping[int, int],
    *,
    max_rate_units: int,
    throttled: int | None,
    censored: int,
    covered: int,
) -> UsageProfile:
    """The profile of a window from what is kept of it: merged histograms of its days, and sums."""
    return UsageProfile(
        covered_ms=covered,
        p50_units=percentile(counts, 500_000),
        p95_units=percentile(counts, 950_000),
        p99_units=percentile(counts, 990_000),
        max_rate_units=max_rate_units,
        throttled_ms=throttled,
        censored_ms=censored,
    )


def state_of(
    usage_profile: UsageProfile, limit_units: int | None, *, measured: bool = True
) -> UsageState:
    """The one word, by the first that holds.

    Args:
        usage_profile: What was used.
        limit_units: The limit in force; ``None`` = unlimited.
        measured: Whether the broker counts this type at all: without any quota of it there are no rates.
    """
    if not measured:
        return UsageState.NO_DATA
    if not usage_profile.max_rate_units:
        return UsageState.UNUSED
    if usage_profile.throttled_ms:
        return UsageState.THROTTLED
    if limit_units is None:
        return UsageState.USED
    if 10 * usage_profile.max_rate_units >= 9 * limit_units:
        return UsageState.NEAR_LIMIT
    return UsageState.IDLE if 10 * usage_profile.max_rate_units <= limit_units else UsageState.USED
