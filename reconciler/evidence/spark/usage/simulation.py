"""The effect of changed limits on recorded use: runs of samples and affected rows in, rows of ``impact_row`` out.

Spark collects the runs of samples of each affected bucket; :func:`reconciler.usage.impact.replay.replayed` computes the rows, as
in a preview.
"""

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from reconciler.codecs.reader import DocumentReader
from reconciler.codecs.row_values import read_row, row_document
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage import series_blocks
from reconciler.evidence.spark.usage.impact_query import ASKED, BUCKET
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.sample_runs import SERIES
from reconciler.usage.impact.query import ImpactRequest
from reconciler.usage.impact.replay import replayed
from reconciler.usage.impact.tier_policy import NOT_STATED, ConsumerFetches
from reconciler.usage.kernel.series import NOTHING
from reconciler.usage.tables import IMPACT_ROW

AT_ONCE: Final = 16
"""Rows per Python call: a call costs a millisecond, and has the samples of its rows in memory."""


def impacts(
    runs: DataFrame,
    questions: DataFrame,
    cluster_ids: Iterable[str],
    day: dt.date,
    *,
    broadcast: bool = True,
    consumers: ConsumerFetches = NOT_STATED,
) -> DataFrame:
    """Return each affected bucket on each broker, before and after: ``usage.impact.replay.judged`` of every cluster.

    Args:
        runs: The samples of the window, at least of :func:`series_of`, as :func:`~reconciler.evidence.spark.usage.series_blocks.packed`.
        questions: The result of :func:`reconciler.evidence.spark.usage.impact_query.questions`, persisted, since it is read several times.
        cluster_ids: The clusters of the questions.
        day: The last day of the window.
        broadcast: Whether to broadcast the affected buckets to every executor; otherwise runs are shuffled once more.
        consumers: The sizes of consumer fetches.
    """
    requests = questions.where(fn.col("item") == ASKED).withColumn(
        "cluster", cluster_number(cluster_ids)
    )
    parts = _parts(requests, "cluster", "n")
    blocks = runs.join(fn.broadcast(parts) if broadcast else parts, [*SERIES]).drop(*SERIES)
    portion = series_blocks.portion(AT_ONCE)
    return (
        requests.groupBy("cluster", portion)
        .cogroup(blocks.groupBy("cluster", portion))
        .applyInArrow(_replaying(day, consumers), struct(IMPACT_ROW))
    )


def cluster_number(cluster_ids: Iterable[str]) -> Column:
    """Return the position of a cluster id among those of a job, from 1: each sample carries it instead of a long id."""
    names = fn.array(*map(fn.lit, sorted(cluster_ids)))
    return fn.array_position(names, fn.col("cluster_id")).cast("int")


def series_of(questions: DataFrame) -> DataFrame:
    """Return the series to read, each once: :data:`~reconciler.evidence.store.sample_runs.SERIES`."""
    return _parts(questions.where(fn.col("item") == ASKED)).select(*SERIES).distinct()


def _parts(requests: DataFrame, *names: str) -> DataFrame:
    """Return one row for each part of each affected row: its series, its ``slot``, and some columns of the row."""
    parts = requests.select(
        # New columns: Spark takes those of both sides of a cogroup for the same if they come from one frame.
        *(fn.col(name).alias(name) for name in names),
        "cluster_id",
        "quota_type",
        "broker_id",
        fn.posexplode("parts").alias("slot", "part"),
    )
    return parts.select("*", *(fn.col(f"part.{name}").alias(name) for name in BUCKET)).drop("part")


def _replaying(
    day: dt.date, consumers: ConsumerFetches
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Return the grouped function that converts affected rows and the samples of their parts to rows of ``impact_row``."""

    def replay(requests: pa.Table, blocks: pa.Table) -> pa.Table:
        series = series_blocks.series_by(blocks, ("n", "slot"))
        rows: list[dict[str, Any]] = []
        for row in requests.to_pylist():
            request = read_row(DocumentReader(row), ImpactRequest)
            parts = [series.get((row["n"], slot), NOTHING) for slot in range(len(request.parts))]
            impact = replayed(row["cluster_id"], request, parts, row["max_gap_ms"], consumers)
            rows.append({**row_document(impact), "day": day})
        return pa.Table.from_pylist(rows, schema=arrow_tables.schema(IMPACT_ROW))

    return replay
