"""T11, histograms: the daily histogram of every generated series equals that of the core, bucket by bucket."""

import random
from collections import defaultdict

import pytest
from pyspark.sql import SparkSession

from reconciler.evidence.spark.usage import rollup
from reconciler.usage.histogram import BOUNDS
from reconciler.usage.samples import MAX_UNITS, QuotaType
from reconciler.usage.tags import bucket_of
from tests.evidence.spark import cases
from tests.usage.reference import Sample, histogram

pytestmark = pytest.mark.integration

CASES = 220
COMPARED = ("cluster_id", "quota_type", "broker_id", "day", "bucket", "n_dt_ms")


def _series(number: int) -> tuple[QuotaType, tuple[Sample, ...]]:
    draw = random.Random(number)
    step = draw.choice(cases.STEPS)
    times = cases.moments(draw, count=draw.choice((1, 30, 120)), step=step, max_gap=5 * step)
    scale = draw.choice((3, 999, 10**6, 10**9, MAX_UNITS))
    samples = cases.series(draw, times=times, scale=scale)
    # Rates at the bounds of buckets, and beside them, where logarithms differ between machines.
    borders = [
        min(MAX_UNITS, max(0, draw.choice(BOUNDS) + draw.choice((-1, 0, 1)))) for _ in samples
    ]
    return draw.choice(list(QuotaType)), tuple(
        sample._replace(rate_units=border) if n % 3 == 0 else sample
        for n, (sample, border) in enumerate(zip(samples, borders, strict=True))
    )


def test_every_bucket_of_220_series_equals_that_of_the_core(spark: SparkSession) -> None:
    every = {str(number): _series(number) for number in range(CASES)}
    rows = [
        row
        for number, (kind, samples) in every.items()
        for row in cases.sample_rows(number, kind, bucket_of("u"), "1", samples)
    ]
    histogram_rows = rollup.usage_hist_d(spark.createDataFrame(rows, cases.SAMPLE_SCHEMA)).collect()
    expected: set[tuple[object, ...]] = set()
    for number, (kind, samples) in every.items():
        days: defaultdict[object, list[Sample]] = defaultdict(list)
        for sample in samples:
            days[cases.day_of(sample.ts_ms)].append(sample)
        for day, part in days.items():
            counts = histogram(part).items()
            expected |= {(number, str(kind), "1", day, bucket, ms) for bucket, ms in counts}
    assert len(expected) > 3000
    assert len(histogram_rows) == len(expected)
    assert {tuple(row[name] for name in COMPARED) for row in histogram_rows} == expected
