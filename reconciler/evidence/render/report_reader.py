"""Reads the JSON report of ``kquota spark recommend``. Strict: it is written again and compared."""

from reconciler.codecs.reader import DocumentReader, load
from reconciler.codecs.row_values import read_row
from reconciler.evidence.render.report_json import FORMAT, KINDS, report_document
from reconciler.usage.impact.result_rows import EvidenceNote, RecommendationRow
from reconciler.usage.reports.usage import UsageReport


def read_recommendations(text: str, *, location: str) -> UsageReport:
    """Return the report that ``recommend --format json`` printed: evidence, recommendations and notes.

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
