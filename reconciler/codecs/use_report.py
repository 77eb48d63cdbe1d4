"""The JSON document of a report of recorded use: all columns of every row, unformatted numbers."""

from typing import Final

from reconciler.codecs.row_values import row_document
from reconciler.render.json_values import Json
from reconciler.render.use.report_text import Report, headline
from reconciler.usage.reports.client import ClientReport
from reconciler.usage.reports.usage import UsageReport

KINDS: Final = {UsageReport: "kquota-use", ClientReport: "kquota-client"}
FORMAT: Final = 1


def report_document(report: Report) -> dict[str, Json]:
    """Return the whole report. Keys of rows are the columns of their tables, so names contain the units."""
    return {
        "kind": KINDS[type(report)],
        "format": FORMAT,
        "headline": headline(report),
        **row_document(report),
    }
