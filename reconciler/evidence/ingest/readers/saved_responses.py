"""Reads saved Prometheus responses of query and query_range, one or several in a file, element by element."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from reconciler.base import bounded_json
from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers.series import (
    PointArray,
    RecordedSeries,
    series_of,
)
from reconciler.evidence.ingest.readers.text_files import BLOCK, TextFile

_BLANKS: Final = " \t\r\n"
_MOST: Final = 1 << 23
"""Maximum length of an element in characters: a series of 30 days with a sample every 10 seconds."""

_MOST_ITEMS: Final = 1_500_000
"""Maximum number of arrays, objects and values of an element: three per sample."""

_MOST_FIELDS: Final = 1_000
"""Maximum number of fields of an object other than results."""

_SHORT: Final = 12
"""More characters than any literal that the end of a block may split."""


class _TruncatedFile(Exception):
    """The file ends in the middle of an element."""


def read(path: Path, counts: DropCounts) -> Iterator[RecordedSeries]:
    """Read the series of a file one by one.

    The file contains responses (``{"status": …, "data": {"result": […]}}``), only results, or one element per line.
    Memory is bounded by one element. Values that a range query repeated are counted as ``resampled``: on a grid of
    whole seconds it repeats the last value for up to five minutes, as if the series was alive.

    Args:
        path: JSON, or ``.gz``.
        counts: Counts ``truncated`` if the file ends too early; series before that are yielded.

    Raises:
        TelemetryError: The file is not JSON, not a Prometheus response, or an error response.
    """
    grid = _GridCheck()
    with TextFile(path) as file:
        reading = _ResponseReader(file, str(path), counts)
        has_document = False
        try:
            for element in reading.elements():
                has_document = True
                series = series_of(element, counts)
                if series is not None:
                    grid.see(PointArray.of(series.points))
                    yield series
        except _TruncatedFile:
            counts.add(DropReason.TRUNCATED, 1, f"{path}: ends in the middle of an answer")
        else:
            if file.truncated:
                counts.add(DropReason.TRUNCATED, 1, f"{path}: ends in the middle of a character")
            elif not has_document and not reading.answers:
                raise TelemetryError("holds no answer of Prometheus", location=str(path))
    counts.add(DropReason.WARNINGS, reading.warnings)
    counts.add(DropReason.RESAMPLED, grid.repeats)


class _ResponseReader:
    """Yields the elements of a file whose documents may be larger than memory."""

    def __init__(self, file: TextFile, source: str, counts: DropCounts) -> None:
        self.answers = 0
        self.warnings = 0
        self._file = file
        self._where = source
        self._counts = counts
        self._decoder = json.JSONDecoder()
        self._text = ""
        self._at = 0
        self._gone = 0
        self._ended = False

    def elements(self) -> Iterator[Any]:
        while self._peek():
            if self._peek() == "[":
                self.answers += 1
                yield from self._array()
            elif self._peek() == "{":
                yield from self._object(top=True)
            else:
                raise self._wrong("holds something that is neither an answer nor a result")

    def _object(self, *, top: bool) -> Iterator[Any]:
        """Parse an object: a response, its data, or an element; results are yielded one by one."""
        fields: dict[str, Any] = {}
        self._take("{")
        while self._need() != "}":
            name = self._value()
            if not isinstance(name, str):
                raise self._wrong("has a name that is not a text")
            self._take(":")
            opening = self._need()
            if (name, opening) == ("data", "{") and top:
                yield from self._object(top=False)
            elif (name, opening) == ("result", "["):
                self.answers += 1
                yield from self._array()
            elif len(fields) < _MOST_FIELDS:
                fields[name] = self._value()
            else:
                raise self._wrong(f"has an object of more than {_MOST_FIELDS:,} fields")
            if self._need() == ",":
                self._at += 1
            elif self._need() != "}":
                raise self._wrong("is not JSON")
        self._at += 1
        if "metric" in fields:
            yield fields
        elif top:
            self._envelope(fields)

    def _envelope(self, fields: dict[str, Any]) -> None:
        if fields.get("status") == "error":
            raise TelemetryError(
                f"holds an error and no samples: {str(fields.get('error'))[:300]}",
                location=self._where,
            )
        warnings = fields.get("warnings")
        self.warnings += len(warnings) if isinstance(warnings, list) else 0
        self.warnings += 1 if fields.get("isPartial") is True else 0

    def _array(self) -> Iterator[Any]:
        self._take("[")
        while self._need() != "]":
            yield self._value()
            if self._need() == ",":
                self._at += 1
            elif self._need() != "]":
                raise self._wrong("is not JSON")
        self._at += 1

    def _value(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the value at the current position; reads more until it is complete."""
        self._need()
        size = BLOCK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as wrong:
                if not self._may_be_cut(wrong):
                    raise self._wrong("is not JSON", wrong.pos) from wrong
            except ValueError as wrong:  # a number with more digits than Python accepts
                raise self._wrong("has a number that is too long") from wrong
            except RecursionError as deep:
                raise self._wrong("is nested too deeply") from deep
            else:
                # A number at the very end may continue in the next block.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            if self._ended:
                raise _TruncatedFile
            self._read_on(size)
            size = min(size * 2, _MOST)

    def _read_on(self, size: int) -> None:
        """Read more of an incomplete element, within bounds on its size in memory."""
        if len(self._text) - self._at > _MOST:
            raise self._wrong(f"has an element of more than {_MOST:,} characters")
        self._more(size)
        if bounded_json.items(self._text) > _MOST_ITEMS:
            raise self._wrong(f"has an element of more than {_MOST_ITEMS:,} items")

    def _may_be_cut(self, wrong: json.JSONDecodeError) -> bool:
        if wrong.msg.startswith("Unterminated string") or wrong.pos >= len(self._text):
            return True
        remaining_text = self._text[wrong.pos :]
        return len(remaining_text) < _SHORT and not any(
            mark in remaining_text for mark in '"{}[],:'
        )

    def _peek(self) -> str:
        """Return the next character that is not whitespace; "" at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANKS:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._more(BLOCK)

    def _need(self) -> str:
        next_character = self._peek()
        if not next_character:
            raise _TruncatedFile
        return next_character

    def _take(self, character: str) -> None:
        if self._need() != character:
            raise self._wrong("is not JSON")
        self._at += 1

    def _more(self, size: int) -> None:
        block = self._file.read(size)
        self._ended = not block
        self._gone += self._at
        self._text = self._text[self._at :] + block
        self._at = 0

    def _wrong(self, message: str, at: int | None = None) -> TelemetryError:
        place = self._gone + (self._at if at is None else at)
        return TelemetryError(f"{message} (at character {place + 1:,})", location=self._where)


class _GridCheck:
    """Detects points on a grid of whole seconds, and counts values that repeat the one before.

    Scrapes have an offset in milliseconds per target; a range query has one grid for all series.
    """

    def __init__(self) -> None:
        self._even = True
        self._step = 0
        self._origin: int | None = None
        self._repeats = 0

    def see(self, points: PointArray) -> None:
        times, values = points.times, points.values
        if not self._even or len(times) < 2:
            return
        steps = {after - before for before, after in itertools.pairwise(times)}
        least = min(steps)
        if self._origin is None:
            self._origin, self._step = times[0], least
        step = min(self._step, least)
        if (
            step <= 0
            or step % 1000
            or times[0] % 1000
            or any(step_ms % step for step_ms in steps)
            or (times[0] - self._origin) % step
        ):
            self._even = False
            return
        self._step = step
        self._repeats += sum(before == after for before, after in itertools.pairwise(values))

    @property
    def repeats(self) -> int:
        return self._repeats if self._even else 0
