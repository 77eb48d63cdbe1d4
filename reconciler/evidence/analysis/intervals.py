"""The rates of five-minute intervals, read from ``usage_5m``."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.store.files.parquet_files import TableFile
from reconciler.evidence.store.lake import LakeReader, within
from reconciler.evidence.store.series_index import SERIES
from reconciler.evidence.store.stored_days import Unit
from reconciler.usage.reports.usage import TrafficDirection
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import USAGE_5M

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
