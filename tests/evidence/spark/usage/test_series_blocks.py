"""Runs of samples through a shuffle: the kernel gets the series of the files, for any order and file boundaries."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.usage import series_blocks
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import bucket_of
from tests.evidence.spark import cases
from tests.usage.reference import Sample, samples_of

pytestmark = pytest.mark.integration

NAMES = ("cluster_id", "quota_type", "broker_id")


def _fleet() -> dict[tuple[str, str, str], list[Sample]]:
    draw = random.Random(7)
    fleet = {}
    for number in range(40):
        times = cases.moments(draw, count=draw.choice((1, 30, 400)), step=30_000, max_gap=150_000)
        samples = cases.series(draw, times=times, scale=10**9)
        if samples:
            fleet[str(number), str(QuotaType.PRODUCE), "1"] = list(samples)
    return fleet


@pytest.mark.parametrize("order", ["by series", "by time", "by chance"])
def test_series_equal_those_of_the_files_in_any_order_and_across_files(
    spark: SparkSession, tmp_path: Path, order: str
) -> None:
    fleet = _fleet()
    rows = [
        row
        for (cluster, _, broker), samples in fleet.items()
        for row in cases.sample_rows(cluster, QuotaType.PRODUCE, bucket_of("u"), broker, samples)
    ]
    frame = spark.createDataFrame(rows, cases.SAMPLE_SCHEMA)
    columns = {"by series": (*NAMES, "ts_ms"), "by time": ("ts_ms",)}.get(order)
    ordered = frame.orderBy(*columns) if columns else frame.orderBy(fn.rand(5))
    ordered.repartition(3).sortWithinPartitions(*(columns or ("rate_units",))).write.parquet(
        str(tmp_path / "samples")
    )
    read = spark.read.schema(frame.schema).parquet(str(tmp_path / "samples"))
    blocks = series_blocks.packed(read, NAMES).toArrow()
    series = series_blocks.series_by(blocks, NAMES)
    assert {key: samples_of(samples) for key, samples in series.items()} == fleet
    if order == "by series":
        assert blocks.num_rows <= 4 * len(fleet)
