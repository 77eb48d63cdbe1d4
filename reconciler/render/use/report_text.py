"""Reports of use and of clients for terminals, as Markdown from the same tables, and as one JSON document; and their headline."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from reconciler.base.escaping import escaped, prose
from reconciler.render.sections import Section
from reconciler.render.table import (
    PLAIN,
    Style,
    fold_lines,
    markdown_heads,
    markdown_rows,
    section_lines,
)
from reconciler.render.units import count
from reconciler.render.use import client_tables
from reconciler.render.use.report_tables import sheets
from reconciler.usage.impact.result_rows import Simulation
from reconciler.usage.impact.verdict import ImpactVerdict
from reconciler.usage.recommendation.limit_sizes import Advice
from reconciler.usage.reports.client import ClientReport
from reconciler.usage.reports.usage import UsageReport

Report: TypeAlias = UsageReport | ClientReport

IN_THE_LAKE: Final = "in the lake"
"""Where the rows are that a report does not list."""

_HELD_BACK: Final = "may get worse (what was recorded was held back)"


def headline(report: Report) -> str:
    """Return the headline of a report: its result, or why there is none."""
    if isinstance(report, ClientReport):
        return client_tables.headline(report)
    stale = [evidence for evidence in report.evidence if evidence.stale]
    if report.evidence and len(stale) == len(report.evidence):
        return f"no evidence counts: {stale[0].stale}"
    if report.simulation is not None:
        source_prefix = "the newest simulation in the lake: " if report.origins else ""
        return source_prefix + _simulated(report.simulation)
    sentences = [_recommended(report)] if report.recommendations else []
    sentences += [
        count(len(rows) + report.left_out.get(name, 0), *nouns)
        for rows, name, nouns in (
            (report.usage, "usage_row", ("bucket in use", "buckets in use")),
            (report.capacity, "capacity_row", ("budget of a broker", "budgets of brokers")),
            (report.noisy, "noisy_row", ("excess over a fair share", "excesses over a fair share")),
        )
        if rows
    ]
    return ", ".join(sentences) or "nothing was recorded"


def _recommended(report: UsageReport) -> str:
    """Return how many limits are recommended to change, of all that were sized; changes are the first rows."""
    amounts = Counter(row.advice for row in report.recommendations)
    left_out = report.left_out.get("recommendation", 0)
    changes = amounts[Advice.CHANGE]
    at_least = " at least" if left_out and changes == len(report.recommendations) else ""
    sized = count(len(report.recommendations) + left_out, "limit")
    without = amounts[Advice.INSUFFICIENT]
    reason = f" ({without:,} without enough evidence)" if without and not left_out else ""
    return f"{sized} sized,{at_least} {changes:,} recommended to change{reason}"


def _simulated(simulation: Simulation) -> str:
    """Return the headline of a simulation, which counts all rows, shown or not."""
    if not simulation.verdicts:
        return "no limit changes that recorded use can judge"
    amounts = simulation.verdicts
    words = [
        (amounts.get(ImpactVerdict.WORSE, 0), "gets worse", "get worse"),
        (amounts.get(ImpactVerdict.BETTER, 0), "gets better", "get better"),
        (simulation.may_be_worse, _HELD_BACK, _HELD_BACK),
        (amounts.get(ImpactVerdict.NOT_IDENTIFIABLE, 0), "cannot be known", "cannot be known"),
        (amounts.get(ImpactVerdict.NO_DATA, 0), "has no data", "have no data"),
    ]
    counts = [
        f"{amount:,} {singular if amount == 1 else many}"
        for amount, singular, many in words
        if amount
    ]
    refused_text = (
        f"; the policy refuses {count(len(simulation.breaches), 'figure')}"
        if simulation.breaches
        else ""
    )
    rows = count(
        len(simulation.rows) + simulation.left_out, "bucket on a broker", "buckets on brokers"
    )
    return f"{rows}: {', '.join(counts) or 'nothing changes for any client'}{refused_text}"


def report_text(report: Report, *, style: Style = PLAIN) -> str:
    """Render the report for a terminal; ends with a line break."""
    lines = [style.paint(escaped(headline(report)), "bold")]
    lines += [f"note: {escaped(note)}" for note in report_notes(report)]
    lines = fold_lines(lines, style)
    for report_table in report_tables(report):
        lines += [
            "",
            *fold_lines([style.paint(report_table.title, "bold"), *report_table.notes], style),
            *section_lines(report_table, style=style, indent="  "),
        ]
        if report_table.left_out:
            lines.append(f"  and {count(report_table.left_out, 'more row')}, {IN_THE_LAKE}")
    if documents := patches(report):
        lines += [
            "",
            style.paint(client_tables.PATCH_TITLE, "bold"),
            *fold_lines([client_tables.PATCH_DESCRIPTION], style),
        ]
        lines += [escaped(line) for document in documents for line in document.splitlines()]
    return "\n".join(lines) + "\n"


def report_tables(report: Report) -> Sequence[Section]:
    """Return all tables of a report with content, in display order."""
    return client_tables.sheets(report) if isinstance(report, ClientReport) else sheets(report)


def patches(report: Report) -> tuple[str, ...]:
    """Return the documents that a report proposes."""
    return report.patches if isinstance(report, ClientReport) else ()


def report_notes(report: Report) -> tuple[str, ...]:
    """Return the sentences about a report as a whole."""
    return () if isinstance(report, ClientReport) else report.notes


def report_markdown(report: Report) -> str:
    """Render the report as Markdown."""
    parts = [
        f"**{prose(headline(report))}**",
        *(f"> {prose(note)}" for note in report_notes(report)),
    ]
    for report_table in report_tables(report):
        parts += [
            f"### {report_table.title}",
            " ".join(report_table.notes),
            "\n".join([*markdown_heads(report_table), *markdown_rows(report_table)]),
        ]
        if report_table.left_out:
            parts.append(f"and {count(report_table.left_out, 'more row')}, {IN_THE_LAKE}")
    if documents := patches(report):
        parts += [f"### {client_tables.PATCH_TITLE}", client_tables.PATCH_DESCRIPTION]
        parts += [f"```yaml\n{''.join(documents)}```"]
    return "\n\n".join(parts) + "\n"
