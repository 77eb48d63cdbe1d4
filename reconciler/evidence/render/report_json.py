"""A report as one versioned JSON document: all columns of every row, unformatted numbers. Recommendations are read back."""

from typing import Final

from reconciler.codecs.reader import DocumentReader, load
from reconciler.codecs.row_values import read_row, row_document
from reconciler.evidence.render.report_text import Report, headline
from reconciler.render.json_values import Json
from reconciler.usage.impact.result_rows import EvidenceNote, RecommendationRow
from reconciler.usage.reports.client import ClientReport
from reconciler.usage.reports.usage import UsageReport

KINDS: Final = {
    UsageReport: "kquota-use",
    ClientReport: "kquota-client",
}
FORMAT: Final = 1


def report_document(report: Report) -> dict[str, Json]:
    """Return the whole report. Keys of rows are the columns of their tables, so names contain the units."""
    return {
        "kind": KINDS[type(report)],
        "format": FORMAT,
        "headline": headline(report),
        **row_document(report),
    }


def read_recommendations(text: str, *, location: str) -> UsageReport:
    """Return the report that ``recommend --format json`` printed. Strict: it is written again and compared.

    Raises:
        ConfigError: It is truncated, edited, of another kind or format, or the report of another command.
    """
    top = load(text, kind=KINDS[UsageReport], format_version=FORMAT, location=location)
    report = UsageReport(
        evidence=top["evidence"].rows(lambda row: read_row(row, EvidenceNote)),
        recommendations=top["recommendations"].rows(lambda row: read_row(row, RecommendationRow)),
        left_out={name: count.amount() for name, count in top["left_out"].pairs()},
        notes=top["notes"].rows(DocumentReader.text),
    )
    top.expect(report_document(report))
    return report
