"""Plans and outcomes for a terminal: aligned tables, optional colour, every name on one line."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from reconciler.base.escaping import escaped
from reconciler.quota.planner.plan import Finding
from reconciler.quota.results.report import ExpiredOverride, Outcome, Preview
from reconciler.render.budget_rows import budget_lines
from reconciler.render.cause_text import DRIFT, SectionKind, status_word
from reconciler.render.impact_rows import impact_lines, impact_sections
from reconciler.render.plan_summary import (
    ProblemGroup,
    headline,
    problem_groups,
    summary,
)
from reconciler.render.recorded_use import RecordedUse, recorded_text
from reconciler.render.rows import (
    change_sections,
    expired_section,
    finding_section,
    finding_sections,
    outcome_rows,
)
from reconciler.render.sections import DisplayRow, RowSection
from reconciler.render.table import Cell, Style, fold_lines, table
from reconciler.render.units import PER_BROKER, age, count

SHOWN_UNMANAGED: Final = 10
"""Maximum number of listed unmanaged pairs, which belong to others; more are counted."""

SHOWN: Final = 100
"""Maximum number of lines of a list that only needs approval; counts are always complete."""

SHOWN_AFFECTED: Final = 20
"""Maximum number of clients and limits that never apply: they follow from the changes, so fewer of them are shown."""

SHOWN_WARNINGS: Final = 20
"""Maximum number of listed warnings: most are about documents that a plan does not change, and each plan repeats them."""

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
    changes, pending = change_sections(preview, max_rows=None if verbose else SHOWN)
    if changes.rows:
        lines += ["", *_rows(changes.rows, style), *_more(changes.left_out)]
    lines += _block(pending, style)
    if changes.rows or pending.rows:
        lines += ["", style.paint(PER_BROKER, "dim")]
    if effects := impact_lines(preview):
        lines += ["", *effects]
    for section in impact_sections(preview, max_rows=None if verbose else SHOWN_AFFECTED):
        lines += _block(section, style)
    if preview.budgets:
        lines += ["", style.paint("Budgets", "bold", "cyan"), *map(escaped, budget_lines(preview))]
    if recorded is not None:
        lines += recorded_text(recorded, style=style, max_rows=None if verbose else SHOWN_AFFECTED)
    for section in finding_sections(preview, max_rows_of=None if verbose else _row_limit):
        lines += _block(section, style)
    for group in problem_groups(preview):
        lines += _problems(group, style, verbose=verbose)
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


def drift_text(
    findings: Sequence[Finding],
    expired_overrides: Sequence[ExpiredOverride] = (),
    *,
    now: float,
    is_known: bool = True,
    style: Style = PLAIN,
    verbose: bool = False,
) -> str:
    """Return drift and expired overrides, each with its age; ``verbose`` shows long lists in full.

    Args:
        is_known: Whether there are ownership records to compare with.
    """
    max_rows = None if verbose else SHOWN_TROUBLE
    # Without claims, rows name the documents, which are what drift is attributed to.
    open_findings = [replace(finding, claim=None) for finding in findings if not finding.ignored]
    lines: list[str] = []
    for section in (
        finding_section(
            DRIFT,
            open_findings,
            since=lambda since: f"first seen {age(now - since)} ago",
            max_rows=max_rows,
        ),
        expired_section(
            expired_overrides,
            ended=lambda end: f"ended {age(now - end)} ago",
            max_rows=max_rows,
        ),
    ):
        lines += _block(section, style)
    lines = lines[1:] or ["No drift." if is_known else "Drift is unknown."]
    if ignored_count := len(findings) - len(open_findings):
        lines.append(f"{count(ignored_count, 'difference')} covered by an ignore rule.")
    return "\n".join(fold_lines(lines, style)) + "\n"


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


def _block(section: RowSection, style: Style) -> list[str]:
    if not section.rows:
        return []
    heading = style.paint(f"{section.title} ({section.total:,})", "bold", section.colour)
    return ["", heading, section.note, *_rows(section.rows, style), *_more(section.left_out)]


def _row_limit(kind: SectionKind) -> int:
    return SHOWN_UNMANAGED if kind.name == "unmanaged" else SHOWN


def _more(left_out: int) -> list[str]:
    if not left_out:
        return []
    return [f"  and {left_out:,} more (--verbose and --format json show all)"]


def _problems(group: ProblemGroup, style: Style, *, verbose: bool) -> list[str]:
    if not group.lines:
        return []
    if group.name == "warnings":
        heading, most = style.paint(group.title, "bold", "yellow"), SHOWN_WARNINGS
    else:
        title = ": ".join(filter(None, (f"{group.title} ({len(group.lines)})", group.effect)))
        heading, most = style.paint(title, "bold", "red"), SHOWN_TROUBLE
    shown_lines = group.lines if verbose else group.lines[:most]
    lines = ["", heading]
    for line in shown_lines:
        lines += [f"  {escaped(line.text)}", *(f"    {escaped(below)}" for below in line.below)]
    return lines + _more(len(group.lines) - len(shown_lines))
