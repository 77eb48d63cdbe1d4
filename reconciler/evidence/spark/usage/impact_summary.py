"""A summary of very many rows for people: the worst tenants with all their rows, and counts of the rest. Only these reach the driver."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from reconciler.codecs.reader import DocumentReader
from reconciler.codecs.row_values import read_row
from reconciler.evidence.spark.tables import bounded_rows
from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage.impact_query import ASKED, BUCKET, FLIPPED, NOTE, UNEXPLAINED
from reconciler.evidence.spark.usage.report_rows import severity, tally
from reconciler.usage.impact.query import ImpactQuery
from reconciler.usage.impact.result_rows import EvidenceNote, ImpactRow, Simulation
from reconciler.usage.impact.tier_policy import ELASTIC, ElasticHandling, WhatIfPolicy
from reconciler.usage.impact.verdict import ImpactVerdict
from reconciler.usage.impact.what_if import (
    CONSUMERS,
    MOST_ROWS,
    summarize,
)
from reconciler.usage.tables import IMPACT_ROW

TENANT: Final = ("cluster_id", "quota_type", *BUCKET, "any_name")


MOST_SHOWN: Final = 100_000
"""Maximum number of rows of the worst tenants on the driver."""

MOST_NOTES: Final = 50
"""Maximum number of sentences about whole types."""


def _refusing(
    policy: WhatIfPolicy,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that finds the tenants of rows that the policy refuses, by ``summarize`` of ``usage``."""

    def refused(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(_TENANT)
        for batch in batches:
            rows = [
                {name: row[name] for name in TENANT}
                for row in batch.to_pylist()
                if summarize([read_row(DocumentReader(row), ImpactRow)], (), policy).breaches
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return refused


_TENANT: Final = StructType(
    [struct_field for struct_field in struct(IMPACT_ROW).fields if struct_field.name in TENANT]
)


def worst_tenants(rows: DataFrame, policy: WhatIfPolicy, max_rows: int) -> DataFrame:
    """Return all rows of the tenants to show: those that the policy refuses, then the worst.

    Args:
        rows: Rows of ``impact_row``, persisted.
        policy: The tiers.
        max_rows: Maximum number of tenants.
    """
    worse = rows.where(fn.col("verdict") == str(ImpactVerdict.WORSE))
    refused_tenants = worse.mapInArrow(_refusing(policy), _TENANT).distinct()
    bad = fn.struct(
        severity().alias("severity"),
        fn.coalesce(fn.col("after_throttled_ms"), fn.lit(0)).alias("throttled"),
        fn.coalesce(fn.col("after_max_delay_ms"), fn.lit(0)).alias("delay"),
    )
    ranked = rows.groupBy(*TENANT).agg(fn.max(bad).alias("worst"))
    first = (
        ranked.join(refused_tenants.withColumn("refused", fn.expr("true")), list(TENANT), "left")
        .orderBy(fn.coalesce("refused", fn.expr("false")).desc(), fn.desc("worst"), *TENANT)
        .limit(max_rows)
        .select(*TENANT)
    )
    return rows.join(fn.broadcast(first), list(TENANT), "left_semi")


def simulation(
    rows: DataFrame,
    questions: DataFrame,
    evidence: tuple[EvidenceNote, ...],
    policy: WhatIfPolicy,
    *,
    max_rows: int = MOST_ROWS,
) -> Simulation:
    """Return the report: at most ``max_rows`` tenants, and counts of the rest.

    Args:
        rows: Rows of ``impact_row``, persisted.
        questions: The result of ``impact_query.questions`` with its remarks, persisted.
        evidence: One note per cluster.
        policy: The tiers.
        max_rows: Maximum number of tenants, and about the number of rows.
    """
    notes: tuple[str, ...] = ()
    if policy.elastic is ElasticHandling.IGNORE:
        elastic = fn.col("quota_type").isin(*map(str, ELASTIC))
        ignored = rows.where(elastic).select(*TENANT).distinct().count()
        notes = (f"{ignored:,} {CONSUMERS}",) if ignored else ()
        rows = rows.where(~elastic)
    shown_rows = [
        read_row(DocumentReader(row.asDict()), ImpactRow)
        for row in bounded_rows.rows(
            worst_tenants(rows, policy, max_rows), MOST_SHOWN, "rows of the worst tenants"
        )
    ]
    verdict_counts = tally(rows)
    remarks = questions.where(fn.col("item") != ASKED)
    amounts = {
        row["item"]: row
        for row in bounded_rows.rows(
            remarks.groupBy("item").agg(fn.count("*").alias("rows"), fn.sum("n").alias("buckets")),
            3,
            "counts",
        )
    }
    flipped, unexplained = (
        amounts[item]["buckets"] if item in amounts else 0 for item in (FLIPPED, UNEXPLAINED)
    )
    sentences = amounts[NOTE]["rows"] if NOTE in amounts else 0
    if sentences > MOST_NOTES:
        further = (
            f"{sentences:,} sentences about whole types in all; the first {MOST_NOTES} are shown"
        )
        notes += (further,)
    summary = summarize(
        shown_rows,
        evidence,
        policy,
        questions=[
            ImpactQuery(
                cluster_id="",
                requests=(),
                flipped=flipped,
                unexplained=unexplained,
                notes=_first_notes(remarks) if sentences else (),
            )
        ],
        notes=notes,
        max_rows=max_rows,
    )
    return replace(
        summary,
        left_out=verdict_counts.rows - len(summary.rows),
        left_blind=verdict_counts.blind - sum(not impact_row.judged for impact_row in summary.rows),
        verdicts=verdict_counts.verdicts,
    )


def _first_notes(remarks: DataFrame) -> tuple[str, ...]:
    of_notes = remarks.where(fn.col("item") == NOTE).orderBy("cluster_id", "n").limit(MOST_NOTES)
    rows = bounded_rows.rows(of_notes, MOST_NOTES, "remarks")
    return tuple(f"{row['cluster_id']}: {row['reason']}" for row in rows)
