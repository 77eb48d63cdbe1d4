"""T11, what-if: every column of every row equals the core's, over generated fleets and a hundred thousand samples."""

import datetime as dt
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.usage import impact_query as question
from reconciler.evidence.spark.usage import series_blocks, simulation
from reconciler.evidence.store import sample_runs
from reconciler.quota.entity import ABSENT, Entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.impact.query import impact_query
from reconciler.usage.impact.result_rows import ImpactRow
from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.tables import IMPACT_ROW, USAGE_SAMPLE
from reconciler.usage.tags import Bucket, bucket_of
from tests.evidence.spark import cases, plans, replays
from tests.usage import whatif_cases
from tests.usage.recorded import judged
from tests.usage.reference import Sample
from tests.usage.whatif_cases import CADENCE

pytestmark = pytest.mark.integration

CASES = 240
DAY = dt.date(2026, 11, 21)
COMPARED = (
    "cluster_id",
    "quota_type",
    "group_kind",
    "user",
    "client_id",
    "ip",
    "any_name",
    "broker_id",
    "before_units",
    "after_units",
    "source_entity",
    "answer",
    "verdict",
    "bound",
    "model",
    "before_throttled_ms",
    "before_max_delay_ms",
    "observed_throttled_ms",
    "after_throttled_ms",
    "after_max_delay_ms",
    "worst_throttled_ms",
    "worst_max_delay_ms",
    "after_over_timeout_ms",
    "delayed_units",
    "unfinished",
    "covered_ms",
    "censored_ms",
    "why",
    "day",
)
"""The compared columns, each exactly: all of ``impact_row``."""


def plain(row: ImpactRow) -> tuple[object, ...]:
    """The columns of a row of the core."""
    bucket = row.bucket
    of_bucket = {
        "group_kind": str(bucket.kind),
        "user": bucket.user,
        "client_id": bucket.client_id,
        "ip": bucket.ip,
        "day": DAY,
    }
    return tuple(of_bucket[name] if name in of_bucket else getattr(row, name) for name in COMPARED)


def frame_of(spark: SparkSession, fleets: list[whatif_cases.Case]) -> DataFrame:
    return spark.createDataFrame(
        [
            row
            for fleet in fleets
            for kind, buckets in fleet.series.items()
            for bucket, brokers in buckets.items()
            for broker, samples in brokers.items()
            for row in cases.sample_rows(fleet.cluster_id, kind, bucket, broker, samples)
        ],
        cases.SAMPLE_SCHEMA,
    )


def series_of(samples: DataFrame) -> DataFrame:
    return samples.select(*sample_runs.SERIES).distinct()


def changes_of(fleets: list[whatif_cases.Case]) -> dict[str, question.ClusterChange]:
    return {
        fleet.cluster_id: question.ClusterChange(
            max_gap_ms=CADENCE.max_gap_ms,
            before=fleet.before,
            after=fleet.after,
            recorded=fleet.recorded,
        )
        for fleet in fleets
    }


def buckets_by_broker(fleet: whatif_cases.Case) -> dict[QuotaType, dict[str, set[Bucket]]]:
    result: dict[QuotaType, dict[str, set[Bucket]]] = {}
    for kind, buckets in fleet.series.items():
        for bucket, brokers in buckets.items():
            for broker, samples in brokers.items():
                if samples:
                    result.setdefault(kind, {}).setdefault(broker, set()).add(bucket)
    return result


def of_core(fleet: whatif_cases.Case) -> list[tuple[object, ...]]:
    observed_buckets = buckets_by_broker(fleet)
    asks = impact_query(
        fleet.cluster_id,
        fleet.before,
        fleet.after,
        observed_buckets,
        measured=set(observed_buckets),
        recorded=fleet.recorded,
    )
    return [plain(row) for row in judged(asks, fleet.series, CADENCE)]


def test_every_column_of_240_generated_fleets_equals_that_of_the_core(spark: SparkSession) -> None:
    fleets = [whatif_cases.case(number, length=30) for number in range(CASES)]
    samples = frame_of(spark, fleets).repartition(2).persist()
    questions = question.questions(series_of(samples), changes_of(fleets)).persist()
    impacts = simulation.impacts(series_blocks.packed(samples), questions, changes_of(fleets), DAY)
    rows = sorted(tuple(row[name] for name in COMPARED) for row in impacts.collect())
    expected = sorted((row for fleet in fleets for row in of_core(fleet)), key=lambda row: row[:8])
    columns = {name: {row[n] for row in expected} for n, name in enumerate(COMPARED)}
    questions.unpersist()
    samples.unpersist()
    assert set(COMPARED) == set(IMPACT_ROW.names)
    assert len(expected) > 1000
    assert columns["quota_type"] == set(QuotaType)
    assert len(columns["answer"]) == 4
    assert len(columns["verdict"]) == 6
    assert len(columns["bound"]) == 3
    assert sorted(rows, key=lambda row: row[:8]) == expected


SERIES, EACH = 40, 2_700


def test_a_hundred_thousand_samples_give_the_rows_of_the_core(spark: SparkSession) -> None:
    """108,000 samples: two tenants merged into one bucket on each of 20 brokers, with one higher limit each."""
    frame, fleet = merged_tenants(spark)
    assert frame.count() >= 100_000
    questions = question.questions(series_of(frame), changes_of([fleet])).persist()
    runs = series_blocks.packed(frame)
    impacts = simulation.impacts(runs, questions, [fleet.cluster_id], DAY).collect()
    questions.unpersist()
    rows = sorted(
        (tuple(row[name] for name in COMPARED) for row in impacts), key=lambda row: row[:8]
    )
    expected = sorted(of_core(fleet), key=lambda row: row[:8])
    assert len(expected) >= 20
    assert rows == expected


def merged_tenants(spark: SparkSession) -> tuple[DataFrame, whatif_cases.Case]:
    """The frame and the equal case of the core, from one formula."""
    app, job = bucket_of("alice", "app"), bucket_of("alice", "job")
    entities = [Entity(("alice", name, ABSENT)) for name in ("app", "job")]
    rate = Key.PRODUCER_BYTE_RATE
    before = QuotaState().with_values([(entity, rate, 60_000.0) for entity in entities])
    gone: list[tuple[Entity, Key, float | None]] = [(entity, rate, None) for entity in entities]
    after = before.with_values([*gone, (Entity(("alice", ABSENT, ABSENT)), rate, 99_999.0)])
    series: dict[Bucket, dict[str, list[Sample]]] = {app: {}, job: {}}
    for number in range(SERIES):
        bucket, broker = (app, job)[number % 2], str(number // 2)
        series[bucket][broker] = [
            Sample(_ts(n), 30_000, (n * 7919 + number * 104_729) % 100_003, 0, Censored.NO)
            for n in range(EACH)
        ]
    case = whatif_cases.Case(
        cluster_id="merged",
        before=before,
        after=after,
        observed_buckets={},
        measured=frozenset({QuotaType.PRODUCE}),
        series={QuotaType.PRODUCE: series},
    )
    number, n = fn.col("number"), fn.col("n")
    numbers = spark.range(SERIES * EACH).select(
        (fn.col("id") % SERIES).alias("number"),
        fn.floor(fn.col("id") / SERIES).alias("n"),
    )
    frame = numbers.select(
        fn.lit("merged").alias("cluster_id"),
        fn.lit("produce").alias("quota_type"),
        fn.lit("pair").alias("group_kind"),
        fn.lit("alice").alias("user"),
        fn.when(number % 2 == 0, "app").otherwise("job").alias("client_id"),
        fn.lit("").alias("ip"),
        fn.floor(number / 2).cast("string").alias("broker_id"),
        (fn.lit(_ts(0)) + n * 30_000 + fn.when(n >= 900, 200_000).otherwise(0)).alias("ts_ms"),
        fn.lit(30_000).alias("dt_ms"),
        ((n * 7919 + number * 104_729) % 100_003).alias("rate_units"),
        fn.lit(0).cast("bigint").alias("throttle_ms"),
        fn.lit("no").alias("censored"),
    )
    return frame.persist(), case


def _ts(n: int) -> int:
    """Thirty seconds apart, with one gap that ends a session."""
    return 1_760_000_000_000 + n * 30_000 + (200_000 if n >= 900 else 0)


def test_samples_are_shuffled_as_runs_and_spark_reads_no_single_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    fleets = [whatif_cases.case(number, length=8) for number in range(6)]
    lake = replays.filled(tmp_path, fleets, CADENCE)
    samples = series_blocks.SampleFiles(
        spark=spark, lake=lake, units=lake.manifests(USAGE_SAMPLE), from_ms=0, to_ms=2**60
    )
    rows = question.questions(samples.series(), changes_of(fleets)).collect()
    asks = spark.createDataFrame(rows, question.ROWS)
    runs = samples.runs(simulation.series_of(asks))
    plan = plans.of(simulation.impacts(runs, asks, changes_of(fleets), DAY))
    assert not any(name in plan.text for name in ("BatchEvalPython", "ArrowEvalPython"))
    exchanges = [line for line in plan.text.splitlines() if " Exchange hashpartitioning" in line]
    assert len(exchanges) == 2, plan.text  # requests, and runs
    assert "FileScan" not in plan.text
