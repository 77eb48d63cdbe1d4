"""Aligned tables and colours for terminals. Cells arrive escaped (``names``); widths count screen columns."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_CODES: Final[Mapping[str, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}

MAX_CELL: Final = 120
"""Widest cell on a terminal; a longer one is cut with an ellipsis, because the JSON has it whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How text may look.

    Attributes:
        colour: Whether ANSI colours are written; the caller knows about terminals and ``NO_COLOR``.
        width: Columns of the terminal, 0 = never fold.
    """

    colour: bool = False
    width: int = 0

    def paint(self, text: str, *names: str) -> str:
        """The text in these colours, or as it is."""
        if not self.colour or not names or not text:
            return text
        codes = ";".join(_CODES[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: its text, its colours, and whether it stands at the right edge."""

    text: str
    colours: tuple[str, ...] = ()
    right: bool = False


def columns_of(text: str) -> int:
    """Screen columns that a text takes: wide East Asian characters two, combining marks none."""
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
    style: Style = Style(),
    indent: str = "",
) -> list[str]:
    """Lines of an aligned table with two spaces between columns and none at the end of a line."""
    made = [[cell if isinstance(cell, Cell) else Cell(text=cell) for cell in row] for row in rows]
    if heads:
        made.insert(0, [Cell(text=head, colours=("bold",)) for head in heads])
    made = [[_cut(cell) for cell in row] for row in made]
    widths = [
        max(columns_of(row[at].text) for row in made if at < len(row))
        for at in range(max((len(row) for row in made), default=0))
    ]
    rights = [any(row[at].right for row in made if at < len(row)) for at in range(len(widths))]
    return [(indent + _line(row, widths, rights, style)).rstrip() for row in made]


def _line(row: Sequence[Cell], widths: Sequence[int], rights: Sequence[bool], style: Style) -> str:
    cells: list[str] = []
    for cell, width, right in zip(row, widths, rights, strict=False):
        space = " " * (width - columns_of(cell.text))
        text = style.paint(cell.text, *cell.colours)
        cells.append(space + text if right else text + space)
    return "  ".join(cells)


def _cut(cell: Cell) -> Cell:
    if columns_of(cell.text) <= MAX_CELL:
        return cell
    kept, used = "", 0
    for character in cell.text:
        used += columns_of(character)
        if used > MAX_CELL - 1:
            break
        kept += character
    return Cell(text=kept + "…", colours=cell.colours, right=cell.right)
