"""What people read, in one form for every output: sections with a title, notes and a table of plain cells.

Names in cells are quoted, but not escaped for any format: that is the task of the writers.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

R = TypeVar("R")


class CellKind(Enum):
    """What the cells of a column are, which decides how they are shown."""

    TEXT = auto()  # words of this program
    NAME = auto()  # names from outside
    NUMBER = auto()  # aligned at the right
    STATE = auto()  # a short judgement, which may have a colour


class CellText(NamedTuple):
    """A cell of more than one text."""

    text: str
    below: tuple[str, ...] = ()  # further lines


class SectionColumn(NamedTuple, Generic[R]):
    """A column: its heading, the function of its cells, and its kind."""

    head: str
    cell: Callable[[R], CellText | str]
    kind: CellKind


def text(head: str, cell: Callable[[R], CellText | str]) -> SectionColumn[R]:
    """Return a column of texts of this program."""
    return SectionColumn(head, cell, CellKind.TEXT)


def name(head: str, cell: Callable[[R], CellText | str]) -> SectionColumn[R]:
    """Return a column of names from outside."""
    return SectionColumn(head, cell, CellKind.NAME)


def number(head: str, cell: Callable[[R], CellText | str]) -> SectionColumn[R]:
    """Return a column of numbers."""
    return SectionColumn(head, cell, CellKind.NUMBER)


def state(head: str, cell: Callable[[R], CellText | str]) -> SectionColumn[R]:
    """Return a column of judgements."""
    return SectionColumn(head, cell, CellKind.STATE)


class Section(Struct, frozen=True, kw_only=True, gc=False):
    """A title, notes, and a table, which has no columns if the notes say all."""

    name: str  # also an anchor
    title: str
    notes: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    kinds: tuple[CellKind, ...] = ()
    rows: tuple[tuple[CellText, ...], ...] = ()
    left_out: int = 0  # number of rows that are counted and not shown

    @property
    def total(self) -> int:
        """The number of rows, shown or not."""
        return len(self.rows) + self.left_out


class TableForm(Struct, Generic[R], frozen=True, gc=False):
    """The columns and texts of a kind of section."""

    name: str
    title: str
    note: str
    columns: Sequence[SectionColumn[R]]

    def of(
        self,
        rows: Sequence[R],
        left_out: int = 0,
        *,
        most: int | None = None,
        notes: Sequence[str] = (),
    ) -> Section:
        """Return the section of these rows.

        Args:
            left_out: Number of rows that are not among them.
            most: Maximum number of rows.
            notes: More notes.
        """
        return Section(
            name=self.name,
            title=self.title,
            notes=(*filter(None, (self.note,)), *notes),
            heads=tuple(column.head for column in self.columns),
            kinds=tuple(column.kind for column in self.columns),
            rows=tuple(
                tuple(_cell(column.cell(row)) for column in self.columns) for row in rows[:most]
            ),
            left_out=left_out + len(rows) - len(rows[:most]),
        )


def _cell(cell: CellText | str) -> CellText:
    return cell if isinstance(cell, CellText) else CellText(cell)


class DisplayRow(Struct, frozen=True, kw_only=True, gc=False):
    """One line about one pair."""

    mark: str  # one character: the action
    colour: str
    entity: str
    key: str
    before: str  # the live value; for drift, the expected one
    # The new value; for drift, the live one; for other findings, the declared or applied one, as text.
    after: str
    meaning: str = ""  # the effect on clients, or since when
    has_arrow: bool = True  # whether `before` became or becomes `after`
    reason: str = ""
    place: str = ""  # `path:line` or the document
    note: str = ""
    cause: str = ""  # why, for those who have room for a sentence


class RowSection(Struct, frozen=True, kw_only=True, gc=False):
    """Rows under a heading, with a sentence that explains them."""

    name: str
    title: str
    note: str
    rows: tuple[DisplayRow, ...]
    left_out: int = 0  # number of findings without a row
    colour: str = "cyan"
    heads: tuple[str, str, str] = ("Now", "Then", "Effect")  # of values and meaning

    @property
    def total(self) -> int:
        """The number of findings of the section, shown or not."""
        return len(self.rows) + self.left_out

    @property
    def section(self) -> Section:
        """The rows with headings; columns without a text are left out."""
        columns: list[SectionColumn[DisplayRow]] = [
            name("Client and key", lambda row: CellText(row.entity, (row.key,))),
            number(self.heads[0], lambda row: row.before),
            number(self.heads[1], lambda row: row.after),
            state(self.heads[2], lambda row: row.meaning),
            text("Why", lambda row: CellText(row.cause, (row.reason, row.note))),
            text("Where", lambda row: row.place),
        ]
        used = [column for column in columns if any(any(_texts(column, row)) for row in self.rows)]
        form = TableForm(self.name, self.title, self.note, used)
        return form.of(self.rows, self.left_out)


def _texts(column: SectionColumn[DisplayRow], row: DisplayRow) -> tuple[str, ...]:
    cell = column.cell(row)
    return (cell,) if isinstance(cell, str) else (cell.text, *cell.below)
