"""Counts series, points and samples by what happened to them: dropped, changed or doubtful."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum, unique
from typing import Final


@unique
class DropReason(Enum):
    """Why a series, point or sample is counted: reasons of reading, then of assembly.

    The value is a sentence for people; its first noun is what is counted.
    """

    SERIES = "series that were read"
    POINTS = "points that were kept"
    OTHER_METRIC = "series of metrics that the dialect does not use"
    OTHER_CLUSTER = "series that match no cluster's telemetry.matchers"
    TWO_CLUSTERS = "series that match the telemetry.matchers of two clusters: not used"
    PER_TOPIC = "series of single topics: only the broker's total is used"
    PER_SHARD = "series of single cores: scrape Redpanda's /public_metrics, which adds them up"
    NO_INSTANCE = "series without an instance label, whose broker nothing identifies"
    BROKER_CONFLICT = (
        "app-info series with another broker id than telemetry.brokerId, which takes precedence"
    )
    APP_INFO_UNUSED = "app-info series that are not used, because telemetry.brokerId is set"
    UNKNOWN_TYPE = "series of an unknown quota type"
    BAD_USER = "series whose user is not percent-encoded as Kafka does it"
    BAD_CLIENT_ID = "series whose client id is not quoted as JMX does it: cut by a greedy exporter rule, or forged"
    BAD_IP = "series whose ip is not an IP address"
    BAD_BROKER_ID = "broker ids that are missing, or not a whole number: not used"
    NAME_LOST = "series with the client in the metric name, which cannot be decoded"
    GROUP_ENTITY = "series of groups of client id prefixes, which are not buckets of Kafka"
    NOT_TEXT = "series with a name that is not Unicode text"
    CLOCK_AHEAD = "points from the future: some clock is wrong"
    NOT_A_TIME = "points with a time before 2010 or far in the future: check the unit of times"
    NO_TIME = "points without a time"
    DUPLICATES = "duplicate points with equal values: one was kept"
    CONTRADICTIONS = "duplicate points with different values: the larger was kept"
    HISTOGRAMS = "series of native histograms"
    BAD_VALUE = "points whose value is not a number"
    BAD_LINE = "lines or rows that could not be read"
    TRUNCATED = "files or answers that end too early: what came before was read"
    WARNINGS = "warnings of the server: its answer is not complete"
    INFOS = "notices of the server about a query"
    RETRIES = "requests that were retried"
    SPLITS = "queries that were too large and were split into parts"
    TIME_BACKWARDS = "points that came after a later one of their series: sorted"
    BROKER_UNKNOWN = "points of instances whose broker nothing identifies: refused"
    UP_UNKNOWN = "scrapes (`up`) of targets that nothing identifies as a broker: not used"
    UP_ALONE = "scrapes that succeeded of targets with a broker id that reported nothing but `up`: not used"
    BROKER_CHANGED = (
        "points between two broker ids of one instance: refused, because either may be meant"
    )
    OTHER_REPLICA = "points of a replica of Prometheus that saw less of the broker in that hour"
    OTHER_INSTANCE = (
        "points of a second instance with the same broker id, without clients or for a moment"
    )
    TWO_BROKERS = (
        "points of instances that report clients under one broker id at the same time: refused"
    )
    NO_UP = "points of instances without `up`, of which it is not known when they answered: refused"
    SCRAPE_FAILED = "points at a moment when the scrape failed: not used"
    SNAPPED = "points beside a scrape, within half a step: counted for it"
    UNALIGNED = "points without a scrape nearby: not used"
    THINNED = "points of scrapes that came too soon after another (within 9.5 s): not used"
    COUNTER_FIRST = "first points of counters: they give no rate"
    COUNTER_RESET = "counter resets: the values since then are used"
    COUNTER_GAP = "counters over a gap that is too long: they give no rate"
    STANDBY_CONTROLLER = "points of controllers that were not the active one"
    RATE_NOT_A_NUMBER = "rates that are not a number: a gap, and not zero"
    RATE_BELOW_ZERO = "negative rates (later corrected by the broker): counted as zero"
    RATE_CLAMPED = "rates above 10^13 units: cut"
    FILLED = "zero samples: the broker responded without the bucket"
    NOT_MEASURED = (
        "moments of known buckets at which the broker counted no client: a gap, and not zero"
    )
    QUOTA_CHANGED = "samples between two quota snapshots with different limits: whether they are censored is unknown"
    QUOTA_UNKNOWN = (
        "samples before any quota snapshot: whether throttled ones are censored is unknown"
    )

    @property
    def word(self) -> str:
        """The name in reports, manifests and tables of dialects."""
        return self.name.lower()


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

    def examples(self, reason: DropReason) -> tuple[str, ...]:
        """Return the first examples of a reason."""
        return tuple(self._examples.get(reason, ()))

    @property
    def partial(self) -> bool:
        """Whether existing input could not be read."""
        return not PARTIAL.isdisjoint(self)

    def by_name(self) -> dict[str, int]:
        """Return counts by name, in the order of :class:`DropReason`."""
        return {reason.word: self[reason] for reason in DropReason if self[reason]}

    def lines(self) -> tuple[str, ...]:
        """Return one line per reason: ``12 bad_user: series whose …``."""
        return tuple(
            f"{self[reason]} {reason.word}: {reason.value}" for reason in DropReason if self[reason]
        )

    def _remember(self, reason: DropReason, examples: Iterable[str]) -> None:
        places = self._examples.setdefault(reason, [])
        places += list(examples)[: EXAMPLES - len(places)]
