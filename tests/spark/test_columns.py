"""Column expressions equal the definitions of `usage`: thousands of values in one frame, compared one by one."""

import datetime as dt
import math
import random

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as fn

from reconciler.errors import QuotaValueError
from reconciler.spark import columns
from reconciler.usage import candidates, histogram, samples, throttle
from reconciler.usage.samples import KEY_OF, MAX_UNITS, QuotaType

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


def doubles() -> list[float]:
    odd = [0.0, -0.0, 0.5, 1.5, 2.5, 0.49999999999999994, -0.5, -3.0, 1e20, 1e308, 5e-324, 9.2e18]
    odd += [math.nan, math.inf, -math.inf, MAX_UNITS - 0.5, MAX_UNITS - 1.0, float(MAX_UNITS), 1e7]
    odd += [9_999_999.9999995, 9_999_999.9999994, 5e-7, 4.9e-7, 0.0000015, 4503599627370497.5]
    odd += [n + 0.5 for n in range(50)]
    odd += [SEED.uniform(0, 3) for _ in range(300)]
    return odd + [10 ** SEED.uniform(-8, 16) for _ in range(600)]


def rows(spark: SparkSession, schema: str, values: list[tuple[object, ...]], **made: object):
    frame = spark.createDataFrame(values, schema)
    return frame.select("*", *(column.alias(name) for name, column in made.items())).collect()


def test_a_bucket_a_border_and_three_digits_of_whole_numbers_are_those_of_the_core(
    spark: SparkSession,
) -> None:
    x = fn.col("x")
    found = rows(
        spark,
        "x bigint",
        [(n,) for n in whole_numbers()],
        bucket=columns.bucket_index(x),
        largest=columns.largest_in(columns.bucket_index(x)),
        up=columns.three_digits(x, up=True),
        down=columns.three_digits(x, up=False),
        **{f"c{k}": one for k, one in enumerate(columns.coarse(x))},
    )
    assert len(found) > 4000
    for row in found:
        index = histogram.bucket_index(row.x)
        assert (row.bucket, row.largest) == (index, histogram.largest_in(index))
        assert row.up == candidates.three_digits(row.x, up=True)
        assert row.down == candidates.three_digits(row.x, up=False)
        if row.x:
            assert tuple(row[f"c{k}"] for k in range(24)) == candidates.coarse(row.x)


def test_limits_and_rates_of_every_type_become_the_units_and_states_of_the_core(
    spark: SparkSession,
) -> None:
    kind, key, value = fn.col("kind"), fn.col("key"), fn.col("value")
    cases: list[tuple[object, ...]] = [
        (str(one), str(KEY_OF[one]), number) for one in QuotaType for number in [*doubles(), None]
    ]
    found = rows(
        spark,
        "kind string, key string, value double",
        cases,
        rate=columns.rate_units(value, columns.scale(kind)),
        limit=columns.limit_units(value, columns.scale_of_key(key)),
        state=columns.limit_state(value, columns.scale_of_key(key)),
    )
    assert len(found) == len(cases)
    for row in found:
        expected = expected_units(QuotaType(row.kind), row.value)
        assert (row.rate, row.limit, row.state) == expected, row


def expected_units(kind: QuotaType, value: float | None) -> tuple[int | None, int | None, str]:
    if value is None:
        return None, None, "unlimited"
    state = samples.limit_state(kind, value)
    try:
        limit = samples.limit_units(kind, value)
    except QuotaValueError:
        limit = None
    return samples.rate_units(kind, value), limit, str(state)


def test_quotients_of_any_signs_round_as_in_the_core(spark: SparkSession) -> None:
    a, b = fn.col("a"), fn.col("b")
    numbers = [0, 1, 2, 3, 7, 10, 999, 1000, 86_400_000, 3 * 10**18]
    numbers += [SEED.randrange(10**17) for _ in range(30)]
    signed = [*numbers, *(-n for n in numbers)]
    found = rows(
        spark,
        "a bigint, b bigint",
        [(m, n) for m in signed for n in signed if n],
        down=columns.div_down(a, b),
        up=columns.div_up(a, b),
    )
    for row in found:
        assert (row.down, row.up) == (row.a // row.b, -(-row.a // row.b)), row


def test_arrivals_delays_shares_and_second_candidates_are_those_of_the_core(
    spark: SparkSession,
) -> None:
    rate, took, limit = fn.col("rate"), fn.col("dt"), fn.col("q")
    cases: list[tuple[object, ...]] = [
        (MAX_UNITS, 300_000, 1), (MAX_UNITS, 300_000, MAX_UNITS - 1), (0, 1, 1), (1, 500, 1), (1, 499, 3),
    ]  # fmt: skip
    for _ in range(3000):
        units = int(2 ** SEED.uniform(0, 43.18))
        cases.append((units, SEED.randrange(1, 300_001), int(2 ** SEED.uniform(0, 43.18))))
    held = columns.arrived(rate, took)
    found = rows(
        spark,
        "rate bigint, dt int, q bigint",
        cases,
        a=held,
        g=columns.passed(limit, took),
        wait=columns.delay_ms(held, limit),
        share=columns.share_ppm(took.cast("bigint"), fn.lit(300_000)),
        nothing=columns.share_ppm(fn.lit(0), fn.lit(0)),
        **{f"f{k}": one for k, one in enumerate(columns.fine(limit, limit + rate))},
    )
    for row in found:
        arrived = (row.rate * row.dt + 500) // 1000
        assert (row.a, row.g) == (arrived, row.q * row.dt // 1000)
        assert row.wait == throttle.delay_ms(arrived, row.q)
        assert (row.share, row.nothing) == (throttle.share_ppm(row.dt, 300_000), 0)
        assert tuple(row[f"f{k}"] for k in range(10)) == candidates.fine(row.q, row.q + row.rate)


def test_the_day_of_a_moment_is_that_of_utc_before_and_after_1970(spark: SparkSession) -> None:
    moments = [0, -1, -86_400_000, 86_399_999, 86_400_000, 1_795_000_000_123]
    found: list[Row] = rows(
        spark, "ts bigint", [(one,) for one in moments], day=columns.day(fn.col("ts"))
    )
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    for row in found:
        assert row.day == (start + dt.timedelta(milliseconds=row.ts)).date()
