"""The throttle models as windows give the rows and the sums of the core: every model, one limit and many, no plan with Python in it."""

import random
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from reconciler.evidence.spark.usage import throttle_windows
from reconciler.usage.samples import MAX_UNITS, QuotaType, Sample
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle_models import (
    LONGEST_MS,
    Forecast,
    arrivals,
    rows,
    simulate,
)
from tests.evidence.spark import cases

pytestmark = pytest.mark.integration

SERIES = ("cluster_id", "quota_type", "broker_id")
CASES = 240
ROW = ("backlog", "served", "delayed", "delay_ms", "throttled")
FORECAST = ("throttled_ms", "max_delay_ms", "over_timeout_ms", "delayed_units", "unfinished")


@dataclass(frozen=True)
class Case:
    kind: QuotaType
    max_gap: int
    samples: tuple[Sample, ...]
    limits: tuple[int | None, ...]


def _case(number: int) -> Case:
    draw = random.Random(number)
    step = draw.choice(cases.STEPS)
    scale = draw.choice((3, 500, 999, 10**6, 10**9, 10**12, MAX_UNITS))
    times = cases.moments(draw, count=draw.choice((1, 2, 40, 150)), step=step, max_gap=5 * step)
    samples = cases.series(draw, times=times, scale=scale)
    peak = max((one.rate_units for one in samples), default=1)
    limits = [1, max(1, peak // 2), max(1, peak), min(peak + 1, MAX_UNITS - 1), MAX_UNITS - 1, None]
    limits += [draw.randrange(1, max(2, peak)) for _ in range(3)]
    return Case(
        kind=draw.choice(list(QuotaType)), max_gap=5 * step, samples=samples,
        limits=tuple(one and min(one, MAX_UNITS - 1) for one in limits),
    )  # fmt: skip


ALL = {str(number): _case(number) for number in range(CASES)}


def _frame(spark: SparkSession):
    bucket = bucket_of("u")
    found = [
        (*row, one.max_gap, *one.limits)
        for number, one in ALL.items()
        for row in cases.sample_rows(number, one.kind, bucket, "1", one.samples)
    ]
    schema = f"{cases.SAMPLE_SCHEMA}, max_gap bigint, " + ", ".join(
        f"l{n} bigint" for n in range(9)
    )
    return spark.createDataFrame(found, schema)


def test_the_cases_hold_what_two_engines_could_see_differently() -> None:
    flat = [sample for one in ALL.values() for sample in one.samples]
    assert {one.kind for one in ALL.values()} == set(QuotaType)
    assert any(one.rate_units == MAX_UNITS for one in flat)
    assert any(one.dt_ms < 1000 for one in flat)
    assert any(one.rate_units * one.dt_ms % 1000 == 500 for one in flat)
    assert all(1 in one.limits and None in one.limits for one in ALL.values())


def test_every_row_of_every_model_is_that_of_the_core(spark: SparkSession) -> None:
    frame = _frame(spark)
    for limit, wide in (("l6", False), ("l1", False), ("l1", True)):
        found = throttle_windows.rows(
            frame, SERIES, fn.col(limit), fn.col("max_gap"), wide=wide
        ).select("cluster_id", "ts_ms", *ROW)
        told = {(row[0], row[1]): tuple(row[2:]) for row in found.collect()}
        expected = {
            (number, sample.ts_ms): tuple(row)
            for number, one in ALL.items()
            for sample, row in zip(
                one.samples,
                rows(one.kind, arrivals(one.samples, one.max_gap), _limit(one, limit)),
                strict=True,
            )
        }
        assert len(expected) > 5000
        assert told == expected


def _limit(one: Case, name: str) -> int:
    limit = one.limits[int(name[1:])]
    assert limit is not None
    return limit


def test_the_sums_under_nine_limits_at_once_are_those_of_the_core(spark: SparkSession) -> None:
    names = {f"l{n}": fn.col(f"l{n}") for n in range(9)}
    for wide in (False, True):
        frame = throttle_windows.forecasts(
            _frame(spark), SERIES, names, fn.col("max_gap"), wide=wide
        )
        found = {row["cluster_id"]: row for row in frame.collect()}
        for number, one in ALL.items():
            if not one.samples:
                assert number not in found
                continue
            for n, limit in enumerate(one.limits):
                expected = simulate(one.kind, arrivals(one.samples, one.max_gap), limit)
                row = found[number]
                assert (row.samples, row.covered_ms, row.arrived_units) == (
                    expected.samples, expected.covered_ms, expected.arrived_units,
                )  # fmt: skip
                assert tuple(row[f"l{n}"]) == _figures(expected), (number, limit, one.kind)


LONG = 14 * 288
"""Five minutes each: two weeks."""


def _rare(number: int, scale: int) -> Case:
    """Two weeks, silent but for a few samples, or never; under limits that they reach at once, late and never."""
    draw = random.Random(number)
    kind = (QuotaType.PRODUCE, QuotaType.CONTROLLER_MUTATION)[number % 2]
    loud = {0, 40, 41, LONG - 3} | {draw.randrange(LONG) for _ in range(3)}
    samples = tuple(
        Sample(cases.BEGIN + n * 300_000, 300_000, scale - draw.randrange(9) if n in loud else 0)
        for n in range(LONG)
    )
    limits = (None, MAX_UNITS - 1, min(MAX_UNITS - 1, scale + throttle_windows.CLEAR), 1)
    return Case(kind=kind, max_gap=1_500_000, samples=samples, limits=limits)


def _spread(spark: SparkSession, worlds: dict[str, Case]):
    found = [
        (*row, one.max_gap, *one.limits)
        for number, one in worlds.items()
        for row in cases.sample_rows(number, one.kind, bucket_of("u"), "1", one.samples)
    ]
    schema = f"{cases.SAMPLE_SCHEMA}, max_gap bigint, a bigint, b bigint, c bigint, d bigint"
    return spark.createDataFrame(found, schema).persist()


def test_silence_under_no_limit_or_one_that_was_never_reached_fits_64_bits_for_ever(
    spark: SparkSession,
) -> None:
    """One sample at the cut rate, then nothing: what a limit would have let pass must not be summed."""
    worlds = {"0": _rare(0, MAX_UNITS), "1": _rare(1, MAX_UNITS), "2": _rare(2, 10**12)}
    frame = _spread(spark, worlds)
    never = {"2": "abc"}  # 10^12 is below the largest limit and the one just above it
    for name in "abc":
        taken = [number for number in worlds if name == "a" or name in never.get(number, "")]
        part = frame.where(fn.col("cluster_id").isin(taken))
        found = throttle_windows.rows(part, SERIES, fn.col(name), fn.col("max_gap"))
        told = {
            (row.cluster_id, row.ts_ms): tuple(row[one] for one in ROW) for row in found.collect()
        }
        for number in taken:
            one = worlds[number]
            limit = one.limits["abc".index(name)]
            series = arrivals(one.samples, one.max_gap)
            for sample, arrival, row in zip(
                one.samples,
                series,
                rows(one.kind, series, limit) if limit else [None] * LONG,
                strict=True,
            ):
                expected = tuple(row) if row else (0, arrival.units, 0, 0, False)
                assert told[number, sample.ts_ms] == expected, (number, name)
    frame.unpersist()


def test_two_weeks_at_the_cut_rate_under_a_limit_of_one_are_those_of_the_core(
    spark: SparkSession,
) -> None:
    """A backlog of 1.2 * 10^19, which 64 bits do not hold and whose quotient by one does not, either."""
    full = tuple(Sample(cases.BEGIN + n * 300_000, 300_000, MAX_UNITS) for n in range(LONG))
    kinds = (QuotaType.PRODUCE, QuotaType.CONTROLLER_MUTATION)
    worlds = {
        str(n): Case(
            kind=kind, max_gap=1_500_000, samples=full, limits=(None, MAX_UNITS - 1, 10**9, 1)
        )
        for n, kind in enumerate(kinds)
    }
    frame = _spread(spark, worlds)
    names = {name: fn.col(name) for name in "abcd"}
    found = throttle_windows.forecasts(frame, SERIES, names, fn.col("max_gap"), wide=True).collect()
    for row in found:
        one = worlds[row.cluster_id]
        for name, limit in zip("abcd", one.limits, strict=True):
            expected = simulate(one.kind, arrivals(one.samples, one.max_gap), limit)
            assert tuple(row[name]) == _figures(expected), (one.kind, limit)
    tried = throttle_windows.trials(frame, SERIES, names, fn.col("max_gap"), wide=True).collect()
    assert {row.max_delay_ms[3] for row in tried} == {LONGEST_MS}
    delays = throttle_windows.rows(frame, SERIES, fn.col("d"), fn.col("max_gap"), wide=True)
    told = {(row.cluster_id, row.ts_ms): row.delay_ms for row in delays.collect()}
    for number, one in worlds.items():
        series = arrivals(one.samples, one.max_gap)
        for sample, row in zip(one.samples, rows(one.kind, series, 1), strict=True):
            assert told[number, sample.ts_ms] == row.delay_ms
    frame.unpersist()


def _figures(forecast: Forecast) -> tuple[int | None, ...]:
    return tuple(getattr(forecast, name) for name in FORECAST)
