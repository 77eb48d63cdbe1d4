"""A report of use for terminals and for Markdown, both from the same sheets; and the one sentence that stands first."""

from collections.abc import Sequence
from typing import Final

from reconciler.render.names import escaped, markdown, prose
from reconciler.render.table import Cell, Style, table
from reconciler.render.units import count
from reconciler.render.use_sheets import Sheet, sheets
from reconciler.usage.findings import Simulation
from reconciler.usage.reports import UsageReport
from reconciler.usage.verdict import Verdict

PLAIN = Style()

_HELD_BACK: Final = "may get worse (what was recorded was held back)"


def headline(report: UsageReport) -> str:
    """The one sentence for a report: what was found, or why nothing can be said."""
    stale = [one for one in report.evidence if one.stale]
    if report.evidence and len(stale) == len(report.evidence):
        return f"no evidence counts: {stale[0].stale}"
    if report.simulation is not None:
        taken = "the newest simulation in the lake: " if report.origins else ""
        return taken + _simulated(report.simulation)
    told = [
        count(len(rows) + report.left_out.get(name, 0), *nouns)
        for rows, name, nouns in (
            (report.recommendations, "recommendation", ("recommendation",)),
            (report.usage, "usage_row", ("bucket in use", "buckets in use")),
            (report.capacity, "capacity_row", ("budget of a broker", "budgets of brokers")),
            (report.noisy, "noisy_row", ("excess over a fair share", "excesses over a fair share")),
        )
        if rows
    ]
    return ", ".join(told) or "nothing was recorded"


def _simulated(found: Simulation) -> str:
    """All rows are counted, shown or not."""
    if not found.verdicts:
        return "no limit that recorded use can speak of changes"
    amounts = found.verdicts
    words = [
        (amounts.get(Verdict.WORSE, 0), "gets worse", "get worse"),
        (amounts.get(Verdict.BETTER, 0), "gets better", "get better"),
        (found.may_be_worse, _HELD_BACK, _HELD_BACK),
        (amounts.get(Verdict.NOT_IDENTIFIABLE, 0), "cannot be told", "cannot be told"),
        (amounts.get(Verdict.NO_DATA, 0), "has no data", "have no data"),
    ]
    told = [f"{amount:,} {one if amount == 1 else many}" for amount, one, many in words if amount]
    refused = (
        f"; the policy refuses {count(len(found.breaches), 'figure')}" if found.breaches else ""
    )
    rows = count(len(found.rows) + found.left_out, "bucket on a broker", "buckets on brokers")
    return f"{rows}: {', '.join(told) or 'nothing changes for anybody'}{refused}"


def report_text(report: UsageReport, *, style: Style = PLAIN) -> str:
    """The report for a terminal; ends with a line break."""
    return sheets_text(headline(report), report.notes, sheets(report), style=style)


def sheets_text(
    head: str, notes: Sequence[str], parts: Sequence[Sheet], *, style: Style = PLAIN
) -> str:
    """Any sheets for a terminal, under one sentence and notes; ends with a line break."""
    lines = [style.paint(escaped(head), "bold")]
    lines += [f"note: {escaped(one)}" for one in notes]
    for sheet in parts:
        lines += ["", style.paint(sheet.title, "bold"), sheet.says, *_rows(sheet, style)]
        if sheet.more:
            lines.append(f"  {sheet.more}")
    return "\n".join(lines) + "\n"


def _rows(sheet: Sheet, style: Style) -> list[str]:
    rows = [
        [Cell(text=escaped(cell), right=at in sheet.numbers) for at, cell in enumerate(row)]
        for row in sheet.rows
    ]
    return table(rows, heads=sheet.heads, style=style, indent="  ")


def report_markdown(report: UsageReport, *, most: int | None = None) -> str:
    """The report as Markdown; of each table at most ``most`` rows (``None`` = all that it holds), and how many there are more."""
    return sheets_markdown(headline(report), report.notes, sheets(report), most=most)


def sheets_markdown(
    head: str, notes: Sequence[str], shown: Sequence[Sheet], *, most: int | None = None
) -> str:
    """Any sheets as Markdown, under one sentence and notes."""
    parts = [f"**{prose(head)}**", *(f"> {prose(one)}" for one in notes)]
    for sheet in shown:
        parts += [f"### {sheet.title}", sheet.says, _markdown_table(sheet, most)]
        left = sheet.left_out + len(sheet.rows) - len(sheet.rows[:most])
        if left:
            parts.append(f"… and {count(left, 'more row')}")
    return "\n\n".join(parts) + "\n"


def _markdown_table(sheet: Sheet, most: int | None) -> str:
    ways = ["---:" if at in sheet.numbers else "---" for at in range(len(sheet.heads))]
    rows = [
        _line(
            [
                markdown(cell) if at in sheet.names and cell else prose(cell)
                for at, cell in enumerate(row)
            ]
        )
        for row in sheet.rows[:most]
    ]
    return "\n".join([_line(sheet.heads), _line(ways), *rows])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
