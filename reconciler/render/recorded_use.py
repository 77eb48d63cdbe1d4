"""The effect of a plan by recorded use, as sentences and rows, and their display in a terminal, Markdown and a page.

Independent of their source, so that a plan without evidence loads none of the models of use.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from reconciler.base.escaping import escaped
from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.render.sections import TableForm, name, number, state, text
from reconciler.render.table import Cell, Style, fold_lines, row_lines
from reconciler.render.units import count

TITLE: Final = "Effect by recorded use"
SAYS: Final = "For each client its worst broker, per day of evidence; a limit applies on each broker separately."


class UseRow(Struct, frozen=True, kw_only=True, gc=False):
    """One tenant."""

    bucket: str  # the bucket; names are quoted, not escaped for any format
    limit_name: str
    before: str
    after: str
    description: str
    broker: str  # the worst broker, and the number of affected ones
    mark: str  # `!` = worse, `?` = unknown, "" = nothing to check


class ToleranceViolation(Struct, frozen=True, kw_only=True, gc=False):
    """A value that violates the policy's tolerance, and its pair; no entity = no limit."""

    entity: Entity | None
    key: Key
    message: str


class RecordedUse(Struct, frozen=True, kw_only=True, gc=False):
    """The whole section."""

    headline: str
    evidence: tuple[str, ...]  # its basis: one sentence per cluster
    rows: tuple[UseRow, ...]  # tenants, worst first
    left_out: int  # number of rows of brokers that are only counted
    refusals: tuple[ToleranceViolation, ...]
    notes: tuple[str, ...]


_MARKS: Final[Mapping[str, str]] = {"!": "worse", "?": "not known", "": ""}
USE_TABLE: Final[TableForm[UseRow]] = TableForm(
    "recorded-use",
    TITLE,
    SAYS,
    (
        name("Who", lambda row: row.bucket),
        text("What", lambda row: row.limit_name),
        number("Now", lambda row: row.before),
        number("Then", lambda row: row.after),
        state("Verdict", lambda row: _MARKS[row.mark]),
        text("Recorded use", lambda row: row.description),
        text("Worst broker", lambda row: row.broker),
    ),
)
"""One row for each client."""


def refused_title(amount: int) -> str:
    """Return the heading of what the policy refuses."""
    return f"Refused by the recorded-use policy ({amount:,})"


def recorded_text(recorded: RecordedUse, *, style: Style, max_rows: int | None) -> list[str]:
    """Return lines for a terminal.

    Args:
        max_rows: Maximum number of tenants; ``None`` = all.
    """
    lines = ["", style.paint(TITLE, "bold", "cyan"), escaped(recorded.headline)]
    lines += [style.paint(escaped(sentence), "dim") for sentence in recorded.evidence]
    visible_rows = recorded.rows[:max_rows]
    rows: list[list[Cell | str]] = [
        [
            Cell(text=visible_row.mark, colours=(_COLOURS.get(visible_row.mark, "dim"),)),
            escaped(visible_row.bucket),
            visible_row.limit_name,
            Cell(text=visible_row.before, right=True),
            Cell(text="->", colours=("dim",), joined=True),
            Cell(text=visible_row.after, right=True, joined=True),
            Cell(text=escaped(visible_row.broker), colours=("dim",)),
        ]
        for visible_row in visible_rows
    ]
    # The sentence has a separate line, because it is the most important part.
    table_lines = row_lines(rows, style=style, indent="  ")
    for line, use_row in zip(table_lines, visible_rows, strict=True):
        lines += [*line, f"       {escaped(use_row.description)}"]
    lines += (
        [
            f"  and {count(len(recorded.rows) - len(visible_rows), 'client')} more (--verbose shows all)"
        ]
        if len(visible_rows) < len(recorded.rows)
        else []
    )
    lines += left_out_sentences(recorded, "  ")
    lines += [f"  {escaped(note)}" for note in recorded.notes]
    if recorded.refusals:
        lines += ["", style.paint(refused_title(len(recorded.refusals)), "bold", "red")]
        lines += [f"  {escaped(refusal.message)}" for refusal in recorded.refusals]
    return fold_lines(lines, style)


_COLOURS: Final = {"!": "red", "?": "yellow"}


def left_out_sentences(recorded: RecordedUse, indent: str) -> list[str]:
    """Return the number of rows that are not listed, if any."""
    if not recorded.left_out:
        return []
    return [f"{indent}{count(recorded.left_out, 'row')} of other brokers not listed"]
