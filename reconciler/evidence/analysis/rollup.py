"""Five-minute sums and daily histograms of the samples of a day."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.kernel.histogram import bucket_indexes
from reconciler.usage.samples import Censored
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, Table

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
