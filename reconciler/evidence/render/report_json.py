"""A report as one versioned JSON document: all columns of every row, unformatted numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Final

from reconciler.evidence.render.report_text import headline
from reconciler.render.json_values import Json, value_json
from reconciler.usage.reports.fleet import FleetReport
from reconciler.usage.reports.usage import UsageReport
from reconciler.usage.tags import Bucket

KINDS: Final = {UsageReport: "kquota-use", FleetReport: "kquota-fleet"}
FORMAT: Final = 1


def report_document(report: UsageReport | FleetReport) -> dict[str, Json]:
    """Return the whole report. Keys of rows are the columns of their tables, so names contain the units."""
    return {
        "kind": KINDS[type(report)],
        "format": FORMAT,
        "headline": headline(report),
        **{field.name: json_of(getattr(report, field.name)) for field in fields(report)},
    }


def json_of(value: object) -> Json:
    """Convert any value of rows: dataclasses by their fields, limits as Kafka stores them."""
    if isinstance(value, Enum):
        return str(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return _row(value)
    if isinstance(value, Mapping):
        return {str(key): json_of(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_of(item) for item in value]
    if isinstance(value, float):
        return value_json(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON")


def _row(value: object) -> dict[str, Json]:
    """Convert a dataclass by its fields; the columns of a bucket become keys of the row, as in the tables."""
    values_by_name: dict[str, Json] = {}
    for field in fields(value):  # type: ignore[arg-type] # the caller made sure that it is a dataclass
        inner = getattr(value, field.name)
        if isinstance(inner, Bucket):
            values_by_name |= inner.columns
        else:
            values_by_name[field.name] = json_of(inner)
    return values_by_name
