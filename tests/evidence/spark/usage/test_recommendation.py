"""T11, sizing: every column of every recommendation equals that of the core, over generated buckets of every model."""

import dataclasses
import datetime as dt
import random
from dataclasses import dataclass

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.usage import recommendation, series_blocks
from reconciler.evidence.spark.usage.recommendation import (
    BUMPED,
    PINNED,
    SizingParameters,
)
from reconciler.usage.recommendation.limit_sizes import (
    BATCH,
    GOLD,
    SILVER,
    Advice,
    Recommendation,
    SizingRule,
    Tier,
)
from reconciler.usage.samples import DAY_MS, MAX_UNITS, Censored, QuotaType
from reconciler.usage.tables import RECOMMENDATION
from reconciler.usage.tags import Bucket, bucket_of
from tests.evidence.spark import cases
from tests.usage.recorded import SizingCase
from tests.usage.recorded import recommend as of_core
from tests.usage.reference import Sample

pytestmark = pytest.mark.integration

CASES = 210
FROM, TO = cases.BEGIN, cases.BEGIN + 24 * DAY_MS
GAP = 5 * 3_600_000
TIERS = {
    "gold": GOLD,
    "silver": SILVER,
    "batch": BATCH,
    "gold:fetch": dataclasses.replace(GOLD, floor=5_000, ceiling=70_000),
    "none": Tier(name="none", share_ppm=1, max_delay_ms=0),
}
COMPARED = (
    "cluster_id",
    "quota_type",
    "group_kind",
    "user",
    "client_id",
    "ip",
    "source_entity",
    "tier",
    "advice",
    "current_units",
    "target_units",
    "needed_units",
    "lower_units",
    "upper_units",
    "worst_week_units",
    "peak_units",
    "train_share_ppm",
    "train_max_delay_ms",
    "test_share_ppm",
    "test_max_delay_ms",
    "confidence_ppm",
    "censored_ppm",
    "rules",
    "evidence_ms",
    "samples",
    "brokers",
    "day",
)
"""The compared columns, each exactly: all of ``recommendation``."""


@dataclass(frozen=True)
class Sized:
    cluster_id: str
    bucket: Bucket
    tier: str
    case: SizingCase


def _series(draw: random.Random, scale: int) -> tuple[Sample, ...]:
    """Five weeks in hours, so that a case stays small; starts and ends vary, also outside of the window."""
    hour = 3_600_000
    begin = FROM + draw.choice((-3, 0, 0, 0, 2, 11, 18)) * DAY_MS
    times, ts = [], begin
    while ts < TO + 2 * DAY_MS:
        apart = draw.choice((hour, hour, hour, hour, 2 * hour, 999, GAP, GAP + 1))
        ts += apart
        times.append((ts, hour if apart > GAP else apart))
    calm = draw.random() < 0.7
    return cases.series(
        draw,
        times=times[: draw.choice((3, 90, 600, 600, 600))],
        scale=scale,
        censoring=(Censored.NO,) * 8 + (Censored.UNKNOWN,) if calm else tuple(Censored),
    )


def _sized(number: int) -> Sized:
    draw = random.Random(number)
    kind = draw.choice((QuotaType.PRODUCE, QuotaType.PRODUCE, *QuotaType))
    scale = draw.choice((2, 60, 100_000, 10**9, 10**9, 10**10))
    series = {str(n): _series(draw, scale) for n in range(draw.randrange(4))}
    if draw.random() < 0.1:
        series["9"] = tuple(Sample(FROM + n * 3_600_000 + 5, 3_600_000, 0) for n in range(500))
    if draw.random() < 0.05:
        series["8"] = tuple(
            Sample(FROM + n * 7_200_000 + 5, 300_000, MAX_UNITS if n % 9 else 7) for n in range(240)
        )
    case = SizingCase(
        kind=kind,
        series=series,
        from_ms=FROM,
        to_ms=TO,
        max_gap_ms=GAP,
        current=draw.choice((None, None, scale, 3 * scale, max(1, scale // 3), MAX_UNITS - 1)),
        budget=draw.choice((None, None, None, scale // 2 + 1, 10 * scale)),
        pinned=draw.random() < 0.1,
        bumped=draw.random() < 0.2,
    )
    bucket = (
        bucket_of(ip="10.0.0.1")
        if kind is QuotaType.IP
        else bucket_of("alice", draw.choice(("", "app")))
    )
    return Sized(
        cluster_id=str(number),
        bucket=bucket,
        case=case,
        tier=draw.choice(("gold", "gold", "silver", "batch", "none")),
    )


def _plain(entry: Sized, result: Recommendation) -> tuple[object, ...]:
    case, train, test = entry.case, result.train, result.test
    brokers = [each for each in case.series.values() if any(FROM <= s.ts_ms < TO for s in each)]
    return (
        entry.cluster_id,
        str(case.kind),
        str(entry.bucket.kind),
        entry.bucket.user,
        entry.bucket.client_id,
        entry.bucket.ip,
        "somebody",
        entry.tier,
        str(result.advice),
        result.current,
        result.target,
        result.needed,
        result.lower,
        result.upper,
        result.worst_week,
        result.peak,
        train and train.share_ppm,
        train and train.max_delay_ms,
        test and test.share_ppm,
        test and test.max_delay_ms,
        result.confidence_ppm,
        result.censored_ppm,
        [str(rule) for rule in result.rules],
        result.evidence_ms,
        result.samples,
        len(brokers),
        dt.datetime.fromtimestamp((TO - 1) / 1000, dt.UTC).date(),
    )


def _tier(entry: Sized) -> Tier:
    return TIERS.get(f"{entry.tier}:{entry.case.kind}") or TIERS[entry.tier]


def _frames(spark: SparkSession, sized: list[Sized]) -> tuple[DataFrame, DataFrame]:
    """Runs of the samples of the window, and cases; the cases are cached."""
    in_window = (fn.col("ts_ms") >= FROM) & (fn.col("ts_ms") < TO)
    samples = spark.createDataFrame(
        [
            row
            for entry in sized
            for broker, series in entry.case.series.items()
            for row in cases.sample_rows(
                entry.cluster_id, entry.case.kind, entry.bucket, broker, series
            )
        ],
        cases.SAMPLE_SCHEMA,
    ).repartition(2)
    of_cases = spark.createDataFrame(
        [
            (
                entry.cluster_id,
                str(entry.case.kind),
                0,
                str(entry.bucket.kind),
                entry.bucket.user,
                entry.bucket.client_id,
                entry.bucket.ip,
                "somebody",
                entry.tier,
                entry.case.current,
                entry.case.budget,
                [PINNED] * entry.case.pinned + [BUMPED] * entry.case.bumped,
                entry.case.max_gap_ms,
            )
            for entry in sized
        ],
        recommendation.CASES,
    ).persist()
    return series_blocks.packed(samples.where(in_window)), of_cases


def names_of(of_cases: DataFrame) -> list[str]:
    return [row.cluster_id for row in of_cases.select("cluster_id").distinct().collect()]


def test_every_column_of_210_recommendations_equals_that_of_the_core(spark: SparkSession) -> None:
    sized = [_sized(number) for number in range(CASES)]
    runs, of_cases = _frames(spark, sized)
    sizing = SizingParameters(from_ms=FROM, to_ms=TO, tiers=TIERS)
    recommendations = recommendation.recommendations(
        runs, of_cases, names_of(of_cases), sizing
    ).collect()
    spark.catalog.clearCache()
    expected = [_plain(entry, of_core(entry.case, _tier(entry))) for entry in sized]
    columns = {name: [row[n] for row in expected] for n, name in enumerate(COMPARED)}
    assert set(COMPARED) == set(RECOMMENDATION.names)
    assert set(columns["advice"]) == set(Advice)
    assert {rule for rules in columns["rules"] for rule in rules} == set(SizingRule)
    assert set(columns["quota_type"]) == set(QuotaType)
    key = COMPARED.index("cluster_id")
    rows = sorted(
        (tuple(row[name] for name in COMPARED) for row in recommendations), key=lambda row: row[key]
    )
    assert rows == sorted(expected, key=lambda row: str(row[key]))


@pytest.mark.parametrize("rate", [5, MAX_UNITS + 1], ids=["twice", "out of range"])
def test_impossible_samples_give_no_limit_and_fail_the_job(spark: SparkSession, rate: int) -> None:
    entry = dataclasses.replace(_sized(0), tier="gold")
    hours = [Sample(FROM + n * 3_600_000, 3_600_000, 5) for n in range(1, 24 * 24)]
    strange = Sample(hours[40].ts_ms + (rate > MAX_UNITS), 1000, rate)
    case = dataclasses.replace(entry.case, series={"1": [*hours, strange]})
    runs, of_cases = _frames(spark, [dataclasses.replace(entry, case=case)])
    frame = recommendation.recommendations(
        runs, of_cases, names_of(of_cases), SizingParameters(from_ms=FROM, to_ms=TO, tiers=TIERS)
    )
    words = "has .* units over" if rate > MAX_UNITS else "samples must ascend"
    with pytest.raises(Exception, match=words):
        frame.collect()
