"""The output of all readers: series of points as recorded; and parsing of numbers and times."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, overload

from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason


class PointArray(Sequence[tuple[int, float]]):
    """Points as two columns, in a tenth of the memory of a list of tuples.

    Attributes:
        times: Milliseconds since the epoch.
    """

    __slots__ = ("times", "values")

    def __init__(self, times: Iterable[int] = (), values: Iterable[float] = ()) -> None:
        self.times = times if isinstance(times, array) else array("q", times)
        self.values = values if isinstance(values, array) else array("d", values)

    @classmethod
    def of(cls, points: Sequence[tuple[int, float]]) -> "PointArray":
        """Return points as columns."""
        if isinstance(points, PointArray):
            return points
        return cls((at for at, _ in points), (value for _, value in points))

    def append(self, at: int, value: float) -> None:
        """Append a point."""
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

    def __eq__(self, value: object) -> bool:
        """Whether the points are equal; NaN never equals NaN."""
        return isinstance(value, Sequence) and list(self) == list(value)

    def __hash__(self) -> int:
        return hash((bytes(self.times), bytes(self.values)))

    def __repr__(self) -> str:
        return f"Points({list(self)!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSeries:
    """One recorded series, or a part of it.

    Attributes:
        name: Name of the metric; ``__name__`` is not in ``labels``.
        labels: As recorded; an absent label equals an empty one.
        points: Milliseconds since the epoch and value, in the order of reading.
    """

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[int, float]]

    def label(self, name: str) -> str:
        """Return the value of a label; "" if absent."""
        return self.labels.get(name, "")

    def within(self, from_ms: int, to_ms: int) -> "RecordedSeries":
        """Return the series with its points of a time range, the end excluded."""
        points = PointArray.of(self.points)
        if points and not (from_ms <= min(points.times) and max(points.times) < to_ms):
            points = PointArray.of([point for point in points if from_ms <= point[0] < to_ms])
        return replace(self, points=points)


NOTHING: Final = PointArray()


def series_of(element: object, counts: DropCounts) -> RecordedSeries | None:
    """Parse one element of a result; ``None`` if it has no points.

    Accepts ``values`` (matrix), ``value`` (vector), and ``values`` with ``timestamps`` in milliseconds (VictoriaMetrics
    export).

    Args:
        element: Decoded JSON.
        counts: Counts everything that is dropped.
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
    """Parse ``[[seconds, "value"], …]``."""
    try:
        times = array("q", [round(at * 1000) for at, _ in raw_pairs])
        texts = [text for _, text in raw_pairs]
        if all(type(text) is str for text in texts) and "_" not in "".join(texts):
            return PointArray(times, array("d", map(float, texts)))
    except (TypeError, ValueError, OverflowError):
        pass
    return _careful(raw_pairs, counts)


def _careful(raw_pairs: Sequence[Any], counts: DropCounts) -> PointArray:
    """Parse pairs one by one, because at least one is invalid or unusual."""
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
    """Parse a number as Prometheus writes it, including ``NaN``, ``+Inf`` and ``-Inf``; ``None`` if invalid."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


def milliseconds(seconds: float) -> int | None:
    """Convert seconds since the epoch to milliseconds; ``None`` if it does not fit 64 bits."""
    try:
        rounded_ms = round(seconds * 1000)
    except (ValueError, OverflowError):
        return None
    return rounded_ms if abs(rounded_ms) < 2**62 else None


def _seconds_of(at: object) -> object:
    return at / 1000 if isinstance(at, int | float) and not isinstance(at, bool) else at


class TimeUnit(StrEnum):
    """The unit of times; ``auto`` distinguishes seconds, milliseconds, micro- and nanoseconds by size."""

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
    """Return a time in milliseconds; ``None`` if it is invalid in this unit."""
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
    """Return the unit by size: now is about 1.8 times 10^9 s, and each finer unit is 1000 times larger."""
    if number < 1e11:
        return TimeUnit.SECONDS
    if number < 1e14:
        return TimeUnit.MILLISECONDS
    return TimeUnit.MICROSECONDS if number < 1e17 else TimeUnit.NANOSECONDS
