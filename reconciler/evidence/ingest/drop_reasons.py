"""What becomes of points and samples when a day is assembled: every one that is not simply used is counted here by name."""

from collections import Counter
from enum import StrEnum
from typing import Final


class DropReason(StrEnum):
    """A named state of points (or of what the noun in its sentence says)."""

    TIME_BACKWARDS = "time_backwards"
    BAD_BROKER_ID = "bad_broker_id"
    BROKER_UNKNOWN = "broker_unknown"
    UP_UNKNOWN = "up_unknown"
    UP_ALONE = "up_alone"
    BROKER_CHANGED = "broker_changed"
    OTHER_REPLICA = "other_replica"
    OTHER_INSTANCE = "other_instance"
    TWO_BROKERS = "two_brokers"
    BORROWED = "borrowed"
    NO_UP = "no_up"
    SCRAPE_FAILED = "scrape_failed"
    SNAPPED = "snapped"
    UNALIGNED = "unaligned"
    THINNED = "thinned"
    COUNTER_FIRST = "counter_first"
    COUNTER_RESET = "counter_reset"
    COUNTER_GAP = "counter_gap"
    STANDBY_CONTROLLER = "standby_controller"
    RATE_NOT_A_NUMBER = "rate_not_a_number"
    RATE_BELOW_ZERO = "rate_below_zero"
    RATE_CLAMPED = "rate_clamped"
    FILLED = "filled"
    MAYBE_LATE = "maybe_late"
    NOT_MEASURED = "not_measured"
    QUOTA_CHANGED = "quota_changed"
    QUOTA_UNKNOWN = "quota_unknown"


SENTENCES: Final[dict[DropReason, str]] = {
    DropReason.TIME_BACKWARDS: "points that came after a later one of their series: sorted",
    DropReason.BAD_BROKER_ID: "broker ids that are no whole number: not used",
    DropReason.BROKER_UNKNOWN: "points of instances whose broker nothing identifies: refused",
    DropReason.UP_UNKNOWN: "scrapes (`up`) of targets that nothing identifies as a broker: not used",
    DropReason.UP_ALONE: "scrapes that succeeded of targets with a broker id that reported nothing but `up`: not used",
    DropReason.BROKER_CHANGED: "points between two broker ids of one instance: refused, because either may be meant",
    DropReason.OTHER_REPLICA: "points of a replica of Prometheus that saw less of the broker in that hour",
    DropReason.OTHER_INSTANCE: "points of a second instance with the same broker id at the same time, which was seen less",
    DropReason.TWO_BROKERS: "points of instances that have one broker id and are not one broker: refused, all of them",
    DropReason.BORROWED: "points taken from another replica, because the chosen one lacks their series in that hour",
    DropReason.NO_UP: "instances without `up`: where any of their series has a point, they answered",
    DropReason.SCRAPE_FAILED: "points at a moment when the scrape failed: not used",
    DropReason.SNAPPED: "points beside a scrape, within half a step (without `up`: beside the first point of one): counted for it",
    DropReason.UNALIGNED: "points that no scrape is near: not used",
    DropReason.THINNED: "points of scrapes that came too soon after another (within 9.5 s): not used",
    DropReason.COUNTER_FIRST: "first points of counters: they give no rate",
    DropReason.COUNTER_RESET: "counters that began again: what they count since then is used",
    DropReason.COUNTER_GAP: "counters over a gap that is too long: they give no rate",
    DropReason.STANDBY_CONTROLLER: "points of controllers that were not the active one",
    DropReason.RATE_NOT_A_NUMBER: "rates that are not a number: a gap, and not zero",
    DropReason.RATE_BELOW_ZERO: "rates below zero (what the broker took back later): zero",
    DropReason.RATE_CLAMPED: "rates above 10^13 units: cut",
    DropReason.FILLED: "samples of zero: the broker answered and did not name the bucket",
    DropReason.MAYBE_LATE: "single moments without a known bucket, of instances without `up`: a gap, and not zero",
    DropReason.NOT_MEASURED: "moments of known buckets at which the broker counted no client: a gap, and not zero",
    DropReason.QUOTA_CHANGED: "samples between two looks at the limits that differ: whether they are censored is unknown",
    DropReason.QUOTA_UNKNOWN: "samples before any look at the limits: whether throttled ones are censored is unknown",
}
"""What each means, for outputs that explain their counts."""


class DropCounts(Counter[DropReason]):
    """How often each was counted; nothing at all leaves no trace."""

    def add(self, fate: DropReason, number: int = 1) -> None:
        """Count something."""
        if number:
            self[fate] += number

    def by_name(self) -> dict[str, int]:
        """By name, in the order of :class:`DropReason`."""
        return {fate.value: self[fate] for fate in DropReason if self[fate]}
