"""Elements of Prometheus' answers, matrix and vector, as series. What cannot be a point is counted and left out."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers.series import (
    PointArray,
    RecordedSeries,
)

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
