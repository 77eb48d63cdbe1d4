"""What every reader gives: series of points as they were recorded, and numbers and times as sources write them."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, overload

from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason


class PointArray(Sequence[tuple[int, float]]):
    """Points as two columns: a tenth of the memory that a list of tuples takes.

    Attributes:
        times: Milliseconds since the epoch, as read.
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


NOTHING: Final = PointArray()


def series_of(element: object, counts: DropCounts) -> RecordedSeries | None:
    """One element of a result; ``None`` where it has no points of numbers.

    Three shapes are read: ``values`` (matrix), ``value`` (vector), and ``values`` beside ``timestamps`` in
    milliseconds, which is how VictoriaMetrics exports.

    Args:
        element: As decoded from JSON.
        counts: Where everything that is left out is counted.
    """
    if not isinstance(element, dict) or not isinstance(element.get("metric"), dict):
        counts.add(DropReason.BAD_LINE)
        return None
    if "histogram" in element or "histograms" in element:
        counts.add(DropReason.HISTOGRAMS)
    labels = {str(name): str(value) for name, value in element["metric"].items()}
    points = _points(element, counts)
    if not points:
        return None
    return RecordedSeries(name=labels.pop("__name__", ""), labels=labels, points=points)


def _points(element: Mapping[str, Any], counts: DropCounts) -> PointArray:
    values, times = element.get("values"), element.get("timestamps")
    if isinstance(values, list) and isinstance(times, list) and len(values) == len(times):
        return _careful(
            [(_seconds_of(at), value) for at, value in zip(times, values, strict=True)], counts
        )
    if isinstance(values, list):
        return pairs(values, counts)
    if "value" in element:
        return pairs([element["value"]], counts)
    if "histogram" not in element and "histograms" not in element:
        counts.add(DropReason.BAD_LINE)
    return NOTHING


def pairs(raw_pairs: Sequence[Any], counts: DropCounts) -> PointArray:
    """``[[seconds, "value"], …]`` as points."""
    try:
        times = array("q", [round(at * 1000) for at, _ in raw_pairs])
        texts = [text for _, text in raw_pairs]
        if all(type(text) is str for text in texts) and "_" not in "".join(texts):
            return PointArray(times, array("d", map(float, texts)))
    except (TypeError, ValueError, OverflowError):
        pass
    return _careful(raw_pairs, counts)


def _careful(raw_pairs: Sequence[Any], counts: DropCounts) -> PointArray:
    """The same, one by one, because one of them is wrong."""
    points = PointArray()
    for raw_pair in raw_pairs:
        match raw_pair:
            case [int() | float() as at, str() | int() | float() as value] if not (
                isinstance(at, bool) or isinstance(value, bool)
            ):
                number = number_of(value) if isinstance(value, str) else float(value)
                moment = milliseconds(at)
            case _:
                number, moment = None, None
        if number is None:
            counts.add(DropReason.BAD_VALUE)
        elif moment is None:
            counts.add(DropReason.NOT_A_TIME)
        else:
            points.append(moment, number)
    return points


def number_of(text: str) -> float | None:
    """A number as Prometheus writes it: ``NaN``, ``+Inf`` and ``-Inf`` are numbers, too; ``None`` = it is none."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def milliseconds(seconds: float) -> int | None:
    """Seconds since the epoch in milliseconds; ``None`` = no time that fits into 64 bits."""
    try:
        rounded_ms = round(seconds * 1000)
    except (ValueError, OverflowError):
        return None
    return rounded_ms if abs(rounded_ms) < 2**62 else None


def _seconds_of(at: object) -> object:
    return at / 1000 if isinstance(at, int | float) and not isinstance(at, bool) else at


class TimeUnit(StrEnum):
    """How times are written; ``auto`` distinguishes seconds, milliseconds, micro- and nanoseconds by their size."""

    AUTO = "auto"
    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"
    ISO = "iso"


_PER_MS: Final = {
    TimeUnit.SECONDS: 0.001,
    TimeUnit.MILLISECONDS: 1.0,
    TimeUnit.MICROSECONDS: 1e3,
    TimeUnit.NANOSECONDS: 1e6,
}


def moment(number: float, unit: TimeUnit) -> int | None:
    """A time in milliseconds; ``None`` = it is none in this unit."""
    if unit is TimeUnit.ISO or not math.isfinite(number):
        return None
    if unit is TimeUnit.AUTO:
        unit = _by_size(abs(number))
    if unit is TimeUnit.SECONDS:
        return milliseconds(number)
    per_ms = _PER_MS[unit]
    time_ms = number // int(per_ms) if isinstance(number, int) else math.floor(number / per_ms)
    return time_ms if abs(time_ms) < 2**62 else None


def _by_size(number: float) -> TimeUnit:
    """The present is about 1.8 times 10^9 s; a thousand times more is the next unit."""
    if number < 1e11:
        return TimeUnit.SECONDS
    if number < 1e14:
        return TimeUnit.MILLISECONDS
    return TimeUnit.MICROSECONDS if number < 1e17 else TimeUnit.NANOSECONDS
