"""Five-minute sums and daily histograms of the samples of a day: made, written beside the samples, and read as rates.

Sums and histograms are made from the stored samples alone, and name them. A run that ended between samples and sums, or two runs of one
day, leave sums that name other samples: they are made again by the next run, and before an analysis reads them.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.files.parquet_files import TableFile
from reconciler.evidence.store.files.table_reader import each
from reconciler.evidence.store.lake import Lake, LakeReader, within
from reconciler.evidence.store.stored_days import SERIES, StoredDay, Unit, UnitContent
from reconciler.usage.kernel.histogram import bucket_indexes
from reconciler.usage.reports.usage import TrafficDirection
from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_SAMPLE, Table

INTERVAL_MS: Final = 300_000

RULE: Final = "1"
"""Increased whenever equal samples would give other rows; then the days that are read again are rolled up again."""

_SERIES: Final = (
    "cluster_id",
    "quota_type",
    "group_kind",
    "user",
    "client_id",
    "ip",
    "broker_id",
    "day",
)


def usage_5m(samples: pa.Table) -> pa.Table:
    """Convert rows of ``usage_sample`` to rows of ``usage_5m``: use by the time at which it was read."""
    lasted = samples["dt_ms"].cast(pa.int64())
    throttle = samples["throttle_ms"]
    throttled = pc.fill_null(pc.greater(throttle, 0), False)  # noqa: FBT003 - a value of Arrow
    throttled_ms = pc.if_else(throttled, lasted, 0)
    columns = {name: samples[name] for name in _SERIES} | {
        "bucket_ms": pc.multiply(pc.divide(samples["ts_ms"], INTERVAL_MS), INTERVAL_MS),
        "sum_dt_ms": lasted,
        # Units that arrived, rounded half up, as in the throttle model.
        "sum_units": pc.divide(pc.add(pc.multiply(samples["rate_units"], lasted), 500), 1000),
        "max_rate_units": samples["rate_units"],
        "throttled_samples": throttled.cast(pa.int64()),
        # Null if no sample has a throttle time: a sum ignores nulls, and is null if all values are.
        "throttled_ms": pc.if_else(pc.is_valid(throttle), throttled_ms, None),
        "censored_ms": pc.if_else(pc.equal(samples["censored"], str(Censored.YES)), lasted, 0),
    }
    grouped = pa.table(columns).group_by([*_SERIES, "bucket_ms"], use_threads=False)
    sums = ("sum_dt_ms", "sum_units", "throttled_samples", "throttled_ms", "censored_ms")
    total = grouped.aggregate(
        [("sum_dt_ms", "count"), ("max_rate_units", "max"), *((name, "sum") for name in sums)]
    )
    named = {name: total[name] for name in (*_SERIES, "bucket_ms")} | {
        "n": total["sum_dt_ms_count"],
        "max_rate_units": total["max_rate_units_max"],
        **{name: total[f"{name}_sum"] for name in sums},
    }
    return arrow_tables.conformed(USAGE_5M, pa.table(named))


def usage_hist_d(samples: pa.Table) -> pa.Table:
    """Convert rows of ``usage_sample`` to rows of ``usage_hist_d``."""
    buckets = pa.array(bucket_indexes(samples["rate_units"].to_numpy()))
    columns = {name: samples[name] for name in _SERIES} | {
        "bucket": buckets.cast(pa.int32()),
        "dt_ms": samples["dt_ms"].cast(pa.int64()),
    }
    total = pa.table(columns).group_by([*_SERIES, "bucket"], use_threads=False)
    rows = total.aggregate([("dt_ms", "sum")]).rename_columns([*_SERIES, "bucket", "n_dt_ms"])
    return arrow_tables.conformed(USAGE_HIST_D, rows)


ROLLUPS: Final[tuple[tuple[Table, Callable[[pa.Table], pa.Table]], ...]] = (
    (USAGE_5M, usage_5m),
    (USAGE_HIST_D, usage_hist_d),
)


def update(
    lake: Lake, cluster_id: str, first: dt.date | None = None, last: dt.date | None = None
) -> None:
    """Write the sums and histograms of the stored days of samples whose own are missing or of other samples.

    Args:
        first: The first day; all by default.
        last: The last day, inclusive.

    Raises:
        LakeConflict: Other writers were first on every attempt.
        LakeError: The lake cannot be read or written.
    """
    window = [cluster_id], first, last
    samples = {day.unit.day: day for day in lake.days(USAGE_SAMPLE, *window)}
    for table, _ in ROLLUPS:
        inputs = dict(
            each(lambda unit: (unit.day, _inputs(lake, unit)), lake.units(table, *window))
        )
        for day, of_samples in samples.items():
            if inputs.get(day) != _inputs_of(of_samples):
                write(lake, cluster_id, day)


def _inputs(lake: Lake, unit: Unit) -> Mapping[str, str]:
    facts = lake.facts(unit)
    return facts.inputs if facts else {}


def write(lake: Lake, cluster_id: str, day: dt.date) -> None:
    """Write the sums and histograms of a stored day of samples, unless those that are stored are of these samples.

    Raises:
        LakeConflict: Other writers were first on every attempt.
        LakeError: There are no samples of this day, or the lake cannot be read or written.
    """
    of_samples = Unit(table=USAGE_SAMPLE, cluster_id=cluster_id, day=day)
    for table, rows in ROLLUPS:

        def content(
            after: StoredDay | None, rows: Callable[[pa.Table], pa.Table] = rows
        ) -> UnitContent | None:
            # After the version to replace is known: a writer that replaces the samples later replaces these rows, too.
            # Whole, so that rows and inputs are of one version.
            samples = lake.day(of_samples) or lake.open(of_samples)
            inputs = _inputs_of(samples)
            if after is not None and after.inputs == inputs:
                return None
            read_rows = lake.read([samples], table=USAGE_SAMPLE)
            return UnitContent(rows=rows(read_rows), inputs=inputs, partial=samples.partial)

        _ = lake.update(Unit(table=table, cluster_id=cluster_id, day=day), content, is_derived=True)


def _inputs_of(samples: StoredDay) -> dict[str, str]:
    origin = json.dumps([samples.rows, samples.origin, samples.partial], sort_keys=True)
    return {USAGE_SAMPLE.name: hashlib.sha256(origin.encode()).hexdigest(), "rule": RULE}


DIRECTIONS: Final = {
    str(QuotaType.PRODUCE): str(TrafficDirection.INGRESS),
    str(QuotaType.FETCH): str(TrafficDirection.EGRESS),
}
"""The direction of the bytes of a quota type; other types do not count bytes."""

INTERVALS: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster_id", *SERIES)),
        ("bucket_ms", pa.int64()),
        ("rate_units", pa.int64()),
    ]
)
"""The rate of a bucket on a broker in five minutes; without names of a bucket, of all buckets of a quota type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalTask:
    """The five-minute intervals of one day of a cluster."""

    unit: Unit  # of `usage_5m`
    window: tuple[int, int]
    # Quota type, broker id and begin of the intervals to return by bucket; None = all, buckets added up.
    only: frozenset[tuple[str, str, int]] | None
    rows: int

    def run(self, lake: LakeReader) -> pa.Table:
        """Return the rates of the types that count bytes, as :data:`INTERVALS`."""
        file = TableFile(lake.reader, self.unit.path, USAGE_5M)
        columns = [*SERIES, "bucket_ms", "sum_units", "sum_dt_ms"]
        every = pa.concat_tables([INTERVALS.empty_table(), *file.map_groups(columns, self._chosen)])
        return every if self.only is not None else _totals(every)

    def _chosen(self, rows: pa.Table) -> pa.Table:
        rows = within(rows, self.window, "bucket_ms")
        counted = pc.is_in(rows["quota_type"].cast(pa.string()), pa.array(list(DIRECTIONS)))
        rows = rows.filter(pc.and_(counted, pc.greater(rows["sum_dt_ms"], 0)))
        rate = pc.divide(pc.multiply(rows["sum_units"], 1000), rows["sum_dt_ms"])
        columns = {name: rows[name].cast(pa.string()) for name in SERIES}
        columns |= {"bucket_ms": rows["bucket_ms"], "rate_units": rate}
        columns["cluster_id"] = pa.repeat(self.unit.cluster_id, rows.num_rows)
        rows = pa.table(columns).select(INTERVALS.names).cast(INTERVALS)
        if self.only is None:
            return _totals(rows)
        names = zip(
            *(rows[name].to_pylist() for name in ("quota_type", "broker_id", "bucket_ms")),
            strict=True,
        )
        return rows.filter(pa.array([name in self.only for name in names], pa.bool_()))


def _totals(rows: pa.Table) -> pa.Table:
    names = ["cluster_id", "quota_type", "broker_id", "bucket_ms"]
    total = rows.group_by(names, use_threads=False).aggregate([("rate_units", "sum")])
    columns = {name: total[name] for name in names} | {"rate_units": total["rate_units_sum"]}
    for name in SERIES[1:5]:
        columns[name] = pa.repeat("", total.num_rows)
    return pa.table(columns).select(INTERVALS.names).cast(INTERVALS)
