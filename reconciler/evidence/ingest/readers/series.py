"""What every reader gives: series of points as they were recorded, and the counts of what became of them."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, overload


class SeriesOutcome(StrEnum):
    """What can become of a series or a point: every one that is not used is counted under one of these."""

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


SENTENCES: Final[dict[SeriesOutcome, str]] = {
    SeriesOutcome.SERIES: "series that were read",
    SeriesOutcome.POINTS: "points that were kept",
    SeriesOutcome.OTHER_METRIC: "series whose metric says nothing of quotas or brokers in this dialect",
    SeriesOutcome.OTHER_CLUSTER: "series that fit no cluster's telemetry.matchers",
    SeriesOutcome.TWO_CLUSTERS: "series that fit the telemetry.matchers of two clusters: neither got them",
    SeriesOutcome.PER_TOPIC: "series of single topics: the broker's total is what counts",
    SeriesOutcome.PER_SHARD: "series of single cores: scrape Redpanda's /public_metrics, which adds them up",
    SeriesOutcome.NO_INSTANCE: "series without an instance label, whose broker nothing identifies",
    SeriesOutcome.BROKER_CONFLICT: "app-info series that name another broker than telemetry.brokerId, which was believed",
    SeriesOutcome.APP_INFO_UNUSED: "app-info series that were not needed, because telemetry.brokerId says who is who",
    SeriesOutcome.UNKNOWN_TYPE: "series of a quota type that we do not know",
    SeriesOutcome.BAD_USER: "series whose user is not percent-encoded as Kafka does it",
    SeriesOutcome.BAD_CLIENT_ID: "series whose client id is not quoted as JMX does it: cut by a greedy exporter rule, or forged",
    SeriesOutcome.BAD_IP: "series whose ip is no address",
    SeriesOutcome.BAD_BROKER_ID: "app-info series without a broker id, or with one that is no whole number",
    SeriesOutcome.NAME_LOST: "series whose client is spelled out in the metric's name, where it cannot be read back",
    SeriesOutcome.GROUP_ENTITY: "series of groups of client id prefixes, which are no bucket of Kafka's",
    SeriesOutcome.NOT_TEXT: "series with a name that is no Unicode text",
    SeriesOutcome.CLOCK_AHEAD: "points from the future: some clock is wrong",
    SeriesOutcome.NOT_A_TIME: "points whose time is before 2010 or absurd: seconds and milliseconds confused?",
    SeriesOutcome.NO_TIME: "points without a time of their own",
    SeriesOutcome.DUPLICATES: "points that were there twice, with the same value: one was kept",
    SeriesOutcome.CONTRADICTIONS: "points that were there twice, with different values: the larger was kept",
    SeriesOutcome.RESAMPLED: "points that repeat the one before on an even grid: a range query's look-back, not a reading",
    SeriesOutcome.HISTOGRAMS: "series of native histograms",
    SeriesOutcome.BAD_VALUE: "points whose value is no number",
    SeriesOutcome.BAD_LINE: "lines or rows that could not be read",
    SeriesOutcome.TRUNCATED: "files or answers that end too early: what came before was read",
    SeriesOutcome.WARNINGS: "warnings of the server: its answer is not complete",
    SeriesOutcome.INFOS: "remarks of the server about a query",
    SeriesOutcome.RETRIES: "requests that had to be sent again",
    SeriesOutcome.SPLITS: "queries that were too large and were asked in parts",
}
"""What each word means, for outputs that explain their counts."""

PARTIAL: Final = frozenset(
    {SeriesOutcome.TRUNCATED, SeriesOutcome.WARNINGS, SeriesOutcome.BAD_LINE}
)
"""Words that make a result partial: something was there that we could not get."""


EXAMPLES: Final = 5
"""So many places are remembered per word."""


class OutcomeCounts(Mapping[SeriesOutcome, int]):
    """How often each word was counted; it grows while a reader works, and is read when that has ended."""

    __slots__ = ("_counted", "_examples")

    def __init__(self, initial_counts: Mapping[SeriesOutcome, int] | None = None) -> None:
        self._counted: dict[SeriesOutcome, int] = {}
        self._examples: dict[SeriesOutcome, list[str]] = {}
        for word, number in (initial_counts or {}).items():
            self.add(word, number)

    def add(self, word: SeriesOutcome, number: int = 1, example: str = "") -> None:
        """Count something; nothing at all leaves no trace.

        Args:
            word: What it was.
            number: How often.
            example: Where, such as ``file:12: …``; the first few are kept.
        """
        if number:
            self._counted[word] = self._counted.get(word, 0) + number
            if example and len(self._examples.setdefault(word, [])) < EXAMPLES:
                self._examples[word].append(example)

    def merge(self, more_counts: Mapping[SeriesOutcome, int]) -> None:
        """Add what others counted, with their examples."""
        for word, number in more_counts.items():
            self.add(word, number)
            for example in (
                more_counts.examples(word) if isinstance(more_counts, OutcomeCounts) else ()
            ):
                if len(self._examples.setdefault(word, [])) < EXAMPLES:
                    self._examples[word].append(example)

    def examples(self, word: SeriesOutcome) -> tuple[str, ...]:
        """The first few places where it was counted, as far as they were given."""
        return tuple(self._examples.get(word, ()))

    @property
    def partial(self) -> bool:
        """Whether something was there that could not be had."""
        return any(word in PARTIAL for word in self._counted)

    def lines(self) -> tuple[str, ...]:
        """One line for people per word, in the order of :class:`SeriesOutcome`: ``12 bad_user: series whose …``."""
        return tuple(
            f"{self._counted[word]} {word}: {SENTENCES[word]}"
            for word in SeriesOutcome
            if word in self._counted
        )

    def __getitem__(self, word: SeriesOutcome) -> int:
        """How often; a word that was never counted is 0, and is not among the keys."""
        return self._counted.get(word, 0)

    def __iter__(self) -> Iterator[SeriesOutcome]:
        return (word for word in SeriesOutcome if word in self._counted)

    def __len__(self) -> int:
        return len(self._counted)

    def __contains__(self, word: object) -> bool:
        return word in self._counted

    def __repr__(self) -> str:
        return f"Counts({ {str(word): self._counted[word] for word in self} })"


class PointArray(Sequence[tuple[int, float]]):
    """Points as two columns: a tenth of the memory that a list of tuples takes.

    Attributes:
        times: Milliseconds since the epoch, as read.
        values: One per time.
    """

    __slots__ = ("times", "values")

    def __init__(self, times: Iterable[int] = (), values: Iterable[float] = ()) -> None:
        self.times = times if isinstance(times, array) else array("q", times)
        self.values = values if isinstance(values, array) else array("d", values)

    @classmethod
    def of(cls, points: Sequence[tuple[int, float]]) -> "PointArray":
        """These points as columns."""
        if isinstance(points, PointArray):
            return points
        return cls((at for at, _ in points), (value for _, value in points))

    def append(self, at: int, value: float) -> None:
        """One more point, while the series is still being read."""
        self.times.append(at)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.times)

    @overload
    def __getitem__(self, at: int) -> tuple[int, float]: ...
    @overload
    def __getitem__(self, at: slice) -> "PointArray": ...
    def __getitem__(self, at: int | slice) -> "tuple[int, float] | PointArray":
        if isinstance(at, slice):
            return PointArray(self.times[at], self.values[at])
        return self.times[at], self.values[at]

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(self.times, self.values, strict=True)

    def __eq__(self, other: object) -> bool:
        """Whether the points are the same; NaN is never the same."""
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash((bytes(self.times), bytes(self.values)))

    def __repr__(self) -> str:
        return f"Points({list(self)!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSeries:
    """One recorded series, or a stretch of it.

    Attributes:
        name: Of the metric; ``__name__`` is not among the labels.
        labels: As recorded; an absent label and an empty one are the same.
        points: Milliseconds since the epoch and value, in the order in which they were read.
    """

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[int, float]]

    def label(self, name: str) -> str:
        """The value of a label, "" if there is none."""
        return self.labels.get(name, "")
