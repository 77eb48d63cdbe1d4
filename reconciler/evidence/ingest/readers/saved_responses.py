"""Reads saved Prometheus responses of query and query_range, one or several in a file, element by element.

An element is an object that begins with the field ``metric``. The rest of a file, its *frame*, is small and is parsed
as a whole, with a mark in place of each element.
"""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from reconciler.base import bounded_json
from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.readers.series import RecordedSeries, series_of
from reconciler.evidence.ingest.readers.text_files import TextFile

_ELEMENT: Final = re.compile(r'\{\s*+"metric"\s*+:')
_MARK: Final = "\0"
_CHARACTER: Final = re.compile(r"[^ \t\r\n]")
_MOST: Final = 1 << 23
"""Maximum length of an element, and of a frame, in characters: a series of 30 days with a sample every 10 seconds."""

_MOST_ITEMS: Final = 1_500_000
"""Maximum number of arrays, objects and values of an element or frame: three per sample."""

_SHORT: Final = 12
"""More characters than any literal that the end of a file may split."""


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
    grid, response = _GridCheck(), _ResponseFile(str(path))
    with TextFile(path) as file:
        for element in response.elements(file):
            series = series_of(element, counts)
            if series is not None:
                grid.see(series)
                yield series
        if response.is_cut or file.truncated:
            counts.add(DropReason.TRUNCATED, 1, f"{path}: ends in the middle of an answer")
        elif response.is_empty:
            raise TelemetryError("holds no answer of Prometheus", location=str(path))
    counts.add(DropReason.WARNINGS, response.warnings)
    counts.add(DropReason.RESAMPLED, grid.repeats)


class _ResponseFile:
    """Yields the elements of a file whose documents may be larger than memory.

    Attributes:
        is_cut: Whether the file ended in the middle of a document.
        is_empty: Whether it has no complete document.
        warnings: The number of warnings of its responses.
    """

    def __init__(self, source: str) -> None:
        self.is_cut = False
        self.is_empty = True
        self.warnings = 0
        self._where = source
        self._decoder = json.JSONDecoder()
        self._frame: list[str] = []
        self._frame_size = 0

    def elements(self, file: TextFile) -> Iterator[Any]:
        text = ""
        while block := file.read():
            text += block
            at = 0
            while match := _ELEMENT.search(text, at):
                element, end = self._decoded(text, match.start())
                if end is None:
                    break
                yield element
                self._add_to_frame(text[at : match.start()] + json.dumps(_MARK))
                at = end
            # The block may end within the beginning of an element.
            remaining = text.rfind("{", at) if match is None else match.start()
            remaining = len(text) if remaining < 0 else remaining
            self._add_to_frame(text[at:remaining])
            text = text[remaining:]
            self._check(text, len(text), "an element")
        self._add_to_frame(text)
        for document in self._documents("".join(self._frame)):
            yield from self._judged(document)

    def _decoded(self, text: str, at: int) -> tuple[Any, int | None]:
        """Return the element at a position and its end; no end if the text may be incomplete."""
        try:
            element, end = self._decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return None, None
        except (ValueError, RecursionError) as wrong:
            raise self._unparsable(wrong) from wrong
        return element, end

    def _add_to_frame(self, text: str) -> None:
        self._frame.append(text)
        self._frame_size += len(text)
        self._check("", self._frame_size, "a response without its elements")

    def _check(self, text: str, size: int, description: str) -> None:
        if size > _MOST:
            raise self._wrong(f"has {description} of more than {_MOST:,} characters")
        if bounded_json.items(text) > _MOST_ITEMS:
            raise self._wrong(f"has {description} of more than {_MOST_ITEMS:,} items")

    def _documents(self, frame: str) -> Iterator[Any]:
        self._check(frame, len(frame), "a response without its elements")
        at = 0
        while begin := _CHARACTER.search(frame, at):
            if begin[0] not in '{["':
                raise self._wrong("holds something that is neither an answer nor a result")
            try:
                document, at = self._decoder.raw_decode(frame, begin.start())
            except json.JSONDecodeError as wrong:
                if not _may_be_cut(wrong, frame):
                    raise self._wrong("is not JSON") from wrong
                self.is_cut = True
                return
            except (ValueError, RecursionError) as wrong:
                raise self._unparsable(wrong) from wrong
            self.is_empty = False
            yield document

    def _judged(self, document: Any) -> Iterator[Any]:  # noqa: ANN401 - any JSON
        """Count the warnings of a document; yield elements that do not begin with ``metric``."""
        match document:
            case "\0":
                return
            case list():
                elements = document
            case {"metric": _}:
                elements = [document]
            case {"status": "error"}:
                raise self._wrong(
                    f"holds an error and no samples: {str(document.get('error'))[:300]}"
                )
            case {"data": {"result": list() as elements}} | {"result": list() as elements}:
                pass
            case dict():
                raise self._wrong("holds no answer of Prometheus")
            case _:
                raise self._wrong("holds something that is neither an answer nor a result")
        if isinstance(document, dict):
            warnings = document.get("warnings")
            self.warnings += len(warnings) if isinstance(warnings, list) else 0
            self.warnings += document.get("isPartial") is True
        yield from (element for element in elements if element != _MARK)

    def _unparsable(self, wrong: Exception) -> TelemetryError:
        is_deep = isinstance(wrong, RecursionError)
        return self._wrong("is nested too deeply" if is_deep else "has a number that is too long")

    def _wrong(self, message: str) -> TelemetryError:
        return TelemetryError(message, location=self._where)


def _may_be_cut(wrong: json.JSONDecodeError, text: str) -> bool:
    """Whether the end of a text may explain that it is not JSON."""
    if wrong.msg.startswith("Unterminated string") or wrong.pos >= len(text):
        return True
    remaining_text = text[wrong.pos :]
    return len(remaining_text) < _SHORT and not any(mark in remaining_text for mark in '"{}[],:')


class _GridCheck:
    """Detects points on a grid of whole seconds, and counts values that repeat the one before.

    Scrapes have an offset in milliseconds per target; a range query has one grid for all series.
    """

    def __init__(self) -> None:
        self._even = True
        self._step = 0
        self._origin: int | None = None
        self._repeats = 0

    def see(self, series: RecordedSeries) -> None:
        times, values = series.times, series.values
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
