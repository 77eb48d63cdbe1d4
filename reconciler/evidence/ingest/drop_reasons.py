"""Counts series, points and samples by what happened to them: dropped, changed or doubtful."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Final


class DropReason(StrEnum):
    """Why a series, point or sample is counted: reasons of reading, then of assembly; see :data:`SENTENCES`."""

    SERIES = "series"
    POINTS = "points"
    OTHER_METRIC = "other_metric"
    OTHER_CLUSTER = "other_cluster"
    TWO_CLUSTERS = "two_clusters"
    PER_TOPIC = "per_topic"
    PER_SHARD = "per_shard"
    NO_INSTANCE = "no_instance"
    BROKER_CONFLICT = "broker_conflict"
    APP_INFO_UNUSED = "app_info_unused"
    UNKNOWN_TYPE = "unknown_type"
    BAD_USER = "bad_user"
    BAD_CLIENT_ID = "bad_client_id"
    BAD_IP = "bad_ip"
    BAD_BROKER_ID = "bad_broker_id"
    NAME_LOST = "name_lost"
    GROUP_ENTITY = "group_entity"
    NOT_TEXT = "not_text"
    CLOCK_AHEAD = "clock_ahead"
    NOT_A_TIME = "not_a_time"
    NO_TIME = "no_time"
    DUPLICATES = "duplicates"
    CONTRADICTIONS = "contradictions"
    RESAMPLED = "resampled"
    HISTOGRAMS = "histograms"
    BAD_VALUE = "bad_value"
    BAD_LINE = "bad_line"
    TRUNCATED = "truncated"
    WARNINGS = "warnings"
    INFOS = "infos"
    RETRIES = "retries"
    SPLITS = "splits"
    TIME_BACKWARDS = "time_backwards"
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
    DropReason.SERIES: "series that were read",
    DropReason.POINTS: "points that were kept",
    DropReason.OTHER_METRIC: "series of metrics that the dialect does not use",
    DropReason.OTHER_CLUSTER: "series that match no cluster's telemetry.matchers",
    DropReason.TWO_CLUSTERS: "series that match the telemetry.matchers of two clusters: not used",
    DropReason.PER_TOPIC: "series of single topics: only the broker's total is used",
    DropReason.PER_SHARD: "series of single cores: scrape Redpanda's /public_metrics, which adds them up",
    DropReason.NO_INSTANCE: "series without an instance label, whose broker nothing identifies",
    DropReason.BROKER_CONFLICT: "app-info series with another broker id than telemetry.brokerId, which takes precedence",
    DropReason.APP_INFO_UNUSED: "app-info series that are not used, because telemetry.brokerId is set",
    DropReason.UNKNOWN_TYPE: "series of an unknown quota type",
    DropReason.BAD_USER: "series whose user is not percent-encoded as Kafka does it",
    DropReason.BAD_CLIENT_ID: "series whose client id is not quoted as JMX does it: cut by a greedy exporter rule, or forged",
    DropReason.BAD_IP: "series whose ip is not an IP address",
    DropReason.BAD_BROKER_ID: "broker ids that are missing, or not a whole number: not used",
    DropReason.NAME_LOST: "series with the client in the metric name, which cannot be decoded",
    DropReason.GROUP_ENTITY: "series of groups of client id prefixes, which are not buckets of Kafka",
    DropReason.NOT_TEXT: "series with a name that is not Unicode text",
    DropReason.CLOCK_AHEAD: "points from the future: some clock is wrong",
    DropReason.NOT_A_TIME: "points with a time before 2010 or far in the future: check the time unit",
    DropReason.NO_TIME: "points without a time",
    DropReason.DUPLICATES: "duplicate points with equal values: one was kept",
    DropReason.CONTRADICTIONS: "duplicate points with different values: the larger was kept",
    DropReason.RESAMPLED: "points that repeat the previous one on a regular grid: look-back of a range query, not a sample",
    DropReason.HISTOGRAMS: "series of native histograms",
    DropReason.BAD_VALUE: "points whose value is not a number",
    DropReason.BAD_LINE: "lines or rows that could not be read",
    DropReason.TRUNCATED: "files or answers that end too early: what came before was read",
    DropReason.WARNINGS: "warnings of the server: its answer is not complete",
    DropReason.INFOS: "notices of the server about a query",
    DropReason.RETRIES: "requests that were retried",
    DropReason.SPLITS: "queries that were too large and were split into parts",
    DropReason.TIME_BACKWARDS: "points that came after a later one of their series: sorted",
    DropReason.BROKER_UNKNOWN: "points of instances whose broker nothing identifies: refused",
    DropReason.UP_UNKNOWN: "scrapes (`up`) of targets that nothing identifies as a broker: not used",
    DropReason.UP_ALONE: "scrapes that succeeded of targets with a broker id that reported nothing but `up`: not used",
    DropReason.BROKER_CHANGED: "points between two broker ids of one instance: refused, because either may be meant",
    DropReason.OTHER_REPLICA: "points of a replica of Prometheus that saw less of the broker in that hour",
    DropReason.OTHER_INSTANCE: "points of a second instance with the same broker id at the same time, with fewer samples",
    DropReason.TWO_BROKERS: "points of different brokers with the same broker id: all of them are refused",
    DropReason.BORROWED: "points taken from another replica, because the chosen one lacks their series in that hour",
    DropReason.NO_UP: "instances without `up`: where any of their series has a point, they answered",
    DropReason.SCRAPE_FAILED: "points at a moment when the scrape failed: not used",
    DropReason.SNAPPED: "points beside a scrape, within half a step (without `up`: beside the first point of one): counted for it",
    DropReason.UNALIGNED: "points without a scrape nearby: not used",
    DropReason.THINNED: "points of scrapes that came too soon after another (within 9.5 s): not used",
    DropReason.COUNTER_FIRST: "first points of counters: they give no rate",
    DropReason.COUNTER_RESET: "counter resets: the values since then are used",
    DropReason.COUNTER_GAP: "counters over a gap that is too long: they give no rate",
    DropReason.STANDBY_CONTROLLER: "points of controllers that were not the active one",
    DropReason.RATE_NOT_A_NUMBER: "rates that are not a number: a gap, and not zero",
    DropReason.RATE_BELOW_ZERO: "negative rates (later corrected by the broker): counted as zero",
    DropReason.RATE_CLAMPED: "rates above 10^13 units: cut",
    DropReason.FILLED: "zero samples: the broker responded without the bucket",
    DropReason.MAYBE_LATE: "single moments without a known bucket, of instances without `up`: a gap, and not zero",
    DropReason.NOT_MEASURED: "moments of known buckets at which the broker counted no client: a gap, and not zero",
    DropReason.QUOTA_CHANGED: "samples between two quota snapshots with different limits: whether they are censored is unknown",
    DropReason.QUOTA_UNKNOWN: "samples before any quota snapshot: whether throttled ones are censored is unknown",
}
"""The sentence of each reason for people; its first noun is what is counted."""

PARTIAL: Final = frozenset({DropReason.TRUNCATED, DropReason.WARNINGS, DropReason.BAD_LINE})
"""Reasons that make a result partial: existing input could not be read."""

EXAMPLES: Final = 5
"""Number of examples that are kept per reason."""


class DropCounts(Counter[DropReason]):
    """Number of occurrences per reason, updated while a reader works; a reason that never occurred has no entry."""

    def __init__(self, initial_counts: Mapping[DropReason, int] | None = None) -> None:
        super().__init__(initial_counts)
        self._examples: dict[DropReason, list[str]] = {}

    def add(self, reason: DropReason, number: int = 1, example: str = "") -> None:
        """Count occurrences of a reason.

        Args:
            reason: The reason.
            number: The number of occurrences.
            example: The place, such as ``file:12: …``; the first :data:`EXAMPLES` are kept.
        """
        if number:
            self[reason] += number
            self._remember(reason, [example] if example else [])

    def merge(self, counts: "DropCounts") -> None:
        """Add other counts with their examples."""
        for reason, number in counts.items():
            self[reason] += number
            self._remember(reason, counts.examples(reason))

    def only(self, reasons: Collection[DropReason]) -> "DropCounts":
        """Return the counts of some reasons, without examples."""
        return DropCounts({reason: self[reason] for reason in reasons if reason in self})

    def examples(self, reason: DropReason) -> tuple[str, ...]:
        """Return the first examples of a reason."""
        return tuple(self._examples.get(reason, ()))

    @property
    def partial(self) -> bool:
        """Whether existing input could not be read."""
        return not PARTIAL.isdisjoint(self)

    def by_name(self) -> dict[str, int]:
        """Return counts by name, in the order of :class:`DropReason`."""
        return {reason.value: self[reason] for reason in DropReason if self[reason]}

    def lines(self) -> tuple[str, ...]:
        """Return one line per reason: ``12 bad_user: series whose …``."""
        return tuple(
            f"{number} {name}: {SENTENCES[DropReason(name)]}"
            for name, number in self.by_name().items()
        )

    def _remember(self, reason: DropReason, examples: Iterable[str]) -> None:
        places = self._examples.setdefault(reason, [])
        places += list(examples)[: EXAMPLES - len(places)]
