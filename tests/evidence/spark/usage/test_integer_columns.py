"""Column expressions equal the definitions of `usage`: thousands of values in one frame, compared one by one."""

import datetime as dt
import random

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.usage import integer_columns
from reconciler.usage import histogram, throttle_models
from reconciler.usage.recommendation import candidate_limits
from reconciler.usage.samples import DAY_MS, MAX_UNITS

pytestmark = pytest.mark.integration

SEED = random.Random(20261121)


def whole_numbers() -> list[int]:
    """Borders of buckets, powers, the clamp, and what lies between."""
    found = {0, 1, 2, 3, 499, 500, 501, 999, 1000, MAX_UNITS, MAX_UNITS - 1}
    for bound in histogram.BOUNDS:
        found.update(n for n in (bound - 1, bound, bound + 1) if 0 <= n <= MAX_UNITS)
    for power in range(14):
        found.update(n for n in (10**power - 1, 10**power, 10**power + 1) if n <= MAX_UNITS)
    found.update(int(2 ** SEED.uniform(0, 43.18)) for _ in range(1500))
    return sorted(found)


def rows(spark: SparkSession, schema: str, values: list[tuple[object, ...]], **made: object):
    frame = spark.createDataFrame(values, schema)
    return frame.select("*", *(column.alias(name) for name, column in made.items())).collect()


def test_a_bucket_a_border_and_candidates_of_whole_numbers_are_those_of_the_core(
    spark: SparkSession,
) -> None:
    x = fn.col("x")
    found = rows(
        spark,
        "x bigint",
        [(n,) for n in whole_numbers()],
        bucket=integer_columns.bucket_index(x),
        largest=integer_columns.largest_in(integer_columns.bucket_index(x)),
        **{f"c{k}": one for k, one in enumerate(integer_columns.coarse(x))},
    )
    assert len(found) > 4000
    for row in found:
        index = histogram.bucket_index(row.x)
        assert (row.bucket, row.largest) == (index, histogram.largest_in(index))
        if row.x:
            assert tuple(row[f"c{k}"] for k in range(24)) == candidate_limits.coarse(row.x)


def test_quotients_of_any_signs_round_as_in_the_core(spark: SparkSession) -> None:
    a, b = fn.col("a"), fn.col("b")
    numbers = [0, 1, 2, 3, 7, 10, 999, 1000, 86_400_000, 3 * 10**18]
    numbers += [SEED.randrange(10**17) for _ in range(30)]
    signed = [*numbers, *(-n for n in numbers)]
    found = rows(
        spark,
        "a bigint, b bigint",
        [(m, n) for m in signed for n in signed if n],
        down=integer_columns.div_down(a, b),
        up=integer_columns.div_up(a, b),
    )
    for row in found:
        assert (row.down, row.up) == (row.a // row.b, -(-row.a // row.b)), row


def test_arrivals_and_delays_are_those_of_the_core(
    spark: SparkSession,
) -> None:
    rate, took, limit = fn.col("rate"), fn.col("dt"), fn.col("q")
    cases: list[tuple[object, ...]] = [
        (MAX_UNITS, 300_000, 1), (MAX_UNITS, 300_000, MAX_UNITS - 1), (0, 1, 1), (1, 500, 1), (1, 499, 3),
    ]  # fmt: skip
    for _ in range(3000):
        units = int(2 ** SEED.uniform(0, 43.18))
        cases.append((units, SEED.randrange(1, 300_001), int(2 ** SEED.uniform(0, 43.18))))
    held = integer_columns.arrived(rate, took)
    found = rows(
        spark,
        "rate bigint, dt int, q bigint",
        cases,
        a=held,
        g=integer_columns.passed(limit, took),
        wait=integer_columns.delay_ms(held, limit),
    )
    for row in found:
        arrived = (row.rate * row.dt + 500) // 1000
        assert (row.a, row.g) == (arrived, row.q * row.dt // 1000)
        assert row.wait == throttle_models.delay_ms(arrived, row.q)


def test_delays_of_backlogs_beyond_64_bits_are_those_of_the_core(spark: SparkSession) -> None:
    """Two weeks at the cut rate are 1.2 * 10^19 units: a quotient of decimals would wrap there without a word."""
    weeks = MAX_UNITS * 14 * DAY_MS // 1000
    limits = [1, 2, 3, 999, 10**6, 12_096_000, 12_096_001, MAX_UNITS - 1, MAX_UNITS]
    amounts = [weeks + more for more in (-1, 0, 1)] + [2**63 - 1, 2**63, 2**64 + 5, 10**12, 10**27]
    amounts += [limit * 10**12 + more for limit in limits for more in (-1, 0, 1)]
    amounts += [SEED.randrange(10**26) for _ in range(300)]
    found = rows(
        spark,
        "units string, q bigint",
        [(str(units), limit) for units in amounts for limit in limits],
        wait=integer_columns.delay_ms(fn.col("units").cast("decimal(38,0)"), fn.col("q")),
    )
    for row in found:
        assert row.wait == throttle_models.delay_ms(int(row.units), row.q), row


def test_the_day_of_a_moment_is_that_of_utc_before_and_after_1970(spark: SparkSession) -> None:
    moments = [0, -1, -86_400_000, 86_399_999, 86_400_000, 1_795_000_000_123]
    found: list[Row] = rows(
        spark, "ts bigint", [(one,) for one in moments], day=integer_columns.day(fn.col("ts"))
    )
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    for row in found:
        assert row.day == (start + dt.timedelta(milliseconds=row.ts)).date()
