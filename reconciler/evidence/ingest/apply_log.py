"""Imports audit log entries of ``kquota apply`` as rows of ``apply_log``."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime

import pyarrow as pa

from reconciler.codecs.reader import DocumentReader
from reconciler.errors import TelemetryError
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Unit
from reconciler.quota.entity_forms import canonical_text
from reconciler.usage.samples import day_of
from reconciler.usage.tables import APPLY_LOG

_Row = Mapping[str, object]


def keep(
    lake: Lake, cluster_ids: Iterable[str], entries: Iterable[Mapping[str, object]], *, source: str
) -> tuple[int, int]:
    """Add entries to the lake; entries that it already has change nothing.

    Args:
        cluster_ids: Ids of the clusters to import; entries of other clusters are only counted.
        entries: As returned by :func:`reconciler.inventory.audit_log.read_entries`.
        source: The log, for errors.

    Returns:
        The number of new entries, and of entries of other clusters.

    Raises:
        TelemetryError: An entry lacks a required field or has an invalid one.
        LakeError: The lake cannot be read or written.
    """
    known_ids, foreign_count = set(cluster_ids), 0
    rows_by_day: dict[tuple[str, date], dict[tuple[object, ...], _Row]] = {}
    for number, entry in enumerate(entries, start=1):
        cluster_id = str(entry.get("clusterId"))
        if cluster_id not in known_ids:
            foreign_count += 1
            continue
        day, row = _row(entry, cluster_id, f"{source}, entry {number}")
        rows_by_day.setdefault((cluster_id, day), {})[_key(row)] = row
    new_count = sum(
        _add(lake, Unit(table=APPLY_LOG, cluster_id=cluster_id, day=day), rows)
        for (cluster_id, day), rows in rows_by_day.items()
    )
    return new_count, foreign_count


def _add(lake: Lake, unit: Unit, rows: Mapping[tuple[object, ...], _Row]) -> int:
    def missing(existing_rows: pa.Table) -> pa.Table:
        existing_keys = {_key(row) for row in existing_rows.to_pylist()}
        new = [row for key, row in rows.items() if key not in existing_keys]
        return pa.Table.from_pylist(new, schema=arrow_tables.schema(APPLY_LOG))

    return lake.add(unit, missing)


def _key(row: _Row) -> tuple[object, ...]:
    return tuple(row[name] for name in APPLY_LOG.key)


def _row(entry: Mapping[str, object], cluster_id: str, source: str) -> tuple[date, _Row]:
    try:
        moment = datetime.fromisoformat(str(entry["time"])).timestamp()
        before = DocumentReader(entry["before"], location=source).quota_value()
        after = DocumentReader(entry["after"], location=source).quota_value()
        row_values: dict[str, object] = {
            "commit": str(entry.get("commit", "")),
            "digest": str(entry.get("digest", "")),
            "entity_json": canonical_text(
                DocumentReader(entry["entity"], location=source).entity()
            ),
            "quota_key": str(entry["key"]),
            "outcome": str(entry["outcome"]),
            "writer": str(entry.get("who", "")),
        }
    except (KeyError, ValueError) as wrong:
        raise TelemetryError(
            f"is not a complete entry of an audit log ({type(wrong).__name__}: {wrong})",
            location=source,
        ) from wrong
    applied = round(moment * 1000)
    return day_of(applied), row_values | {
        "cluster_id": cluster_id,
        "applied_at_ms": applied,
        "before": before,
        "after": after,
        "action": "remove" if after is None else "create" if before is None else "update",
        "day": day_of(applied),
    }
