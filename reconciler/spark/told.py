"""What people are shown of very many rows: the worst tenants, whole, and counts of the rest. Only these reach the driver."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from reconciler.spark import bounded
from reconciler.spark.question import (
    ASKED,
    BUCKET,
    FLIPPED,
    NOTE,
    UNEXPLAINED,
    bucket_of_row,
)
from reconciler.spark.report_rows import severity, tally, value_of
from reconciler.spark.schemas import struct
from reconciler.usage.findings import Evidence, ImpactRow, Simulation
from reconciler.usage.question import Question
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import IMPACT_ROW
from reconciler.usage.tiers import ELASTIC, Elastic, WhatIfPolicy
from reconciler.usage.verdict import Verdict
from reconciler.usage.whatif import CONSUMERS, MOST_NAMES, MOST_ROWS, Noticed, told

TENANT: Final = ("cluster_id", "quota_type", *BUCKET, "any_name")


MOST_SHOWN: Final = 100_000
"""Rows of whole tenants that may come to the driver."""


def impact_row(row: dict[str, Any]) -> ImpactRow:
    """A row of ``impact_row`` as the value that renderers know."""
    return value_of(row, ImpactRow)


def _refusing(
    policy: WhatIfPolicy,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The tenants of rows that a policy refuses, as the core says."""

    def refused(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(_TENANT)
        for batch in batches:
            rows = [
                {name: row[name] for name in TENANT}
                for row in batch.to_pylist()
                if told([impact_row(row)], (), policy).breaches
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    return refused


_TENANT: Final = StructType([one for one in struct(IMPACT_ROW).fields if one.name in TENANT])


def worst_tenants(rows: DataFrame, policy: WhatIfPolicy, most: int) -> DataFrame:
    """All rows of the tenants that people are shown: those that the policy refuses, then the worst.

    Args:
        rows: Of ``impact_row``; kept.
        policy: The tiers.
        most: How many tenants.
    """
    worse = rows.where(fn.col("verdict") == str(Verdict.WORSE))
    refused = worse.mapInArrow(_refusing(policy), _TENANT).distinct()
    bad = fn.struct(
        severity().alias("severity"),
        fn.coalesce(fn.col("after_throttled_ms"), fn.lit(0)).alias("throttled"),
        fn.coalesce(fn.col("after_max_delay_ms"), fn.lit(0)).alias("delay"),
    )
    ranked = rows.groupBy(*TENANT).agg(fn.max(bad).alias("worst"))
    first = (
        ranked.join(refused.withColumn("refused", fn.expr("true")), list(TENANT), "left")
        .orderBy(fn.coalesce("refused", fn.expr("false")).desc(), fn.desc("worst"), *TENANT)
        .limit(most)
        .select(*TENANT)
    )
    return rows.join(fn.broadcast(first), list(TENANT), "left_semi")


def simulation(
    rows: DataFrame,
    questions: DataFrame,
    evidence: tuple[Evidence, ...],
    policy: WhatIfPolicy,
    *,
    notes: tuple[str, ...] = (),
    most: int = MOST_ROWS,
) -> Simulation:
    """The report: at most ``most`` tenants, and counts of the rest.

    Args:
        rows: Of ``impact_row``; kept.
        questions: What was asked, for what was noticed on the way; kept.
        evidence: One per cluster.
        policy: The tiers.
        notes: More sentences.
        most: How many tenants, and about how many rows.
    """
    if policy.elastic is Elastic.IGNORE:
        elastic = fn.col("quota_type").isin(*map(str, ELASTIC))
        ignored = rows.where(elastic).select(*TENANT).distinct().count()
        notes = (*notes, f"{ignored:,} {CONSUMERS}") if ignored else notes
        rows = rows.where(~elastic)
    shown = [
        impact_row(row.asDict())
        for row in bounded.rows(
            worst_tenants(rows, policy, most), MOST_SHOWN, "rows of the worst tenants"
        )
    ]
    counted = tally(rows)
    beside = questions.where(fn.col("item") != ASKED)
    amounts = {
        row["item"]: row["count"]
        for row in bounded.rows(beside.groupBy("item").count(), 3, "counts")
    }
    found = told(
        shown,
        evidence,
        policy,
        questions=[_question(beside)],
        notes=(*notes, *_more(amounts.get(NOTE, 0))),
        noticed=Noticed(amounts.get(FLIPPED, 0), amounts.get(UNEXPLAINED, 0)),
        most=most,
    )
    return replace(
        found,
        left_out=counted.rows - len(found.rows),
        left_blind=counted.blind - sum(not one.judged for one in found.rows),
        verdicts=counted.verdicts,
    )


def _question(beside: DataFrame) -> Question:
    """What was noticed, of all clusters; so many of each as are shown."""
    items = {}
    for item in (FLIPPED, UNEXPLAINED):
        rows = beside.where(fn.col("item") == item).orderBy("cluster_id", "n").limit(MOST_NAMES)
        items[item] = tuple(
            (row["cluster_id"], QuotaType(row["quota_type"]), bucket_of_row(row.asDict()))
            for row in bounded.rows(rows, MOST_NAMES, "buckets")
        )
    texts = beside.where(fn.col("item") == NOTE).orderBy("cluster_id", "n").limit(MOST_NAMES)
    return Question(
        cluster_id="",
        asked=(),
        flipped=items[FLIPPED],
        unexplained=items[UNEXPLAINED],
        notes=tuple(
            f"{row['cluster_id']}: {row['why']}"
            for row in bounded.rows(texts, MOST_NAMES, "sentences")
        ),
    )


def _more(sentences: int) -> tuple[str, ...]:
    """How many sentences there are, where they are more than are told."""
    if sentences <= MOST_NAMES:
        return ()
    return (f"{sentences:,} sentences about whole types in all; the first {MOST_NAMES} are told",)
