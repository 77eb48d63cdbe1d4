"""The output of all readers: series of points as recorded; and parsing of numbers and times."""

import contextlib
import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason


class RecordedSeries(NamedTuple):
    """One recorded series, or a part of it."""

    name: str  # name of the metric; `__name__` is not in `labels`
    labels: Mapping[str, str]  # as recorded; an absent label equals an empty one
    times: "array[int]"  # milliseconds since the epoch, in the order of reading
    values: "array[float]"  # one per time

    @classmethod
    def of(
        cls, name: str, labels: Mapping[str, str], points: Iterable[tuple[int, float]] = ()
    ) -> "RecordedSeries":
        """Return a series of points, as pairs of time and value."""
        series = cls(name, labels, array("q"), array("d"))
        for at, value in points:
            series.append(at, value)
        return series

    @property
    def points(self) -> list[tuple[int, float]]:
        """The points as pairs of time and value."""
        return list(zip(self.times, self.values, strict=True))

    def append(self, at: int, value: float) -> None:
        """Append a point."""
        self.times.append(at)
        self.values.append(value)

    def label(self, name: str) -> str:
        """Return the value of a label; "" if absent."""
        return self.labels.get(name, "")

    def within(self, from_ms: int, to_ms: int) -> "RecordedSeries":
        """Return the series with its points of a time range, the end excluded."""
        if not self.times or (from_ms <= min(self.times) and max(self.times) < to_ms):
            return self
        points = (point for point in self.points if from_ms <= point[0] < to_ms)
        return RecordedSeries.of(self.name, self.labels, points)


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
    series = RecordedSeries.of(labels.pop("__name__", ""), labels)
    _read_points(element, series, counts)
    return series if series.times else None


def _read_points(element: Mapping[str, Any], series: RecordedSeries, counts: DropCounts) -> None:
    values, times = element.get("values"), element.get("timestamps")
    if isinstance(values, list) and isinstance(times, list) and len(values) == len(times):
        pairs = [(_seconds_of(at), value) for at, value in zip(times, values, strict=True)]
        _append_pairs(series, pairs, counts)
    elif isinstance(values, list):
        _append_pairs(series, values, counts)
    elif "value" in element:
        _append_pairs(series, [element["value"]], counts)
    elif "histogram" not in element and "histograms" not in element:
        counts.add(DropReason.BAD_LINE)


def _append_pairs(series: RecordedSeries, pairs: Sequence[Any], counts: DropCounts) -> None:
    """Append ``[seconds, "value"]`` pairs; one by one, if any of them is invalid or unusual."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        times = array("q", [round(at * 1000) for at, _ in pairs])
        texts = [text for _, text in pairs]
        if "_" not in "".join(texts):
            series.values.extend(array("d", map(float, texts)))
            series.times.extend(times)
            return
    for pair in pairs:
        match pair:
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
            series.append(moment, number)


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
