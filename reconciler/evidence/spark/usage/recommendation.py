"""Limits for every bucket at once: runs of samples and cases in, rows of ``recommendation`` out.

Spark groups the samples of each bucket; :func:`reconciler.usage.recommendation.sizing.recommend` computes the limit and its
evidence, and verifies it without reading the files again.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from reconciler.errors import QuotaValueError
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage import series_blocks
from reconciler.evidence.spark.usage.impact_query import BUCKET
from reconciler.evidence.spark.usage.simulation import cluster_number
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.kernel.series import SampleSeries
from reconciler.usage.recommendation.limit_sizes import SizingCase, Tier
from reconciler.usage.recommendation.sizing import recommend
from reconciler.usage.samples import QuotaType, day_of
from reconciler.usage.tables import RECOMMENDATION

AT_ONCE: Final = 4
"""Buckets per Python call; a call has the samples of all their brokers in memory."""

CASES: Final = StructType(
    [
        StructField("cluster_id", StringType()),
        StructField("quota_type", StringType()),
        StructField("n", IntegerType()),
        *(StructField(name, StringType()) for name in BUCKET),
        StructField("source_entity", StringType()),
        StructField("tier", StringType()),
        StructField("current_units", LongType()),
        StructField("budget_units", LongType()),
        StructField("marks", ArrayType(StringType())),
        StructField("max_gap_ms", LongType()),
    ]
)
"""A bucket to size; ``n`` is unique within a cluster, ``marks`` contains :data:`PINNED` and :data:`BUMPED`."""

PINNED, BUMPED = "pinned", "bumped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingParameters:
    """Parameters common to all cases."""

    from_ms: int
    to_ms: int  # end of the window, exclusive; its last week is held out
    # Tiers by the name in cases: `name`, or `name:type` if bounds differ by type.
    tiers: Mapping[str, Tier]

    @property
    def day(self) -> dt.date:
        """The last day of the window, under which results are committed."""
        return day_of(self.to_ms - 1)

    def tier(self, name: str, kind: QuotaType) -> Tier:
        """Return the tier of a name, with the bounds of a type."""
        return self.tiers.get(f"{name}:{kind}") or self.tiers[name]


def recommendations(
    runs: DataFrame,
    cases: DataFrame,
    cluster_ids: Iterable[str],
    sizing: SizingParameters,
    *,
    broadcast: bool = True,
) -> DataFrame:
    """Return a limit for each case with its evidence: ``usage.recommendation.sizing.recommend`` of every bucket.

    Args:
        runs: The samples of the window, as :func:`~reconciler.evidence.spark.usage.series_blocks.packed`.
        cases: Rows of :data:`CASES`, persisted, since they are read several times.
        cluster_ids: The clusters of the cases.
        sizing: Window and tiers.
        broadcast: Whether to broadcast the cases to every executor; otherwise runs are shuffled once more.
    """
    numbered = cases.withColumn("cluster", cluster_number(cluster_ids))
    key = ["cluster_id", "quota_type", *BUCKET]
    # New columns: Spark takes those of both sides of a cogroup for the same if they come from one frame.
    owners = numbered.select(*key, *(fn.col(name).alias(name) for name in ("cluster", "n")))
    blocks = runs.join(fn.broadcast(owners) if broadcast else owners, key).drop(*key)
    portion = series_blocks.portion(AT_ONCE)
    return (
        numbered.groupBy("cluster", portion)
        .cogroup(blocks.groupBy("cluster", portion))
        .applyInArrow(_sizing(sizing), struct(RECOMMENDATION))
    )


def _sizing(sizing: SizingParameters) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Return the grouped function that converts cases and their samples to rows of ``recommendation``."""

    def size(cases: pa.Table, blocks: pa.Table) -> pa.Table:
        brokers: dict[int, list[SampleSeries]] = {}
        for (n, _), series in series_blocks.series_by(blocks, ("n", "broker_id")).items():
            brokers.setdefault(n, []).append(series)
        rows = [_row(case, brokers.get(case["n"], []), sizing) for case in cases.to_pylist()]
        return pa.Table.from_pylist(rows, schema=arrow_tables.schema(RECOMMENDATION))

    return size


def _row(
    row: dict[str, Any], brokers: list[SampleSeries], sizing: SizingParameters
) -> dict[str, Any]:
    marks = row["marks"] or ()
    case = SizingCase(
        kind=QuotaType(row["quota_type"]),
        from_ms=sizing.from_ms,
        to_ms=sizing.to_ms,
        max_gap_ms=row["max_gap_ms"],
        current=row["current_units"],
        budget=row["budget_units"],
        pinned=PINNED in marks,
        bumped=BUMPED in marks,
    )
    try:
        sized = recommend(case, sizing.tier(row["tier"], case.kind), brokers)
    except QuotaValueError as error:
        names = "/".join(row[name] for name in BUCKET if row[name])
        raise QuotaValueError(
            f"{case.kind} of {names}: {error.message}", hint=error.hint
        ) from error
    train, test = sized.train, sized.test
    return {name: row.get(name) for name in RECOMMENDATION.names} | {
        "advice": str(sized.advice),
        "target_units": sized.target,
        "needed_units": sized.needed,
        "lower_units": sized.lower,
        "upper_units": sized.upper,
        "worst_week_units": sized.worst_week,
        "peak_units": sized.peak,
        "train_share_ppm": train.share_ppm if train else None,
        "train_max_delay_ms": train.max_delay_ms if train else None,
        "test_share_ppm": test.share_ppm if test else None,
        "test_max_delay_ms": test.max_delay_ms if test else None,
        "confidence_ppm": sized.confidence_ppm,
        "censored_ppm": sized.censored_ppm,
        "rules": [str(rule) for rule in sized.rules],
        "evidence_ms": sized.evidence_ms,
        "samples": sized.samples,
        "brokers": len(brokers),
        "day": sizing.day,
    }
