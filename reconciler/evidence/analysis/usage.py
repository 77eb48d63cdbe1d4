"""Use against limits in a window of whole days: rows of ``usage_row``, with curves of the first."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.base.protocols import Progress
from reconciler.evidence.analysis import results, rollup
from reconciler.evidence.analysis.engine import Engine, Task, by_cluster, portions
from reconciler.evidence.analysis.results import ReportWindow, TimeWindow
from reconciler.evidence.analysis.rollup import INTERVAL_MS
from reconciler.evidence.store import recorded_window, samples
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.parquet_files import Key, TableFile
from reconciler.evidence.store.lake import Lake, LakeReader
from reconciler.evidence.store.recorded_window import LimitBook, RecordedWindow
from reconciler.evidence.store.stored_days import Unit
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.kernel.histogram import percentiles
from reconciler.usage.reports.usage import UsageCurve, UsageReport, UsageRow, UsageState
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_ROW

SCHEMA: Final = arrow_tables.schema(USAGE_ROW)

PERCENTILES: Final = {"p50_units": 500_000, "p95_units": 950_000, "p99_units": 990_000}

MOST_POINTS: Final = 400
"""Maximum number of points of a curve; a picture cannot show more."""

CURVES: Final = 12
"""Number of first rows that get a curve."""

_SUMS: Final = ("sum_dt_ms", "max_rate_units", "throttled_ms", "censored_ms")

_STATES: Final = {
    UsageState.THROTTLED: 0,
    UsageState.NEAR_LIMIT: 1,
    UsageState.UNUSED: 2,
    UsageState.NO_DATA: 3,
    UsageState.USED: 4,
    UsageState.IDLE: 5,
}
"""Display order."""

Limits = Mapping[tuple[str, Key], tuple[int | None, int | None]]
"""Limits before and after, by cluster id and series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTask:
    """Some series of one cluster."""

    sums: tuple[Unit, ...]  # of `usage_5m`, by day
    histograms: tuple[Unit, ...]  # of `usage_hist_d`, by day
    day: dt.date  # the last day of the window
    keys: tuple[Key, ...]  # sorted
    limits: tuple[tuple[int | None, str], ...]  # of each series: units and entity
    rows: int

    def run(self, lake: LakeReader) -> pa.Table:
        """Profile each bucket on each broker."""
        totals = self._totals(lake)
        shares = self._percentiles(lake)
        rows = [
            self._row(number, total, shares.get(number, {})) for number, total in totals.items()
        ]
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    def _totals(self, lake: LakeReader) -> dict[int, dict[str, Any]]:
        tables = _rows_of(lake, self.sums, _SUMS, self.keys)
        if not tables:
            return {}
        grouped = pa.concat_tables(tables).group_by("number", use_threads=False)
        wanted_keys = [(name, "max" if name == "max_rate_units" else "sum") for name in _SUMS]
        total = grouped.aggregate(wanted_keys).rename_columns(["number", *_SUMS])
        return {row["number"]: row for row in total.sort_by("number").to_pylist()}

    def _percentiles(self, lake: LakeReader) -> dict[int, dict[str, int]]:
        tables = _rows_of(lake, self.histograms, ("bucket", "n_dt_ms"), self.keys)
        if not tables:
            return {}
        rows = pa.concat_tables(tables)
        present = sorted(rows["number"].unique().to_pylist())
        places = pc.index_in(rows["number"], pa.array(present))
        result = percentiles(
            places.to_numpy(),
            rows["bucket"].to_numpy(),
            rows["n_dt_ms"].to_numpy(),
            tuple(PERCENTILES.values()),
        )
        columns = zip(*(column.tolist() for column in result), strict=True)
        return {
            number: dict(zip(PERCENTILES, values, strict=True))
            for number, values in zip(present, columns, strict=True)
        }

    def _row(self, number: int, total: dict[str, Any], shares: dict[str, int]) -> dict[str, Any]:
        kind, bucket, broker = samples.parts_of(self.keys[number])
        limit, entity = self.limits[number]
        most = total["max_rate_units"]
        return {
            "cluster_id": self.sums[0].cluster_id,
            "quota_type": str(kind),
            **bucket.columns,
            "broker_id": broker,
            "limit_units": limit,
            "source_entity": entity,
            "covered_ms": total["sum_dt_ms"],
            # The upper end of a histogram bucket may lie above the largest rate.
            **{name: min(share, most) for name, share in shares.items()},
            "max_rate_units": most,
            "throttled_ms": total["throttled_ms"],
            "censored_ms": total["censored_ms"],
            "state": str(state_of(most, total["throttled_ms"], limit)),
            "day": self.day,
        }


def state_of(most: int, throttled_ms: int | None, limit: int | None) -> UsageState:
    """Return the state of recorded use; the first that applies.

    Args:
        most: The largest rate.
    """
    if most == 0:
        return UsageState.UNUSED
    if throttled_ms:
        return UsageState.THROTTLED
    if limit is None:
        return UsageState.USED
    if most * 10 >= limit * 9:
        return UsageState.NEAR_LIMIT
    return UsageState.IDLE if most * 10 <= limit else UsageState.USED


def _rows_of(
    lake: LakeReader, units: Sequence[Unit], columns: Sequence[str], keys: Sequence[Key]
) -> list[pa.Table]:
    files = (TableFile(lake.reader, unit.path, unit.table) for unit in units)
    return [rows for file in files for rows in samples.numbered_rows(file, columns, keys)]


def profiled(engine: Engine, lake: Lake, window: ReportWindow, progress: Progress) -> UsageReport:
    """Profile every bucket on every broker, store all rows and report the first.

    Raises:
        LakeError: The lake cannot be read or written.
    """
    span = window.whole_days
    notes: list[EvidenceNote] = []
    tasks: list[Task] = []
    unused: list[dict[str, Any]] = []
    for cluster_id in window.clusters:
        recorded = recorded_window.opened(lake, cluster_id, *span.span)
        # Rows are of whole days, so the evidence is, too; the time after the last day was made is no gap.
        made_ms = max((day.facts.made_ms for day in recorded.samples), default=0)
        notes.append(evidence(lake, recorded, min(span.to_ms, max(window.to_ms, made_ms))))
        limits = LimitBook(recorded.state)
        rollup.update(lake, cluster_id, span.first_day, span.last_day)
        days = lake.days(USAGE_5M, [cluster_id], span.first_day, span.last_day)
        rows = samples.recorded_series(days)
        histograms = lake.units(USAGE_HIST_D, [cluster_id], span.first_day, span.last_day)
        for keys, need in portions(rows, rows.__getitem__):
            tasks.append(
                UsageTask(
                    sums=tuple(day.unit for day in days),
                    histograms=tuple(histograms),
                    day=span.last_day,
                    keys=keys,
                    limits=tuple(map(limits.of, keys)),
                    rows=need,
                )
            )
        unused += _unused(limits, cluster_id, rows, span.last_day)
    result = by_cluster(engine.run(lake.store.at, tasks, SCHEMA, progress), SCHEMA)
    every = pa.concat_tables([*result.values(), pa.Table.from_pylist(unused, schema=SCHEMA)])
    results.store(lake, USAGE_ROW, by_cluster(iter([every]), SCHEMA), window.clusters, window=span)
    first, left_rows = _first(every, window.most)
    drawn: Limits = {
        (row.cluster_id, samples.key_of(row.quota_type, row.bucket, row.broker_id)): (
            row.limit_units,
            row.limit_units,
        )
        for row in [row for row in first if row.broker_id][:CURVES]
    }
    return UsageReport(
        evidence=tuple(notes),
        usage=first,
        curves=curves(lake, drawn, span),
        left_out={USAGE_ROW.name: left_rows} if left_rows else {},
        notes=() if span.span == window.span else (_widened(span),),
    )


def _widened(span: TimeWindow) -> str:
    return (
        f"the window is widened to whole days: use is of {span.first_day} to {span.last_day} (UTC)"
    )


def evidence(lake: Lake, window: RecordedWindow, to_ms: int) -> EvidenceNote:
    """Return the evidence of a report about a window; the time after its end is no gap."""
    made_ms = max((day.facts.made_ms for day in window.samples), default=0)
    return recorded_window.evidence_note(
        lake,
        window.cluster_id,
        window.samples,
        (window.from_ms, to_ms),
        source=lake.store.redacted_address,
        made_ms=made_ms,
        snapshot_id=window.snapshot_id,
        stale="" if window.samples else recorded_window.NO_SAMPLES,
    )


def _first(rows: pa.Table, most: int) -> tuple[tuple[UsageRow, ...], int]:
    """Return the first rows: throttled first, then by use relative to the limit."""
    fullness = pc.divide(
        rows["max_rate_units"].cast(pa.float64()), rows["limit_units"].cast(pa.float64())
    )
    order = [
        (results.ranks(rows["state"], _STATES), "ascending"),
        (rows["throttled_ms"], "descending"),
        (fullness, "descending"),
        *((rows[name], "ascending") for name in USAGE_ROW.key),
    ]
    return results.first_values(rows, UsageRow, order, most)


def _unused(
    limits: LimitBook, cluster_id: str, recorded: Mapping[Key, int], day: dt.date
) -> list[dict[str, Any]]:
    """Return rows for limits of named buckets without use: ``unused``, or ``no_data`` without telemetry of the type."""
    buckets = {samples.parts_of(key)[:2] for key in recorded}
    measured = {kind for kind, _ in buckets}
    return [
        {
            "cluster_id": cluster_id,
            "quota_type": str(limit.kind),
            **limit.bucket.columns,
            "broker_id": "",
            "limit_units": limit.units,
            "source_entity": limit.source_entity,
            "covered_ms": 0,
            "max_rate_units": 0,
            "censored_ms": 0,
            "state": str(UsageState.UNUSED if limit.kind in measured else UsageState.NO_DATA),
            "day": day,
        }
        for limit in limits.unused(buckets)
    ]


def curves(lake: Lake, limits: Limits, span: TimeWindow) -> tuple[UsageCurve, ...]:
    """Return the use over time of some buckets on brokers in equal spans, in the order of ``limits``.

    Raises:
        LakeError: The lake cannot be read.
    """
    # A multiple of five minutes that keeps a curve within MOST_POINTS points.
    length_ms = -(-(span.to_ms - span.from_ms) // (MOST_POINTS - 1) // INTERVAL_MS) * INTERVAL_MS
    result: list[UsageCurve] = []
    for (cluster_id, key), (before, after) in limits.items():
        units = lake.units(USAGE_5M, [cluster_id], span.first_day, span.last_day)
        columns = ("bucket_ms", "sum_dt_ms", "sum_units", "max_rate_units", "throttled_ms")
        points: dict[int, list[int]] = {}
        for rows in _rows_of(lake, units, columns, [key]):
            for row in rows.to_pylist():
                if span.from_ms <= row["bucket_ms"] < span.to_ms:
                    point = points.setdefault(row["bucket_ms"] // length_ms * length_ms, [0] * 4)
                    point[0] += row["sum_units"]
                    point[1] += row["sum_dt_ms"]
                    point[2] = max(point[2], row["max_rate_units"])
                    point[3] += row["throttled_ms"] or 0
        kind, bucket, broker = samples.parts_of(key)
        if points:
            result.append(
                UsageCurve(
                    cluster_id=cluster_id,
                    quota_type=kind,
                    bucket=bucket,
                    broker_id=broker,
                    points=tuple(
                        (at, units_ * 1000 // lasted, most)
                        for at, (units_, lasted, most, _) in sorted(points.items())
                    ),
                    span_ms=length_ms,
                    before_units=before,
                    after_units=after,
                    throttled=tuple(at for at, point in sorted(points.items()) if point[3]),
                )
            )
    return tuple(result)
