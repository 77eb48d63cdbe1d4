"""Reads OpenMetrics, the classic Prometheus text format with timestamps, and output of `promtool tsdb dump`."""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reconciler.errors import TelemetryError
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.recorded_series import RecordedSeries, milliseconds, number_of

_SIMPLE: Final = re.compile(
    r"(?P<head>[a-zA-Z_:][\w:]*(?:\{.*\})?|\{.*\})[ \t]+(?P<value>[^\s{}\"]+)(?:[ \t]+(?P<at>[^\s{}\"#]+))?[ \t]*",
    re.ASCII,
)
_LABELS: Final = r"(?:[^\"{}]++|\"(?:[^\"\\]++|\\.)*+\")*+"
_EXEMPLAR: Final = re.compile(
    rf"(?P<sample>[a-zA-Z_:][\w:]*+(?:\{{{_LABELS}\}})?+[^#\"{{}}]*+)#[ \t]*+\{{{_LABELS}\}}.*",
    re.ASCII,
)
_NAME: Final = re.compile(r"[a-zA-Z_:][\w:]*", re.ASCII)
_LABEL: Final = re.compile(
    r"[ \t]*+(?:(?P<label>[a-zA-Z_][\w.:-]*+|\"(?:[^\"\\]++|\\.)*+\")[ \t]*+=[ \t]*+)?\"(?P<value>(?:[^\"\\]++|\\.)*+)\"[ \t]*+(?:,|$)",
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

_REST: Final = re.compile(r"\s*+")

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
        self.points = 0
        self.samples = 0
        self.seconds = False
        self.ended = False
        self._where = source
        self._counts = counts
        self._heads: dict[str, RecordedSeries] = {}
        self._characters = 0

    @property
    def is_full(self) -> bool:
        """Whether the collected series should be yielded."""
        return self.points >= _MANY or self._characters >= _MANY_CHARACTERS

    def take_series(self) -> Iterator[RecordedSeries]:
        heads, self._heads, self.points, self._characters = self._heads, {}, 0, 0
        yield from (series for series in heads.values() if series.times)

    def line(self, line: str, number: int) -> None:
        if not line or line.startswith("#"):
            if line == "# EOF":
                self.ended = True
            return
        if not self.ended and self._again(line):
            return
        if line.isspace():
            return
        match = None if self.ended else self._sample(line)
        head = None if match is None else self._head(match["head"])
        value = None if match is None else number_of(match["value"])
        if match is None or head is None or value is None:
            self._bad(line, number)
            return
        at = self._moment(match["at"])
        if at is None and match["at"] is not None:
            self._bad(line, number)
            return
        self.samples += 1
        if at is None:
            self._counts.add(DropReason.NO_TIME)
            return
        head.append(at, value)
        self.points += 1

    def _again(self, line: str) -> bool:
        """Read a line with known labels, a value and a time on a fast path; return whether it was one."""
        end = line.rfind("} ")
        head = self._heads.get(line[: end + 1])
        if head is None:
            return False
        value, _, at = line[end + 2 :].partition(" ")
        number, moment = number_of(value), self._moment(at) if at else None
        if number is None or moment is None:
            return False
        head.append(moment, number)
        self.samples += 1
        self.points += 1
        return True

    def _sample(self, line: str) -> re.Match[str] | None:
        match = _SIMPLE.fullmatch(line)
        if match is not None and self._head(match["head"]) is not None:
            return match
        cut = _EXEMPLAR.fullmatch(line)
        return None if cut is None else _SIMPLE.fullmatch(cut["sample"])

    def _moment(self, text: str | None) -> int | None:
        number = None if text is None else number_of(text)
        if number is None:
            return None
        if abs(number) < _SECONDS:
            self.seconds = True
            return milliseconds(number)
        return milliseconds(number / 1000)

    def _head(self, text: str) -> RecordedSeries | None:
        try:
            return self._heads[text]
        except KeyError:
            parsed = labels_of(text)
            if parsed is None:
                return None
            self._heads[text] = RecordedSeries.of(*parsed)
            self._characters += len(text)
            return self._heads[text]

    def _bad(self, line: str, number: int) -> None:
        problem = "follows # EOF" if self.ended else f"is not a sample: {line[:80]!r}"
        self._counts.add(DropReason.BAD_LINE, 1, f"{self._where}:{number}: {problem}")


def labels_of(head: str) -> tuple[str, dict[str, str]] | None:
    """Parse name and labels before a value; ``None`` if they are invalid."""
    name_match = _NAME.match(head)
    name = name_match[0] if name_match else ""
    remaining_text = head[len(name) :]
    if not remaining_text:
        return (name, {}) if name else None
    if not (remaining_text.startswith("{") and remaining_text.endswith("}")):
        return None
    inner = remaining_text[1:-1]
    labels: dict[str, str] = {}
    at = 0
    while at < len(inner) and not _is_blank(inner, at):
        label_match = _LABEL.match(inner, at)
        if label_match is None:
            return None
        value = _unescaped(label_match["value"])
        label = label_match["label"]
        if label is not None and label.startswith('"'):
            label = _unescaped(label[1:-1])
        if value is None or (label is None and name) or label in labels:
            return None
        if label is None or label == "__name__":
            if name:
                return None
            name = value
        else:
            labels[label] = value
        at = label_match.end()
    return (name, labels) if name else None


def _is_blank(text: str, at: int) -> bool:
    match = _REST.match(text, at)
    return match is not None and match.end() == len(text)


def _unescaped(text: str) -> str | None:
    if "\\" not in text:
        return text
    if any(escape not in _ESCAPES for escape in _ESCAPE.findall(text)):
        return None
    return _ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], text)
