"""Lakes with generated what-if cases: samples, quota snapshots, and times at which brokers answered."""

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from reconciler.evidence.analysis import rollup
from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import Unit, UnitContent
from reconciler.usage.impact.recorded_limits import RecordedLimits
from reconciler.usage.samples import DAY_MS, MAX_UNITS, Cadence, QuotaType, day_of
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT, TARGET_UP, USAGE_SAMPLE, Table
from tests.evidence.analysis import cases, lakes, quota_cases
from tests.usage import whatif_cases
from tests.usage.reference import Sample

NAMES = tuple(word.split()[0] for word in cases.SAMPLE_SCHEMA.split(", "))


def commit(
    into: Lake,
    table: Table,
    cluster_id: str,
    on: dt.date,
    rows: Iterable[dict[str, object]],
    *,
    counts: Mapping[str, int] | None = None,
    **inputs: str,
) -> None:
    """Rows as a unit; irrelevant columns are empty."""
    schema = arrow_tables.schema(table)
    empty: dict[pa.DataType, object] = {pa.string(): "", pa.bool_(): True}
    records = [
        {field.name: None if field.nullable else empty.get(field.type, 0) for field in schema}
        | {"cluster_id": cluster_id, "day": on}
        | row
        for row in rows
    ]
    unit = Unit(table=table, cluster_id=cluster_id, day=on)
    arrow_table = pa.Table.from_pylist(records, schema=schema)
    content = UnitContent(rows=arrow_table, inputs=inputs, counts=counts or {})
    _ = into.replace(unit, content)
    if table is USAGE_SAMPLE:
        rollup.write(into, cluster_id, on)


def filled(folder: Path, fleets: Iterable[whatif_cases.Case], pacing: Cadence) -> Lake:
    """A lake with the samples of these fleets, and the limits under which they were recorded."""
    into = lakes.lake(folder)
    fill(into, fleets, pacing)
    return into


def fill(into: Lake, fleets: Iterable[whatif_cases.Case], pacing: Cadence) -> None:
    """Commit the samples of these fleets to a lake, and the limits under which they were recorded."""
    for fleet in fleets:
        by_day: defaultdict[dt.date, list[dict[str, object]]] = defaultdict(list)
        for kind, buckets in fleet.series.items():
            for bucket, brokers in buckets.items():
                for broker, samples in brokers.items():
                    for row in cases.sample_rows(fleet.cluster_id, kind, bucket, broker, samples):
                        record = dict(zip(NAMES, row, strict=True))
                        by_day[row[-1]].append(record)
        looked(into, fleet.cluster_id, fleet.before, whatif_cases.START_MS)
        for n, state in enumerate((fleet.recorded or RecordedLimits()).states[:-1], start=1):
            looked(into, fleet.cluster_id, state, whatif_cases.START_MS - n * DAY_MS, f"look {n}")
        for on, rows in by_day.items():
            commit(
                into,
                USAGE_SAMPLE,
                fleet.cluster_id,
                on,
                rows,
                **recorded_window.cadence_inputs(pacing),
            )
            up = [{"broker_id": "1", "ts_ms": row["ts_ms"], "dt_ms": 30_000} for row in rows[:5]]
            commit(into, TARGET_UP, fleet.cluster_id, on, [dict(row) for row in up])


def looked(
    into: Lake, cluster_id: str, state: whatif_cases.QuotaState, at_ms: int, name: str = "look"
) -> None:
    """The only quota snapshot of its day."""
    rows = quota_cases.entry_rows(cluster_id, state, snapshot_id=name, at_ms=at_ms)
    entries = [dict(zip(QUOTA_ENTRY.names, row, strict=True)) for row in rows]
    look = {"snapshot_id": name, "observed_at_ms": at_ms, "entries": len(entries)}
    commit(into, SNAPSHOT, cluster_id, day_of(at_ms), [look])
    commit(into, QUOTA_ENTRY, cluster_id, day_of(at_ms), entries)


def beyond_64_bits() -> tuple[whatif_cases.Case, list[Sample], Cadence]:
    """One series at the capped rate for twelve days, under a limit of 5 that becomes 4: its samples and step."""
    base_case = whatif_cases.case(0)
    begin, step = whatif_cases.START_MS // DAY_MS * DAY_MS, 300_000
    huge = [Sample(begin + n * step, step, MAX_UNITS) for n in range(1, 12 * 288)]
    key = whatif_cases.Key.PRODUCER_BYTE_RATE
    before, after = (
        whatif_cases.QuotaState().with_values([(whatif_cases.ENTITIES[0], key, value)])
        for value in (5.0, 4.0)
    )
    bucket = whatif_cases.tags_of(whatif_cases.book(before, key), "alice", "app")
    series = {QuotaType.PRODUCE: {bucket: {"1": huge}}}
    huge_case = dataclasses.replace(base_case, before=before, after=after, series=series)
    return huge_case, huge, Cadence(step_ms=step, max_gap_ms=step)
