"""What every reader gives: series of points as they were recorded."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload


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
