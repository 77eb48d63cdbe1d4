"""Tables of sections as Markdown, and aligned tables, folded lines and colours for terminals. Cells are escaped already; widths count screen columns.

Text is never cut. If a terminal is too narrow, the last columns of a row move to separate lines below it.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from reconciler.base.escaping import escaped, markdown, prose
from reconciler.render.sections import CellKind, CellText, Section
from reconciler.render.units import UNSET

_CODES: Final[Mapping[str, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}

MAX_ALIGNED: Final = 60
"""Maximum width that a column reserves; a wider cell shifts only the rest of its row."""

_HANGING: Final = 4
"""Columns by which continued lines of a row are indented."""

_LEAST_WIDTH: Final = 40
"""Minimum width: on a narrower terminal lines are folded to this width."""

_PROGRAMS: Final = (
    r"(?:kquota|kubectl|helm|pip|chmod|openssl|kafka-[a-z-]+|sed(?= -)|python3?(?= -)"
    r"|git(?= (?:-|config|diff|fetch|for-each-ref|fsck|log|ls-remote|push|rev-parse|show)))"
)
_PARTS: Final = re.compile(
    r"\x1b\[[0-9;]*m|[ ]++"
    rf"|\(?`{_PROGRAMS} [^`]*+`[^ \x1b]*+|\(?{_PROGRAMS}(?: ++(?:[^ \x1b;,]|[;,](?=[^ \x1b]))++)++[;,]*+|[^ \x1b]++"
)
"""The parts of a line. A command is one part: it begins with a program and ends with its quotes or its clause."""

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class Style(Struct, frozen=True, kw_only=True, gc=False):
    """Colours and width of text."""

    # Whether ANSI colours are written; the caller checks the terminal and `NO_COLOR`.
    colour: bool = False
    width: int = 0  # columns of the terminal, 0 = never fold

    def paint(self, text: str, *names: str) -> str:
        """Return the text in these colours, or unchanged."""
        if not self.colour or not names or not text:
            return text
        codes = ";".join(_CODES[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"


PLAIN: Final = Style()


class Cell(Struct, frozen=True, kw_only=True, gc=False):
    """One cell."""

    text: str
    colours: tuple[str, ...] = ()
    right: bool = False
    # Whether it is always on the same line as the cell before it, such as an arrow between two values.
    joined: bool = False


def columns_of(text: str) -> int:
    """Return the screen columns of a text: wide East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def table(
    rows: Iterable[Sequence[Cell | str]],
    *,
    heads: Sequence[str] = (),
    style: Style = PLAIN,
    indent: str = "",
) -> list[str]:
    """Return the lines of an aligned table with two spaces between columns and none at the end of a line.

    With a width, columns that do not fit on one line are aligned on further lines below their row.
    """
    return [
        line for row in row_lines(rows, heads=heads, style=style, indent=indent) for line in row
    ]


def section_lines(section: Section, *, style: Style = PLAIN, indent: str = "") -> list[str]:
    """Return the lines of the table of a section."""
    rows = [
        [
            Cell(text=escaped(cell.text), right=kind is CellKind.NUMBER)
            for cell, kind in zip(row, section.kinds, strict=True)
        ]
        for row in section.rows
    ]
    return table(rows, heads=section.heads, style=style, indent=indent)


def row_lines(
    rows: Iterable[Sequence[Cell | str]],
    *,
    heads: Sequence[str] = (),
    style: Style = PLAIN,
    indent: str = "",
) -> list[list[str]]:
    """Return the lines of :func:`table`, by row; the heads are the first row."""
    cells = [[cell if isinstance(cell, Cell) else Cell(text=cell) for cell in row] for row in rows]
    if heads:
        cells.insert(0, [Cell(text=head, colours=("bold",)) for head in heads])
    columns = [
        [row[at] for row in cells if at < len(row)]
        for at in range(max((len(row) for row in cells), default=0))
    ]
    widths = [
        max(
            (width for cell in column if (width := columns_of(cell.text)) <= MAX_ALIGNED), default=0
        )
        for column in columns
    ]
    rights = [any(cell.right for cell in column) for column in columns]
    joined = [any(cell.joined for cell in column) for column in columns]
    room = max(style.width, _LEAST_WIDTH) - len(indent) if style.width else 0
    blocks = list(_blocks(widths, joined, room))
    lines: list[list[str]] = []
    for row in cells:
        lines.append([])
        for number, block in enumerate(blocks):
            part = row[block.start : block.stop]
            if number and not any(cell.text for cell in part):
                continue
            line = _line(part, widths[block.start :], rights[block.start :], style).rstrip()
            lead = indent + " " * _HANGING if number else indent
            lines[-1] += fold(lead + line, style.width, hang=len(indent) + 2 * _HANGING)
    return lines


def _blocks(widths: Sequence[int], joined: Sequence[bool], room: int) -> Iterator[range]:
    """Yield the columns of each line of a row; ``room`` 0 = all on one line."""
    starts = [at for at in range(len(widths)) if not (at and joined[at])]
    first, used = 0, 0
    for at, following in pairwise([*starts, len(widths)]):
        needed = sum(widths[at:following]) + 2 * (following - at)
        lead = _HANGING if first else 0
        if room and at > first and lead + used + needed - 2 > room:
            yield range(first, at)
            first, used = at, 0
        used += needed
    yield range(first, len(widths))


def _line(row: Sequence[Cell], widths: Sequence[int], rights: Sequence[bool], style: Style) -> str:
    texts: list[str] = []
    for cell, width, right in zip(row, widths, rights, strict=False):
        space = " " * (width - columns_of(cell.text))
        text = style.paint(cell.text, *cell.colours)
        texts.append(space + text if right else text + space)
    return "  ".join(texts)


def fits(lines: Iterable[str], style: Style) -> bool:
    """Whether lines without colours fit on the terminal."""
    return not style.width or all(columns_of(line) <= style.width for line in lines)


def fold_lines(lines: Iterable[str], style: Style, *, is_message: bool = False) -> list[str]:
    """Return lines of sentences, folded to the width of the style; continued lines are indented by two more columns."""
    return [
        part
        for line in lines
        for part in fold(
            line, style.width, hang=len(line) - len(line.lstrip(" ")) + 2, is_message=is_message
        )
    ]


def fold(line: str, width: int, *, hang: int, is_message: bool = False) -> list[str]:
    """Fold a line to at most ``width`` columns: at spaces, and inside a word only if necessary; never inside a command.

    Args:
        line: May contain colour codes, which take no columns.
        width: Columns of the terminal, 0 = never fold.
        is_message: Whether words too stay on one line even if they are wider.
    """
    width = max(width, _LEAST_WIDTH) if width else 0
    if not width or columns_of(_COLOUR.sub("", line)) <= width:
        return [line]
    lines, current, used = list[str](), "", 0
    for part in _PARTS.findall(line):
        if part.startswith("\x1b"):
            current += part
            continue
        if used + columns_of(part) <= width:
            current, used = current + part, used + columns_of(part)
            continue
        if used > hang:
            lines.append(current.rstrip(" "))
            current, used = " " * hang, hang
        if part.startswith(" "):
            continue
        for character in [part] if is_message or " " in part else part:
            if used + columns_of(character) > width and used > hang:
                lines.append(current)
                current, used = " " * hang, hang
            current, used = current + character, used + columns_of(character)
    return [*lines, current.rstrip(" ")] if current.strip(" ") else lines


def markdown_heads(section: Section) -> list[str]:
    """Return the two lines of headings of a Markdown table."""
    ways = ["-:" if kind is CellKind.NUMBER else "-" for kind in section.kinds]
    return [_markdown_line(map(str.capitalize, section.heads)), f"|{'|'.join(ways)}|"]


def markdown_rows(section: Section) -> list[str]:
    """Return one line of Markdown per row: names are code, further lines of a cell are below its text."""
    return [_markdown_line(map(_markdown_cell, row, section.kinds)) for row in section.rows]


def _markdown_cell(cell: CellText, kind: CellKind) -> str:
    escape = markdown if kind is CellKind.NAME else prose
    lines = (cell.text, *cell.below)
    return "<br>".join(line if line == UNSET else escape(line) for line in lines if line)


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
