"""The throttle models as windows give the rows and the sums of the core: every model, one limit and many, no plan with Python in it."""

import random
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from reconciler.spark import fold
from reconciler.usage.samples import MAX_UNITS, QuotaType, Sample
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle import Forecast, arrivals, rows, simulate
from tests.spark import cases

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
        found = fold.rows(frame, SERIES, fn.col(limit), fn.col("max_gap"), wide=wide).select(
            "cluster_id", "ts_ms", *ROW
        )
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
        frame = fold.forecasts(_frame(spark), SERIES, names, fn.col("max_gap"), wide=wide)
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


def _figures(forecast: Forecast) -> tuple[int | None, ...]:
    return tuple(getattr(forecast, name) for name in FORECAST)
