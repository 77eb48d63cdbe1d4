"""Reads OpenMetrics, the classic Prometheus text format with timestamps, and output of `promtool tsdb dump`."""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import RecordedSeries, milliseconds, number_of

_LABELS: Final = r"\{(?:[^\"{}]++|\"(?:[^\"\\]++|\\.)*+\")*+\}"
_LINE: Final = re.compile(
    rf"(?P<head>[a-zA-Z_:][\w:]*+(?:{_LABELS})?+|{_LABELS})[ \t]+(?P<value>[^\s{{}}\"#]+)"
    rf"(?:[ \t]+(?P<at>[^\s{{}}\"#]+))?[ \t]*(?:#[ \t]*{_LABELS}.*)?",
    re.ASCII,
)
"""A sample; an exemplar may follow it."""

_LABEL: Final = re.compile(
    r"(?:(?P<label>[a-zA-Z_][\w.:-]*+|\"(?:[^\"\\]++|\\.)*+\")[ \t]*+=[ \t]*+)?\"(?P<value>(?:[^\"\\]++|\\.)*+)\"[ \t]*+(?:,[ \t]*+|$)",
    re.ASCII,
)
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"\\": "\\", '"': '"', "n": "\n"}
_MANY: Final = 1_000_000
"""Number of points after which the series read so far are yielded."""

_MANY_CHARACTERS: Final = 1 << 23
"""The same for characters of names and labels; in memory they take about five times as much."""

LONGEST_LINE: Final = 256 * 1024
"""In characters. Kafka names have at most 32,767 bytes, and a line has few labels."""

_OTHER_FORMAT: Final = "OpenMetrics text is read, such as the output of promtool tsdb dump; read a saved response from Prometheus itself"

_SECONDS: Final = 100_000_000_000
"""Timestamps below this are seconds: it is the year 5138 in seconds, and 1973 in milliseconds."""


def read(path: Path, counts: DropCounts) -> Iterator[RecordedSeries]:
    """Read the series of a file; a long series may be yielded in several parts.

    Args:
        path: Text, or ``.gz``.
        counts: Counts ``truncated`` (no ``# EOF`` in OpenMetrics, or an incomplete last line), ``bad_line`` with file
            and line, and ``no_time`` (samples without a timestamp). Seconds (OpenMetrics) and milliseconds (classic
            format) are distinguished by size.

    Raises:
        TelemetryError: The file cannot be read, or contains no sample.
    """
    gathered = _SeriesBuilder(str(path), counts)
    number, is_cut = 0, False
    for number, line, is_cut in _lines(path):
        if len(line) > LONGEST_LINE:
            raise TelemetryError(
                f"line {number:,} has more than {LONGEST_LINE:,} characters",
                location=str(path),
                hint=_OTHER_FORMAT,
            )
        if not is_cut:
            gathered.line(line, number)
        if gathered.is_full:
            yield from gathered.take_series()
    if is_cut:
        counts.add(DropReason.TRUNCATED, 1, f"{path}:{number}: ends in the middle of a line")
    elif gathered.seconds and not gathered.ended:
        counts.add(DropReason.TRUNCATED, 1, f"{path}:{number + 1}: ends without # EOF")
    if not gathered.samples and not gathered.ended and number:
        first = counts.examples(DropReason.BAD_LINE) or counts.examples(DropReason.TRUNCATED)
        raise TelemetryError(
            "holds no sample in OpenMetrics or the classic text format"
            + (f" ({first[0]})" if first else ""),
            location=str(path),
            hint=_OTHER_FORMAT,
        )
    yield from gathered.take_series()


def _lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield number and text of each line, and whether the file ends within it; ``.gz`` is decompressed.

    Raises:
        TelemetryError: The file cannot be read, or is not UTF-8.
    """
    number = 0
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="\n") as file:
            while line := file.readline(LONGEST_LINE + 2):
                number += 1
                text = line.rstrip("\r\n")
                yield number, text, not line.endswith("\n") and text.strip() != "# EOF"
    except EOFError:
        yield number + 1, "", True
    except UnicodeDecodeError as wrong:
        if wrong.reason != "unexpected end of data":
            raise TelemetryError("is not UTF-8 text", location=str(path)) from wrong
        yield number + 1, "", True
    except (OSError, zlib.error) as wrong:
        raise TelemetryError(f"cannot be read: {wrong}", location=str(path)) from wrong


class _SeriesBuilder:
    """Collects points by series from lines."""

    def __init__(self, source: str, counts: DropCounts) -> None:
        self.samples = 0
        self.seconds = False
        self.ended = False
        self._where = source
        self._counts = counts
        self._heads: dict[str, RecordedSeries] = {}
        self._characters = self._points = 0

    @property
    def is_full(self) -> bool:
        """Whether the collected series should be yielded."""
        return self._points >= _MANY or self._characters >= _MANY_CHARACTERS

    def take_series(self) -> Iterator[RecordedSeries]:
        heads, self._heads, self._points, self._characters = self._heads, {}, 0, 0
        yield from (series for series in heads.values() if series.times)

    def line(self, line: str, number: int) -> None:
        if line.startswith("#"):
            self.ended |= line == "# EOF"
        elif line.strip() and (self.ended or not self._add(line)):
            problem = "follows # EOF" if self.ended else f"is not a sample: {line[:80]!r}"
            self._counts.add(DropReason.BAD_LINE, 1, f"{self._where}:{number}: {problem}")

    def _add(self, line: str) -> bool:
        """Add the sample of a line; return whether it is one."""
        end = line.rfind("} ") + 1
        head, numbers = line[:end], line[end:].split()
        if head not in self._heads or not 1 <= len(numbers) <= 2:
            match = _LINE.fullmatch(line)
            if match is None:
                return False
            head, numbers = match["head"], [match["value"], *filter(None, [match["at"]])]
        series, value = self._series(head), number_of(numbers[0])
        at = self._moment(numbers[1]) if len(numbers) > 1 else None
        if series is None or value is None or (at is None and len(numbers) > 1):
            return False
        self.samples += 1
        if at is None:
            self._counts.add(DropReason.NO_TIME)
        else:
            series.append(at, value)
            self._points += 1
        return True

    def _moment(self, text: str) -> int | None:
        number = number_of(text)
        if number is None:
            return None
        if abs(number) < _SECONDS:
            self.seconds = True
            return milliseconds(number)
        return milliseconds(number / 1000)

    def _series(self, head: str) -> RecordedSeries | None:
        if head not in self._heads:
            parsed = labels_of(head)
            if parsed is None:
                return None
            self._heads[head] = RecordedSeries.of(*parsed)
            self._characters += len(head)
        return self._heads[head]


def labels_of(head: str) -> tuple[str, dict[str, str]] | None:
    """Parse name and labels before a value, as a line has them; ``None`` if they are invalid."""
    name, _, inner = head.partition("{")
    inner = inner[:-1].strip(" \t")
    labels: dict[str, str] = {}
    at = 0
    while at < len(inner):
        match = _LABEL.match(inner, at)
        if match is None:
            return None
        at, label, value = match.end(), match["label"], _unescaped(match["value"])
        if label is not None and label.startswith('"'):
            label = _unescaped(label[1:-1])
        if value is None or (label is None and name) or label in labels:
            return None
        if label not in {None, "__name__"}:
            labels[label or ""] = value
        elif name:
            return None
        else:
            name = value
    return (name, labels) if name else None


def _unescaped(text: str) -> str | None:
    if any(escape not in _ESCAPES for escape in _ESCAPE.findall(text)):
        return None
    return _ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], text)
