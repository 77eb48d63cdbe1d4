"""What a change of limits would have done to recorded use: samples and questions in, rows of ``impact_row`` out.

Spark finds the samples of each bucket that is asked for and brings them together; the rows are made by
:func:`reconciler.usage.impact.replay.replayed`, as in a preview.
"""

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables import bounded_rows
from reconciler.evidence.spark.tables.latest_snapshots import MOST_CLUSTERS
from reconciler.evidence.spark.tables.schemas import conforming, struct
from reconciler.evidence.spark.usage import series_blocks
from reconciler.evidence.spark.usage.candidate_plans import columns_of
from reconciler.evidence.spark.usage.impact_query import (
    ASKED,
    BUCKET,
    bucket_of_row,
)
from reconciler.evidence.store.files import arrow_tables
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import BucketInput, ImpactRequest
from reconciler.usage.impact.replay import replayed
from reconciler.usage.impact.tier_policy import NOT_STATED, ConsumerFetches
from reconciler.usage.kernel.series import NOTHING
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import IMPACT_ROW
from reconciler.usage.throttle_models import MIN_DELAY_MS

AT_ONCE: Final = 16
"""Rows of one cluster that one call of Python makes: each call costs a millisecond, and holds the samples of its rows."""


def impacts(
    samples: DataFrame,
    questions: DataFrame,
    day: dt.date,
    *,
    min_delay_ms: int = MIN_DELAY_MS,
    broadcast: bool = True,
    consumers: ConsumerFetches = NOT_STATED,
) -> DataFrame:
    """Each bucket that changes on each broker, before and after: ``usage.impact.replay.judged`` of every cluster.

    Args:
        samples: Rows of ``usage_sample`` within the window.
        questions: What :func:`reconciler.evidence.spark.usage.impact_query.questions` answered; kept, for it is read several times.
        day: The last day of the window.
        min_delay_ms: A shorter delay is no throttling.
        broadcast: Whether the buckets that are asked for fit every executor; else samples are shuffled once more.
        consumers: How large the fetches of consumers are.
    """
    requests = questions.where(fn.col("item") == ASKED).withColumn(
        "cluster", cluster_number(questions)
    )
    parts = parts_of(requests)
    read = samples.join(
        fn.broadcast(parts) if broadcast else parts,
        ["cluster_id", "quota_type", "broker_id", *BUCKET],
    )
    blocks = series_blocks.packed(read, ("cluster", "n", "slot"))
    portion = series_blocks.portion(AT_ONCE)
    rows = (
        requests.groupBy("cluster", portion)
        .cogroup(blocks.groupBy("cluster", portion))
        .applyInArrow(_replaying(day, min_delay_ms, consumers), struct(IMPACT_ROW))
    )
    return conforming(rows, IMPACT_ROW)


def cluster_number(frame: DataFrame) -> Column:
    """The place of each cluster among those of a frame, from 1: a number travels with each sample, an id would be long."""
    once = bounded_rows.rows(frame.select("cluster_id").distinct(), MOST_CLUSTERS, "clusters")
    names = fn.array(*(fn.lit(name) for name in sorted(row.cluster_id for row in once)))
    return fn.array_position(names, fn.col("cluster_id")).cast("int")


def parts_of(requests: DataFrame) -> DataFrame:
    """The series to read, one row for each part of each row that is asked for."""
    parts = requests.select(
        "cluster",
        "n",
        "cluster_id",
        "quota_type",
        "broker_id",
        fn.posexplode("parts").alias("slot", "part"),
    )
    return parts.select("*", *(fn.col(f"part.{name}").alias(name) for name in BUCKET)).drop("part")


def _replaying(
    day: dt.date, min_delay_ms: int, consumers: ConsumerFetches
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """The grouped call: rows that are asked for and the samples of their parts -> rows of ``impact_row``."""

    def replay(requests: pa.Table, blocks: pa.Table) -> pa.Table:
        series = series_blocks.series_by(blocks, ("n", "slot"))
        rows: list[dict[str, Any]] = []
        for row in requests.to_pylist():
            request = _request(row)
            parts = [series.get((row["n"], slot), NOTHING) for slot in range(len(request.parts))]
            impact = replayed(
                row["cluster_id"],
                request,
                parts,
                row["max_gap_ms"],
                min_delay_ms,
                consumers=consumers,
            )
            rows.append(columns_of(impact) | {"day": day})
        return pa.Table.from_pylist(rows, schema=arrow_tables.schema(IMPACT_ROW))

    return replay


def _request(row: dict[str, Any]) -> ImpactRequest:
    return ImpactRequest(
        quota_type=QuotaType(row["quota_type"]),
        bucket=bucket_of_row(row),
        any_name=row["any_name"],
        broker_id=row["broker_id"],
        answer=Identifiability(row["answer"]),
        parts=tuple(
            BucketInput(bucket=bucket_of_row(part), limit=part["limit"]) for part in row["parts"]
        ),
        before_units=row["before_units"],
        after_units=row["after_units"],
        source_entity=row["source_entity"],
        reason=row["why"],
    )
