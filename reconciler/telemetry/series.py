"""What every reader gives: series of points as they were recorded, and the counts of what became of them."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, overload


class Word(StrEnum):
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


SENTENCES: Final[dict[Word, str]] = {
    Word.SERIES: "series that were read",
    Word.POINTS: "points that were kept",
    Word.OTHER_METRIC: "series whose metric says nothing of quotas or brokers in this dialect",
    Word.OTHER_CLUSTER: "series that fit no cluster's telemetry.matchers",
    Word.TWO_CLUSTERS: "series that fit the telemetry.matchers of two clusters: neither got them",
    Word.PER_TOPIC: "series of single topics: the broker's total is what counts",
    Word.PER_SHARD: "series of single cores: scrape Redpanda's /public_metrics, which adds them up",
    Word.NO_INSTANCE: "series without an instance label, whose broker nothing can tell",
    Word.BROKER_CONFLICT: "app-info series that name another broker than telemetry.brokerId, which was believed",
    Word.APP_INFO_UNUSED: "app-info series that were not needed, because telemetry.brokerId says who is who",
    Word.UNKNOWN_TYPE: "series of a quota type that we do not know",
    Word.BAD_USER: "series whose user is not percent-encoded as Kafka does it",
    Word.BAD_CLIENT_ID: "series whose client id is not quoted as JMX does it: cut by a greedy exporter rule, or forged",
    Word.BAD_IP: "series whose ip is no address",
    Word.BAD_BROKER_ID: "app-info series without a broker id, or with one that is no whole number",
    Word.NAME_LOST: "series whose client is spelled out in the metric's name, where it cannot be read back",
    Word.GROUP_ENTITY: "series of groups of client id prefixes, which are no bucket of Kafka's",
    Word.NOT_TEXT: "series with a name that is no Unicode text",
    Word.CLOCK_AHEAD: "points from the future: some clock is wrong",
    Word.NOT_A_TIME: "points whose time is before 2010 or absurd: seconds and milliseconds confused?",
    Word.NO_TIME: "points without a time of their own",
    Word.DUPLICATES: "points that were there twice, with the same value: one was kept",
    Word.CONTRADICTIONS: "points that were there twice, with different values: the larger was kept",
    Word.RESAMPLED: "points that repeat the one before on an even grid: a range query's look-back, not a reading",
    Word.HISTOGRAMS: "series of native histograms",
    Word.BAD_VALUE: "points whose value is no number",
    Word.BAD_LINE: "lines or rows that could not be read",
    Word.TRUNCATED: "files or answers that end too early: what came before was read",
    Word.WARNINGS: "warnings of the server: its answer is not complete",
    Word.INFOS: "remarks of the server about a query",
    Word.RETRIES: "requests that had to be sent again",
    Word.SPLITS: "queries that were too large and were asked in parts",
}
"""What each word means, for outputs that explain their counts."""

PARTIAL: Final = frozenset({Word.TRUNCATED, Word.WARNINGS, Word.BAD_LINE})
"""Words that make a result partial: something was there that we could not get."""


EXAMPLES: Final = 5
"""So many places are remembered per word."""


class Counts(Mapping[Word, int]):
    """How often each word was counted; it grows while a reader works, and is read when that has ended."""

    __slots__ = ("_counted", "_examples")

    def __init__(self, counted: Mapping[Word, int] | None = None) -> None:
        self._counted: dict[Word, int] = {}
        self._examples: dict[Word, list[str]] = {}
        for word, number in (counted or {}).items():
            self.add(word, number)

    def add(self, word: Word, number: int = 1, example: str = "") -> None:
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

    def merge(self, others: Mapping[Word, int]) -> None:
        """Add what others counted, with their examples."""
        for word, number in others.items():
            self.add(word, number)
            for example in others.examples(word) if isinstance(others, Counts) else ():
                if len(self._examples.setdefault(word, [])) < EXAMPLES:
                    self._examples[word].append(example)

    def examples(self, word: Word) -> tuple[str, ...]:
        """The first few places where it was counted, as far as they were told."""
        return tuple(self._examples.get(word, ()))

    @property
    def partial(self) -> bool:
        """Whether something was there that could not be had."""
        return any(word in PARTIAL for word in self._counted)

    def lines(self) -> tuple[str, ...]:
        """One line for people per word, in the order of :class:`Word`: ``12 bad_user: series whose …``."""
        return tuple(
            f"{self._counted[word]} {word}: {SENTENCES[word]}"
            for word in Word
            if word in self._counted
        )

    def __getitem__(self, word: Word) -> int:
        """How often; a word that was never counted is 0, and is not among the keys."""
        return self._counted.get(word, 0)

    def __iter__(self) -> Iterator[Word]:
        return (word for word in Word if word in self._counted)

    def __len__(self) -> int:
        return len(self._counted)

    def __contains__(self, word: object) -> bool:
        return word in self._counted

    def __repr__(self) -> str:
        return f"Counts({ {str(word): self._counted[word] for word in self} })"


class Points(Sequence[tuple[int, float]]):
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
    def of(cls, points: Sequence[tuple[int, float]]) -> "Points":
        """These points as columns."""
        if isinstance(points, Points):
            return points
        return cls((at for at, _ in points), (value for _, value in points))

    def append(self, at: int, value: float) -> None:
        """One more point, by whoever is still reading."""
        self.times.append(at)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.times)

    @overload
    def __getitem__(self, at: int) -> tuple[int, float]: ...
    @overload
    def __getitem__(self, at: slice) -> "Points": ...
    def __getitem__(self, at: int | slice) -> "tuple[int, float] | Points":
        if isinstance(at, slice):
            return Points(self.times[at], self.values[at])
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
class Series:
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
