"""Budgets of brokers, promised and served rates, and use beyond a fair share: ``capacity_row`` and ``noisy_row``."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.base.protocols import Progress
from reconciler.evidence.analysis import results, rollup
from reconciler.evidence.analysis.engine import Engine, Task, by_cluster, portions
from reconciler.evidence.analysis.results import ReportWindow
from reconciler.evidence.analysis.rollup import DIRECTIONS, INTERVAL_MS, INTERVALS, IntervalTask
from reconciler.evidence.analysis.usage import evidence
from reconciler.evidence.store import recorded_window, samples
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.parquet_files import Key, TableFile
from reconciler.evidence.store.lake import Lake, LakeReader
from reconciler.evidence.store.recorded_window import LimitBook
from reconciler.evidence.store.stored_days import SERIES, Unit
from reconciler.usage.capacity import BucketUse, CapacityOfCluster, committed_ppm, shares
from reconciler.usage.impact.result_rows import EvidenceNote
from reconciler.usage.kernel.broker_load import BrokerCapacity, BrokerMoments, budgets, load
from reconciler.usage.kernel.series import NOT_RECORDED
from reconciler.usage.kernel.throttling import demand_of, served
from reconciler.usage.reports.usage import CapacityRow, NoisyRow, TrafficDirection, UsageReport
from reconciler.usage.tables import (
    BROKER_SAMPLE,
    CAPACITY_ROW,
    NOISY_ROW,
    USAGE_5M,
    USAGE_SAMPLE,
    Table,
)
from reconciler.usage.tags import bucket_of_row

HOT: Final = 500
"""Number of hot intervals of each cluster for which fair shares are computed."""

_BROKER_COLUMNS: Final = {
    str(TrafficDirection.INGRESS): ("bytes_in", "replication_in"),
    str(TrafficDirection.EGRESS): ("bytes_out", "replication_out"),
}

MOMENTS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster_id", "broker_id", "direction")),
        *(
            (name, pa.int64())
            for name in (
                "ts_ms",
                "dt_ms",
                "served_units",
                "recorded_units",
                "broker_units",
                "replication_units",
            )
        ),
    ]
)
"""The rate served to all clients of a broker at a moment, and the broker's total traffic."""

Broker = tuple[str, str]
"""Broker id and direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentsTask:
    """Some series of one cluster that count bytes."""

    units: tuple[Unit, ...]  # of `usage_sample`, by day
    window: tuple[int, int]
    keys: tuple[Key, ...]  # sorted
    limits: tuple[int | None, ...]  # of each series
    max_gap_ms: int
    rows: int

    def run(self, lake: LakeReader) -> pa.Table:
        """Return the rates served to these series, added up by moment."""
        files = [TableFile(lake.reader, unit.path, USAGE_SAMPLE) for unit in self.units]
        runs = samples.read_runs(files, self.window, self.keys)
        tables = [MOMENTS.empty_table()]
        for key, limit in zip(self.keys, self.limits, strict=True):
            series = runs.series(key)
            columns = {
                "cluster_id": pa.repeat(self.units[0].cluster_id, len(series)),
                "broker_id": pa.repeat(key[5], len(series)),
                "direction": pa.repeat(DIRECTIONS[key[0]], len(series)),
                "ts_ms": series.ts_ms,
                "dt_ms": series.dt_ms,
                "served_units": served(demand_of(series, self.max_gap_ms), limit),
                "recorded_units": series.rate_units,
                "broker_units": pa.nulls(len(series), pa.int64()),
                "replication_units": pa.nulls(len(series), pa.int64()),
            }
            tables.append(pa.table(columns, schema=MOMENTS))
        return added_up(pa.concat_tables(tables))


def added_up(moments: pa.Table) -> pa.Table:
    """Add up the moments of each broker and direction."""
    names = ["cluster_id", "broker_id", "direction", "ts_ms"]
    kinds = {
        "dt_ms": "max",
        "served_units": "sum",
        "recorded_units": "sum",
        "broker_units": "max",
        "replication_units": "max",
    }
    total = moments.group_by(names, use_threads=False).aggregate(list(kinds.items()))
    return total.rename_columns([*names, *kinds]).cast(MOMENTS)


def carried(engine: Engine, lake: Lake, window: ReportWindow, progress: Progress) -> UsageReport:
    """Compute both tables, store all rows and report the first.

    Raises:
        LakeError: The lake cannot be read or written.
        QuotaValueError: Samples are duplicated or out of range.
    """
    clusters = {name: _ClusterLoad(lake, name, window) for name in window.clusters}
    at = lake.store.at
    tasks: list[Task] = [task for of in clusters.values() for task in of.moment_tasks()]
    moments = by_cluster(engine.run(at, tasks, MOMENTS, progress), MOMENTS)
    tasks = [task for of in clusters.values() for task in of.interval_tasks(None)]
    rates = by_cluster(engine.run(at, tasks, INTERVALS, progress), INTERVALS)
    capacity: list[dict[str, Any]] = []
    notes: list[str] = []
    tasks = []
    for name, of in clusters.items():
        capacity += of.capacity_rows(moments.get(name, MOMENTS.empty_table()))
        more = of.choose_hot(rates.get(name, INTERVALS.empty_table()))
        tasks += of.interval_tasks(of.hot)
        if not of.is_configured:
            notes.append(
                f"{name}: no capacity is configured (spec.brokerCapacity), so there is no budget"
            )
        if more:
            notes.append(
                f"{name}: fair shares are those of the {HOT} intervals furthest beyond the budget; {more} more are left out"
            )
    hot = by_cluster(engine.run(at, tasks, INTERVALS, progress), INTERVALS)
    noisy = [row for name, rows in hot.items() for row in clusters[name].noisy_rows(rows)]
    rows_by_table = {CAPACITY_ROW: capacity, NOISY_ROW: noisy}
    return _reported(lake, window, clusters.values(), rows_by_table, notes)


def _reported(
    lake: Lake,
    window: ReportWindow,
    clusters: "Iterable[_ClusterLoad]",
    rows_by_table: Mapping[Table, list[dict[str, Any]]],
    notes: list[str],
) -> UsageReport:
    """Store the rows of both tables, and return the first."""
    tables = {}
    for table, rows in rows_by_table.items():
        schema = arrow_tables.schema(table)
        tables[table] = pa.Table.from_pylist(rows, schema=schema)
        rows_by_cluster = by_cluster(iter([tables[table]]), schema)
        results.store(lake, table, rows_by_cluster, window.clusters, window=window)
    capacity_table, noisy_table = tables[CAPACITY_ROW], tables[NOISY_ROW]
    order = [
        (capacity_table["overload_ms"], "descending"),
        (capacity_table["coincident_ppm"], "descending"),
        *((capacity_table[name], "ascending") for name in CAPACITY_ROW.key),
    ]
    first, left_rows = results.first_values(capacity_table, CapacityRow, order, window.most)
    order = [
        (noisy_table["excess_units"], "descending"),
        *((noisy_table[name], "ascending") for name in ("bucket_ms", "cluster_id", *SERIES)),
    ]
    excess, more = results.first_values(noisy_table, NoisyRow, order, window.most)
    left_out = {CAPACITY_ROW.name: left_rows, NOISY_ROW.name: more}
    return UsageReport(
        evidence=tuple(of.note for of in clusters),
        capacity=first,
        noisy=excess,
        left_out={name: amount for name, amount in left_out.items() if amount},
        notes=tuple(notes),
    )


class _ClusterLoad:
    """The load of the brokers of one cluster in a window."""

    def __init__(self, lake: Lake, cluster_id: str, window: ReportWindow) -> None:
        self._lake, self._window, self._cluster_id = lake, window, cluster_id
        self._recorded = recorded_window.opened(lake, cluster_id, *window.span)
        self.note: EvidenceNote = evidence(lake, self._recorded, window.to_ms)
        self._limits = LimitBook(self._recorded.state)
        self._capacities = _capacities(window.capacity, cluster_id)
        self._interval_budgets: dict[tuple[str, str, int], int] = {}
        self.hot: frozenset[tuple[str, str, int]] = frozenset()
        rollup.update(lake, cluster_id, window.first_day, window.last_day)
        self._sums = lake.days(USAGE_5M, [cluster_id], window.first_day, window.last_day)

    @property
    def is_configured(self) -> bool:
        """Whether a capacity is configured."""
        return bool(self._capacities)

    def moment_tasks(self) -> Iterator[MomentsTask]:
        """Yield the tasks over samples."""
        recorded = samples.recorded_series(self._recorded.samples, self._window.span)
        counted = {key: rows for key, rows in recorded.items() if key[0] in DIRECTIONS}
        for keys, rows in portions(counted, counted.__getitem__):
            yield MomentsTask(
                units=tuple(day.unit for day in self._recorded.samples),
                window=self._window.span,
                keys=keys,
                limits=tuple(self._limits.of(key)[0] for key in keys),
                max_gap_ms=self._recorded.cadence.max_gap_ms,
                rows=rows,
            )

    def interval_tasks(
        self, only: frozenset[tuple[str, str, int]] | None
    ) -> Iterator[IntervalTask]:
        """Yield the tasks over five-minute sums."""
        for day in self._sums:
            if only is None or only:
                yield IntervalTask(
                    unit=day.unit, window=self._window.span, only=only, rows=day.rows
                )

    def capacity_rows(self, moments: pa.Table) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``capacity_row``."""
        joined = added_up(pa.concat_tables([moments, *self._broker_moments()]))
        promised = self._promised()
        for broker, direction in sorted(_pairs(joined)):
            rows = joined.filter(
                pc.and_(
                    pc.equal(joined["broker_id"], broker), pc.equal(joined["direction"], direction)
                )
            )
            of_broker, capacity = _moments(rows), self._capacity(direction)
            of_moments = load(of_broker, capacity)
            self._keep_budgets(broker, direction, rows, budgets(of_broker, capacity))
            budget = of_moments.budget_units
            yield {
                "cluster_id": self._cluster_id,
                "broker_id": broker,
                "direction": direction,
                **asdict(of_moments),
                "committed_ppm": None
                if budget is None
                else committed_ppm([promised[broker, direction]], budget),
                "basis": str(of_moments.basis),
                "day": self._window.last_day,
            }

    def _capacity(self, direction: str) -> BrokerCapacity:
        return self._capacities.get(direction, BrokerCapacity(units=None))

    def _broker_moments(self) -> Iterator[pa.Table]:
        days = self._lake.days(
            BROKER_SAMPLE, [self._cluster_id], self._window.first_day, self._window.last_day
        )
        rows = self._lake.read(days, table=BROKER_SAMPLE, window=self._window.span)
        zeros = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
        for direction, (all_bytes, replication) in _BROKER_COLUMNS.items():
            columns = {
                **{name: rows[name] for name in ("cluster_id", "broker_id", "ts_ms")},
                "direction": pa.repeat(direction, rows.num_rows),
                "dt_ms": rows["dt_ms"].cast(pa.int64()),
                "served_units": zeros,
                "recorded_units": zeros,
                "broker_units": rows[all_bytes],
                "replication_units": rows[replication],
            }
            yield pa.table(columns).select(MOMENTS.names).cast(MOMENTS)

    def _promised(self) -> Counter[Broker]:
        """Return the sum of the limits of all buckets recorded by a broker."""
        promised: Counter[Broker] = Counter()
        for key in samples.recorded_series(self._sums):
            if key[0] in DIRECTIONS:
                promised[key[5], DIRECTIONS[key[0]]] += self._limits.of(key)[0] or 0
        return promised

    def _keep_budgets(self, broker: str, direction: str, rows: pa.Table, available: Any) -> None:  # noqa: ANN401 - a column of NumPy
        """Keep the smallest known budget of each interval."""
        begins = pc.multiply(pc.divide(rows["ts_ms"], INTERVAL_MS), INTERVAL_MS)
        table = pa.table({"bucket_ms": begins, "budget": available})
        with_budget = table.filter(pc.not_equal(table["budget"], NOT_RECORDED))
        least = with_budget.group_by("bucket_ms", use_threads=False).aggregate([("budget", "min")])
        for row in least.to_pylist():
            self._interval_budgets[broker, direction, row["bucket_ms"]] = row["budget_min"]

    def choose_hot(self, rates: pa.Table) -> int:
        """Choose the intervals with the largest excess over the budget; return the number of others."""
        over: list[tuple[int, str, str, int, str]] = []
        for row in rates.to_pylist():
            direction = DIRECTIONS[row["quota_type"]]
            budget = self._interval_budgets.get((row["broker_id"], direction, row["bucket_ms"]))
            if budget is not None and row["rate_units"] > budget:
                excess = row["rate_units"] - budget
                over.append(
                    (-excess, row["broker_id"], direction, row["bucket_ms"], row["quota_type"])
                )
        hot_keys = sorted(over)[:HOT]
        self.hot = frozenset((kind, broker, at) for _, broker, _, at, kind in hot_keys)
        return len(over) - len(hot_keys)

    def noisy_rows(self, rows: pa.Table) -> Iterator[dict[str, Any]]:
        """Yield the rows of ``noisy_row``: buckets that used more than a fair share of a hot interval."""
        intervals: defaultdict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
        for row in rows.to_pylist():
            intervals[row["quota_type"], row["broker_id"], row["bucket_ms"]].append(row)
        for (kind, broker, at), of_interval in intervals.items():
            budget = self._interval_budgets[broker, DIRECTIONS[kind], at]
            by_bucket = {bucket_of_row(row): row for row in of_interval}
            uses = [
                BucketUse(
                    bucket=bucket,
                    rate=row["rate_units"],
                    weight=self._limits.of(tuple(row[name] for name in SERIES))[0] or 1,
                )
                for bucket, row in by_bucket.items()
            ]
            for share in shares(uses, budget):
                if share.excess:
                    yield {
                        **by_bucket[share.bucket],
                        "budget_units": budget,
                        "fair_units": share.fair,
                        "excess_units": share.excess,
                        "day": self._window.last_day,
                    }


def _pairs(moments: pa.Table) -> set[Broker]:
    return set(zip(moments["broker_id"].to_pylist(), moments["direction"].to_pylist(), strict=True))


def _moments(rows: pa.Table) -> BrokerMoments:
    return BrokerMoments(
        **{
            field.name: pc.fill_null(rows[field.name], NOT_RECORDED).to_numpy()
            for field in fields(BrokerMoments)
        }
    )


def _capacities(
    clusters: Iterable[CapacityOfCluster], cluster_id: str
) -> Mapping[str, BrokerCapacity]:
    """Return the configured capacity of each broker of a cluster by direction."""
    return {
        str(direction): BrokerCapacity(units=units, headroom_ppm=of.headroom_ppm)
        for of in clusters
        if of.cluster_id == cluster_id
        for direction, units in (
            (TrafficDirection.INGRESS, of.ingress),
            (TrafficDirection.EGRESS, of.egress),
        )
    }
