"""What recorded use says to a plan, as plain sentences and rows; how a terminal, Markdown and a page show them.

Nothing here knows where they come from (``whatif_words``), so a plan without evidence loads none of the models of use.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.render.documents import Json
from reconciler.render.html_ledger import Ledger
from reconciler.render.names import escaped, markdown, prose
from reconciler.render.table import Cell, Style, folded_lines, row_lines
from reconciler.render.units import count

TITLE: Final = "What recorded use says"
SAYS: Final = (
    "Each on its worst broker, per day of evidence; a limit holds on every broker by itself."
)

OPEN_ROWS: Final = 10
"""Tables with more rows are folded in a comment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseRow:
    """One tenant.

    Attributes:
        who: The bucket; names are quoted, not escaped for any format.
        what: What is limited.
        before: The limit of today.
        after: The limit to come.
        says: What happens, one sentence or two.
        where: The worst broker, and on how many.
        mark: ``!`` = it gets worse, ``?`` = cannot be told, "" = nothing to look at.
    """

    who: str
    what: str
    before: str
    after: str
    says: str
    where: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A figure that the policy does not tolerate, and the pair that it comes from; no entity = nobody's limit."""

    entity: Entity | None
    key: Key
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The whole section.

    Attributes:
        headline: One sentence for all of it.
        evidence: What it rests on: one sentence per cluster.
        rows: Tenants, worst first.
        left_out: How many rows of brokers are only counted.
        refusals: What the policy refuses.
        notes: What has to be known beside it.
    """

    headline: str
    evidence: tuple[str, ...]
    rows: tuple[UseRow, ...]
    left_out: int
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]


def refused_title(amount: int) -> str:
    """The heading of what the policy refuses."""
    return f"Refused for what recorded use says ({amount:,})"


def recorded_text(found: Recorded, *, style: Style, most: int | None) -> list[str]:
    """Lines for a terminal.

    Args:
        found: The section.
        style: Colours and width.
        most: So many tenants; ``None`` = all.
    """
    lines = ["", style.paint(TITLE, "bold", "cyan"), escaped(found.headline)]
    lines += [style.paint(escaped(one), "dim") for one in found.evidence]
    shown = found.rows[:most]
    rows: list[list[Cell | str]] = [
        [
            Cell(text=one.mark, colours=(_COLOURS.get(one.mark, "dim"),)),
            escaped(one.who),
            one.what,
            Cell(text=one.before, right=True),
            Cell(text="->", colours=("dim",), joined=True),
            Cell(text=one.after, right=True, joined=True),
            Cell(text=escaped(one.where), colours=("dim",)),
        ]
        for one in shown
    ]
    # The sentence is what people look for, so it has a line of its own.
    made = row_lines(rows, style=style, indent="  ")
    for line, one in zip(made, shown, strict=True):
        lines += [*line, f"       {escaped(one.says)}"]
    lines += [f"  and {count(len(found.rows) - len(shown), 'client')} more (--verbose shows all)"] if len(shown) < len(found.rows) else []  # fmt: skip
    lines += _left_out(found, "  ")
    lines += [f"  {escaped(one)}" for one in found.notes]
    if found.refusals:
        lines += ["", style.paint(refused_title(len(found.refusals)), "bold", "red")]
        lines += [f"  {escaped(one.says)}" for one in found.refusals]
    return folded_lines(lines, style)


_COLOURS: Final = {"!": "red", "?": "yellow"}


def _left_out(found: Recorded, indent: str) -> list[str]:
    if not found.left_out:
        return []
    return [f"{indent}and {count(found.left_out, 'row')} of brokers, only counted"]


def recorded_markdown(found: Recorded, *, room: int) -> list[str]:
    """Lines of a comment, of at most ``room`` characters: what is refused, then the tenants, worst first."""
    lines: list[str] = []
    if found.refusals:
        lines += ["", f"**{refused_title(len(found.refusals))}**", ""]
        lines += [f"- {prose(one.says)}" for one in found.refusals]
    lines += ["", f"**{TITLE}**: {prose(found.headline)}"]
    lines += ["", *(f"<sub>{prose(one)}</sub>" for one in found.evidence)]
    lines = _cut(lines, room // 2)
    tail = [f"- {prose(one)}" for one in (*found.notes, *_left_out(found, ""))]
    tail = _cut(["", *tail], room // 4) if tail else []
    rows = [_row(one) for one in found.rows]
    folded = len(rows) > OPEN_ROWS
    opening = ["", f"<details><summary>{count(len(rows), 'client')}: {SAYS}</summary>"] if folded else ["", SAYS]  # fmt: skip
    opening += [
        "",
        "| | who | what | limit now | will be | recorded use | broker |",
        "|-|-|-|-:|-:|-|-|",
    ]
    closing = ["", "</details>"] if folded else []
    left = room - _size(lines) - _size(tail) - _size(opening) - _size(closing) - 100
    kept: list[str] = []
    for row in rows:
        left -= len(row) + 1
        if left < 0:
            break
        kept.append(row)
    if kept:
        lines += [*opening, *kept, *closing]
    if len(kept) < len(rows):
        lines += [
            "",
            f"… and {count(len(rows) - len(kept), 'client')} more; the JSON plan has them.",
        ]
    return [*lines, *tail]


def _row(one: UseRow) -> str:
    return (
        f"| {prose(one.mark)} | {markdown(one.who)} | {prose(one.what)} | {prose(one.before)} | {prose(one.after)} |"
        f" {prose(one.says)} | {prose(one.where)} |"
    )


def _cut(lines: Sequence[str], room: int) -> list[str]:
    """The lines that fit, and how many do not."""
    if _size(lines) <= room:
        return list(lines)
    kept: list[str] = []
    left = room - 60
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    return [*kept, f"- … and {count(len(lines) - len(kept), 'line')} more; the JSON plan has them."]


def _size(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def recorded_facts(found: Recorded, ledger: Ledger) -> dict[str, Json]:
    """What a page shows. A row: who, what, limit now, then, what happens, where, mark; all of them words."""
    word = ledger.word
    return {
        "headline": word(found.headline),
        "says": word(SAYS),
        "evidence": [word(one) for one in found.evidence],
        "rows": [
            [
                word(cell)
                for cell in (
                    one.who,
                    one.what,
                    one.before,
                    one.after,
                    one.says,
                    one.where,
                    one.mark,
                )
            ]
            for one in found.rows
        ],
        "refusals": [word(one.says) for one in found.refusals],
        "notes": [word(one) for one in (*found.notes, *_left_out(found, ""))],
    }
