"""Plans and outcomes for a terminal: aligned tables, optional colour, every name on one line."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from reconciler.base.escaping import escaped
from reconciler.quota.entity_forms import entity_text
from reconciler.quota.results.report import Outcome, Preview
from reconciler.render.cause_text import SectionKind, status_word
from reconciler.render.impact_rows import (
    AFFECTED_SAYS,
    AFFECTED_TITLE,
    EXCLUSIVE_SAYS,
    EXCLUSIVE_TITLE,
    NEVER_SAYS,
    NEVER_TITLE,
    affected_rows,
    impact_lines,
    never_rows,
    unlisted_clients,
)
from reconciler.render.recorded_use import RecordedUse, recorded_text
from reconciler.render.rows import (
    DisplayRow,
    change_rows,
    finding_sections,
    headline,
    outcome_rows,
    summary,
)
from reconciler.render.table import Cell, Style, fold_lines, table
from reconciler.render.units import PER_BROKER, count

SHOWN_UNMANAGED: Final = 10
"""Maximum number of listed unmanaged pairs, which belong to others; more are counted."""

SHOWN: Final = 100
"""Maximum number of lines of a list that only needs approval; counts are always complete."""

SHOWN_AFFECTED: Final = 20
"""Maximum number of clients and hidden rules: they follow from the changes, so fewer of them are shown."""

SHOWN_TROUBLE: Final = 1_000
"""Maximum number of listed problems, which people read and search line by line."""

PLAIN: Final = Style()


def plan_text(
    preview: Preview,
    *,
    style: Style = PLAIN,
    verbose: bool = False,
    recorded: RecordedUse | None = None,
) -> str:
    """Return a plan.

    Args:
        recorded: The effect by recorded use; ``None`` = not requested.
    """
    lines = [style.paint(escaped(headline(preview)), "bold"), summary(preview)]
    max_rows = None if verbose else SHOWN
    exclusive = len(preview.plan.exclusive)
    rows = change_rows(preview, max_rows=max_rows, exclusive=False)
    if rows:
        lines += ["", *_rows(rows, style)]
        lines += _more(len(preview.plan.changes) - exclusive - len(rows))
    removed = change_rows(preview, max_rows=max_rows, exclusive=True)
    lines += _block(EXCLUSIVE_TITLE, EXCLUSIVE_SAYS, removed, exclusive, style, "red")
    if rows or removed:
        lines += ["", style.paint(PER_BROKER, "dim")]
    lines += _paragraph(impact_lines(preview))
    lines += _meaning(preview, style, max_rows=None if verbose else SHOWN_AFFECTED)
    if recorded is not None:
        lines += recorded_text(recorded, style=style, max_rows=None if verbose else SHOWN_AFFECTED)
    for section in finding_sections(preview, max_rows_of=None if verbose else _row_limit):
        heading = f"{section.kind.title} ({section.total})"
        lines += ["", style.paint(heading, "bold", section.kind.colour)]
        lines += [section.kind.description, *_rows(section.rows, style), *_more(section.left_out)]
    max_rows = None if verbose else SHOWN_TROUBLE
    lines += _conflicts(preview, style, max_rows)
    lines += _refusals(preview, style, max_rows)
    lines += _violations(preview, style, max_rows)
    if preview.warnings or preview.advice:
        lines += ["", style.paint("Warnings", "bold", "yellow")]
        lines += [f"  {escaped(warning)}" for warning in preview.warnings]
        lines += [
            f"  {escaped(warning.place)}: {escaped(warning.message)}"
            for warning in preview.open_advice[:max_rows]
        ]
        lines += _more(len(preview.open_advice) - len(preview.open_advice[:max_rows]))
        accepted = len(preview.advice) - len(preview.open_advice)
        lines += [f"  {count(accepted, 'accepted warning')}"] if accepted else []
    return "\n".join(fold_lines(lines, style)) + "\n"


def outcome_text(outcome: Outcome, *, style: Style = PLAIN, verbose: bool = False) -> str:
    """Return an outcome with the result of each change; unless ``verbose``, long lists are cut, applied changes first."""
    done_count = len(outcome.pairs) - len(outcome.troubled)
    lines: list[str] = []
    if outcome.pairs or not outcome.bookkeeping:
        lines.append(
            style.paint(
                f"{done_count:,} of {count(len(outcome.pairs), 'change')} applied and shown by the brokers"
                if outcome.pairs
                else "Nothing to do.",
                "bold",
                "green" if outcome.complete else "red",
            )
        )
    if outcome.adopted:
        lines.append(f"{count(outcome.adopted, 'limit')} already live as declared: now managed.")
    if outcome.bookkeeping > outcome.adopted:
        updated_count = outcome.bookkeeping - outcome.adopted
        lines.append(f"{count(updated_count, 'record')} brought up to date.")
    max_rows = len(outcome.pairs) if verbose else max(SHOWN, len(outcome.troubled[:SHOWN_TROUBLE]))
    rows, left_out = outcome_rows(outcome, max_rows=max_rows)
    lines += [*_rows(rows, style), *_more(left_out)]
    lines += _brokers(outcome)
    if outcome.failure:
        lines.append(style.paint(escaped(outcome.failure), "red"))
    if outcome.interrupted:
        lines.append(
            "Interrupted after every change was applied."
            if outcome.is_applied
            else "Interrupted; run it again to continue."
        )
    if not outcome.recorded:
        lines.append("Not all results were recorded; the next run reads them from the cluster.")
    if outcome.pairs and not outcome.complete:
        lines.append(_summary(outcome))
    return "\n".join(fold_lines(lines, style)) + "\n"


def _summary(outcome: Outcome) -> str:
    return ", ".join(
        f"{outcome.count(word):,} {status_word(word).lower()}"
        for word in ("APPLIED", "REJECTED", "UNKNOWN", "HELD", "NOT SENT")
    )


def _brokers(outcome: Outcome) -> list[str]:
    visibility = outcome.visibility
    if visibility is None:
        return []
    lines = [f"Shown by {count(len(visibility.visible), 'broker')}."]
    if visibility.lagging:
        lines.append("Not yet shown by brokers " + ", ".join(map(str, visibility.lagging)) + ".")
    lines += [
        f"Broker {node} could not be queried: {escaped(reason)}"
        for node, reason in sorted(visibility.unreachable.items())
    ]
    return lines


def _rows(rows: Sequence[DisplayRow], style: Style) -> list[str]:
    cells: list[list[Cell | str]] = [
        [
            Cell(text=row.mark, colours=(row.colour,)),
            row.entity,
            row.key,
            Cell(text=row.before, right=True),
            Cell(
                text="->" if row.has_arrow and (row.before or row.after) else "",
                colours=("dim",),
                joined=True,
            ),
            Cell(text=row.after, right=True, joined=True),
            row.meaning,
            row.reason,
            Cell(text=escaped(row.place), colours=("dim",)),
            escaped(row.note),
        ]
        for row in rows
    ]
    used = [at for at in range(10) if any(_text(row[at]) for row in cells)]
    return table([[row[at] for at in used] for row in cells], style=style, indent="  ")


def _text(cell: Cell | str) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _block(  # noqa: PLR0917 - what a heading is made of
    title: str, description: str, rows: Sequence[DisplayRow], total: int, style: Style, colour: str
) -> list[str]:
    if not rows:
        return []
    heading = style.paint(f"{title} ({total:,})", "bold", colour)
    return ["", heading, description, *_rows(rows, style), *_more(total - len(rows))]


def _meaning(preview: Preview, style: Style, *, max_rows: int | None) -> list[str]:
    """Return rows of affected clients, and of limits that can no longer apply."""
    impact = preview.impact
    if impact is None:
        return []
    affected = affected_rows(preview, max_rows=max_rows)
    never = never_rows(preview, max_rows=max_rows)
    total = len(unlisted_clients(preview))
    return [
        *_block(AFFECTED_TITLE, AFFECTED_SAYS, affected, total, style, "cyan"),
        *_block(NEVER_TITLE, NEVER_SAYS, never, len(impact.new_shadows), style, "yellow"),
    ]


def _paragraph(sentences: Sequence[str]) -> list[str]:
    return ["", *sentences] if sentences else []


def _row_limit(kind: SectionKind) -> int:
    return SHOWN_UNMANAGED if kind.name == "unmanaged" else SHOWN


def _more(left_out: int) -> list[str]:
    if not left_out:
        return []
    return [f"  and {left_out:,} more (--verbose shows all; --format json and --out have all)"]


def _conflicts(preview: Preview, style: Style, max_rows: int | None) -> list[str]:
    conflicts = preview.plan.conflicts
    lines: list[str] = []
    for conflict in conflicts[:max_rows]:
        lines.append(f"  {entity_text(conflict.entity)} {conflict.key} is declared by")
        lines += [
            f"    {escaped(claim.place(conflict.key))} ({escaped(claim.document)})"
            for claim in conflict.claims
        ]
    heading = f"Conflicts ({len(conflicts)}): nothing can be applied"
    return _problems(heading, lines, len(conflicts) - len(conflicts[:max_rows]), style)


def _refusals(preview: Preview, style: Style, max_rows: int | None) -> list[str]:
    rejections = preview.verdict.rejections
    lines = sorted(
        f"  {entity_text(subject)}: {escaped(f'{rejected.name}: {rejected.message}')}"
        for subject, rejected in islice(rejections.items(), max_rows)
    )
    heading = f"The broker would refuse ({len(rejections)})"
    return _problems(heading, lines, len(rejections) - len(lines), style)


def _violations(preview: Preview, style: Style, max_rows: int | None) -> list[str]:
    lines: list[str] = []
    for violation in preview.violations[:max_rows]:
        location = f"{escaped(violation.place)}: " if violation.place else ""
        subject = f"{entity_text(violation.entity)}: " if violation.entity is not None else ""
        lines.append(f"  {location}{subject}{escaped(violation.message)} [{violation.allow_with}]")
    heading = f"Refused by guards ({len(preview.violations)}): nothing would be applied"
    return _problems(heading, lines, len(preview.violations) - len(lines), style)


def _problems(heading: str, lines: Sequence[str], left_out: int, style: Style) -> list[str]:
    return ["", style.paint(heading, "bold", "red"), *lines, *_more(left_out)] if lines else []
