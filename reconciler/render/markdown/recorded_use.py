"""The effect of a plan by recorded use, as lines of a comment."""

from collections.abc import Sequence
from typing import Final

from reconciler.base.escaping import prose
from reconciler.render.markdown.comment import fitting, size
from reconciler.render.recorded_use import (
    SAYS,
    TITLE,
    USE_TABLE,
    RecordedUse,
    left_out_sentences,
    refused_title,
)
from reconciler.render.table import markdown_heads, markdown_rows
from reconciler.render.units import count

OPEN_ROWS: Final = 10
"""Tables with more rows are folded in a comment."""


def recorded_markdown(recorded: RecordedUse, *, room: int) -> list[str]:
    """Return lines of a comment, of at most ``room`` characters: refusals, then the tenants, worst first."""
    lines: list[str] = []
    if recorded.refusals:
        lines += ["", f"**{refused_title(len(recorded.refusals))}**", ""]
        lines += [f"- {prose(refusal.message)}" for refusal in recorded.refusals]
    lines += ["", f"**{TITLE}**: {prose(recorded.headline)}"]
    lines += ["", *(f"<sub>{prose(sentence)}</sub>" for sentence in recorded.evidence)]
    lines = _cut(lines, room // 2)
    tail = [f"- {prose(note)}" for note in (*recorded.notes, *left_out_sentences(recorded, ""))]
    tail = _cut(["", *tail], room // 4) if tail else []
    section = USE_TABLE.of(recorded.rows)
    rows = markdown_rows(section)
    folded = len(rows) > OPEN_ROWS
    opening = (
        ["", f"<details><summary>{count(len(rows), 'client')}: {SAYS}</summary>"]
        if folded
        else ["", SAYS]
    )
    opening += ["", *markdown_heads(section)]
    closing = ["", "</details>"] if folded else []
    used = size([*lines, *tail, *opening, *closing])
    fitting_rows = fitting(rows, room - used - 100)
    if fitting_rows:
        lines += [*opening, *fitting_rows, *closing]
    if len(fitting_rows) < len(rows):
        lines += [
            "",
            f"… and {count(len(rows) - len(fitting_rows), 'client')} more; the JSON plan has them.",
        ]
    return [*lines, *tail]


def _cut(lines: Sequence[str], room: int) -> list[str]:
    """Return the lines that fit, and the number of omitted ones."""
    if size(lines) <= room:
        return list(lines)
    visible_lines = fitting(lines, room - 60)
    missing = count(len(lines) - len(visible_lines), "line")
    return [*visible_lines, f"- … and {missing} more; the JSON plan has them."]
