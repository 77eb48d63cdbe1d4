"""What a job over a fleet reports: as text, Markdown and one JSON document, all from the same sheets and rows."""

from dataclasses import fields
from typing import Final

from reconciler.evidence.render.fleet_tables import headline, sheets
from reconciler.evidence.render.report_json import json_of
from reconciler.evidence.render.report_text import (
    PLAIN,
    sheets_markdown,
    sheets_text,
)
from reconciler.render.json_values import Json
from reconciler.render.table import Style
from reconciler.usage.reports.fleet import FleetReport

KIND: Final = "kquota-fleet"
FORMAT: Final = 1


def fleet_text(report: FleetReport, *, style: Style = PLAIN) -> str:
    """For a terminal; ends with a line break."""
    return sheets_text(headline(report), report.notes, sheets(report), style=style)


def fleet_markdown(report: FleetReport, *, max_rows: int = 50) -> str:
    """As Markdown; of each table at most ``max_rows`` rows, and how many there are more."""
    return sheets_markdown(headline(report), report.notes, sheets(report), max_rows=max_rows)


def fleet_document(report: FleetReport) -> dict[str, Json]:
    """The whole report. Keys of rows are the columns of their tables."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "headline": headline(report),
        **{field.name: json_of(getattr(report, field.name)) for field in fields(report)},
    }
