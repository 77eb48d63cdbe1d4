"""What becomes of points and samples when a day is assembled: every one that is not simply used is counted here by name."""

from collections import Counter
from enum import StrEnum
from typing import Final


class Fate(StrEnum):
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


SENTENCES: Final[dict[Fate, str]] = {
    Fate.TIME_BACKWARDS: "points that came after a later one of their series: sorted",
    Fate.BAD_BROKER_ID: "broker ids that are no whole number: not used",
    Fate.BROKER_UNKNOWN: "points of instances whose broker nothing identifies: refused",
    Fate.UP_UNKNOWN: "scrapes (`up`) of targets that nothing identifies as a broker: not used",
    Fate.UP_ALONE: "scrapes that succeeded of targets with a broker id that told nothing but `up`: not used",
    Fate.BROKER_CHANGED: "points between two broker ids of one instance: refused, because either may be meant",
    Fate.OTHER_REPLICA: "points of a replica of Prometheus that saw less of the broker in that hour",
    Fate.OTHER_INSTANCE: "points of a second instance with the same broker id at the same time, which was seen less",
    Fate.TWO_BROKERS: "points of instances that have one broker id and are not one broker: refused, all of them",
    Fate.BORROWED: "points taken from another replica, because the chosen one lacks their series in that hour",
    Fate.NO_UP: "instances without `up`: where any of their series has a point, they answered",
    Fate.SCRAPE_FAILED: "points at a moment when the scrape failed: not used",
    Fate.SNAPPED: "points beside a scrape, within half a step (without `up`: beside the first point of one): counted for it",
    Fate.UNALIGNED: "points that no scrape is near: not used",
    Fate.THINNED: "points of scrapes that came too soon after another (within 9.5 s): not used",
    Fate.COUNTER_FIRST: "first points of counters: they give no rate",
    Fate.COUNTER_RESET: "counters that began again: what they count since then is used",
    Fate.COUNTER_GAP: "counters over a gap that is too long: they give no rate",
    Fate.STANDBY_CONTROLLER: "points of controllers that were not the active one",
    Fate.RATE_NOT_A_NUMBER: "rates that are not a number: a gap, and not zero",
    Fate.RATE_BELOW_ZERO: "rates below zero (what the broker took back later): zero",
    Fate.RATE_CLAMPED: "rates above 10^13 units: cut",
    Fate.FILLED: "samples of zero: the broker answered and did not name the bucket",
    Fate.MAYBE_LATE: "single moments without a known bucket, of instances without `up`: a gap, and not zero",
    Fate.NOT_MEASURED: "moments of known buckets at which the broker counted nobody: a gap, and not zero",
    Fate.QUOTA_CHANGED: "samples between two looks at the limits that differ: whether they are censored is unknown",
    Fate.QUOTA_UNKNOWN: "samples before any look at the limits: whether throttled ones are censored is unknown",
}
"""What each means, for outputs that explain their counts."""


class Tally(Counter[Fate]):
    """How often each was counted; nothing at all leaves no trace."""

    def add(self, fate: Fate, number: int = 1) -> None:
        """Count something."""
        if number:
            self[fate] += number

    def named(self) -> dict[str, int]:
        """By name, in the order of :class:`Fate`."""
        return {fate.value: self[fate] for fate in Fate if self[fate]}
