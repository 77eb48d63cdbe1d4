"""T11, what-if: every column of every row is that of the core, over generated fleets and over a million samples."""

import datetime as dt

import pytest
from pyspark.sql import DataFrame, SparkSession

from reconciler.spark import question, simulate
from reconciler.usage.findings import ImpactRow
from reconciler.usage.question import asked
from reconciler.usage.samples import QuotaType
from reconciler.usage.tables import IMPACT_ROW
from reconciler.usage.tags import Bucket
from reconciler.usage.whatif import judged
from tests.spark import cases
from tests.usage import whatif_cases
from tests.usage.whatif_cases import CADENCE

pytestmark = pytest.mark.integration

CASES = 240
DAY = dt.date(2026, 11, 21)
COMPARED = (
    "cluster_id", "quota_type", "group_kind", "user", "client_id", "ip", "any_name", "broker_id",
    "before_units", "after_units", "source_entity", "answer", "verdict", "bound", "model",
    "before_throttled_ms", "before_max_delay_ms", "observed_throttled_ms", "after_throttled_ms",
    "after_max_delay_ms", "after_over_timeout_ms", "delayed_units", "unfinished", "covered_ms",
    "censored_ms", "why", "day",
)  # fmt: skip
"""What is compared, column by column and exactly: all of ``impact_row``."""


def plain(row: ImpactRow) -> tuple[object, ...]:
    """The columns of a row of the core."""
    bucket = row.bucket
    of_bucket = {
        "group_kind": str(bucket.kind), "user": bucket.user, "client_id": bucket.client_id,
        "ip": bucket.ip, "day": DAY,
    }  # fmt: skip
    return tuple(of_bucket[name] if name in of_bucket else getattr(row, name) for name in COMPARED)


def frame_of(spark: SparkSession, fleets: list[whatif_cases.Case]) -> DataFrame:
    return spark.createDataFrame(
        [
            row
            for one in fleets
            for kind, buckets in one.series.items()
            for bucket, brokers in buckets.items()
            for broker, samples in brokers.items()
            for row in cases.sample_rows(one.cluster_id, kind, bucket, broker, samples)
        ],
        cases.SAMPLE_SCHEMA,
    )


def facts_of(spark: SparkSession, fleets: list[whatif_cases.Case], samples: DataFrame) -> DataFrame:
    found = question.seen(samples)
    rows = []
    for one in fleets:
        rows += question.told(
            one.cluster_id, CADENCE, measured=one.measured,
            states={question.BEFORE: one.before, question.AFTER: one.after},
        )  # fmt: skip
    return found.unionByName(spark.createDataFrame(rows, question.FACTS))


def seen_of(one: whatif_cases.Case) -> dict[QuotaType, dict[str, set[Bucket]]]:
    found: dict[QuotaType, dict[str, set[Bucket]]] = {}
    for kind, buckets in one.series.items():
        for bucket, brokers in buckets.items():
            for broker, samples in brokers.items():
                if samples:
                    found.setdefault(kind, {}).setdefault(broker, set()).add(bucket)
    return found


def of_core(one: whatif_cases.Case) -> list[tuple[object, ...]]:
    asks = asked(one.cluster_id, one.before, one.after, seen_of(one), measured=one.measured)
    return [plain(row) for row in judged(asks, one.series, CADENCE)]


@pytest.mark.parametrize("wide", [False, True], ids=["64 bits", "38 digits"])
def test_every_column_of_240_generated_fleets_is_that_of_the_core(
    spark: SparkSession, wide: bool
) -> None:
    fleets = [whatif_cases.case(number, length=30) for number in range(CASES)]
    samples = frame_of(spark, fleets).repartition(2).persist()
    questions = question.questions(facts_of(spark, fleets, samples)).persist()
    found = simulate.impacts(samples, questions, DAY, wide=wide)
    rows = sorted(tuple(row[name] for name in COMPARED) for row in found.collect())
    expected = sorted((row for one in fleets for row in of_core(one)), key=lambda row: row[:8])
    told = {name: {row[n] for row in expected} for n, name in enumerate(COMPARED)}
    questions.unpersist()
    samples.unpersist()
    assert set(COMPARED) == set(IMPACT_ROW.names)
    assert len(expected) > 1000
    assert told["quota_type"] == set(QuotaType)
    assert len(told["answer"]) == 4
    assert len(told["verdict"]) == 6
    assert len(told["bound"]) == 3
    assert sorted(rows, key=lambda row: row[:8]) == expected
