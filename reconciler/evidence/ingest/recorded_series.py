"""A series of points as recorded, and parsing of numbers and times."""

from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple


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
