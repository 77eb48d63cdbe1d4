"""Column expressions equal the definitions of `usage`: thousands of values in one frame, compared one by one."""

import random
from bisect import bisect_right

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.usage import integer_columns
from reconciler.usage.histogram import BOUNDS
from reconciler.usage.samples import MAX_UNITS

pytestmark = pytest.mark.integration

SEED = random.Random(20261121)


def whole_numbers() -> list[int]:
    """Bounds of buckets, powers, the cap, and values between them."""
    numbers = {0, 1, 2, 3, 499, 500, 501, 999, 1000, MAX_UNITS, MAX_UNITS - 1}
    for bound in BOUNDS:
        numbers.update(n for n in (bound - 1, bound, bound + 1) if 0 <= n <= MAX_UNITS)
    for power in range(14):
        numbers.update(n for n in (10**power - 1, 10**power, 10**power + 1) if n <= MAX_UNITS)
    numbers.update(int(2 ** SEED.uniform(0, 43.18)) for _ in range(1500))
    return sorted(numbers)


def rows(spark: SparkSession, schema: str, values: list[tuple[object, ...]], **columns: object):
    frame = spark.createDataFrame(values, schema)
    return frame.select("*", *(column.alias(name) for name, column in columns.items())).collect()


def test_a_bucket_and_its_bounds_equal_those_of_the_table(spark: SparkSession) -> None:
    x = fn.col("x")
    results = rows(
        spark,
        "x bigint",
        [(n,) for n in whole_numbers()],
        bucket=integer_columns.bucket_index(x),
        largest=integer_columns.largest_in(integer_columns.bucket_index(x)),
    )
    assert len(results) > 4000
    for row in results:
        index = bisect_right(BOUNDS, row.x)
        assert (row.bucket, row.largest) == (index, BOUNDS[index] - 1)


def test_arrivals_round_half_up(spark: SparkSession) -> None:
    cases: list[tuple[object, ...]] = [(MAX_UNITS, 300_000), (0, 1), (1, 500), (1, 499)]
    cases += [(int(2 ** SEED.uniform(0, 43.18)), SEED.randrange(1, 300_001)) for _ in range(3000)]
    arrived = integer_columns.arrived(fn.col("rate"), fn.col("dt"))
    for row in rows(spark, "rate bigint, dt int", cases, a=arrived):
        assert row.a == (row.rate * row.dt + 500) // 1000
