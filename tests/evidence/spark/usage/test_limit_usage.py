"""Use against limits on Spark equals the rows of the core."""

import datetime as dt
import random

import pytest

from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage import limit_usage
from reconciler.usage.reports.usage import UsageState
from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D
from reconciler.usage.tags import bucket_of
from tests.usage.reference import (
    Sample,
    arrived,
    censored_ms,
    covered_ms,
    histogram,
    percentile,
    throttled_ms,
)

pytestmark = pytest.mark.integration

DAY = dt.date(2026, 11, 1)
BUCKET = ("produce", "pair", "u", "c", "")
SPAN = 300_000


def fleet() -> dict[str, list[Sample]]:
    """Series by cluster id, one bucket each: idle, with ties, throttled without a recorded delay, capped."""
    draw = random.Random(7)
    series: dict[str, list[Sample]] = {}
    for case in range(240):
        scale = draw.choice((1, 30, 10**6, 10**13))
        throttle = draw.choice(((None,), (0,), (0, None, 7)))
        series[str(case)] = [
            Sample(
                at * 10_000,
                10_000,
                draw.randrange(scale + 1),
                draw.choice(throttle),
                draw.choice(list(Censored)),
            )
            for at in range(1, draw.randrange(2, 80))
        ]
    return series


def limit_of(case: str) -> int | None:
    return None if int(case) % 4 == 0 else 10 ** (int(case) % 13) + 5


@pytest.fixture(scope="module")
def frames(spark):
    series = fleet()
    fives, hists = [], []
    for case, samples in series.items():
        groups: dict[int, list[Sample]] = {}
        for sample in samples:
            groups.setdefault(sample.ts_ms // SPAN * SPAN, []).append(sample)
        for begin, part in groups.items():
            measured_samples = [sample for sample in part if sample.throttle_ms is not None]
            fives.append(
                (
                    case,
                    *BUCKET,
                    "1",
                    begin,
                    len(part),
                    sum(sample.dt_ms for sample in part),
                    sum(map(arrived, part)),
                    max(sample.rate_units for sample in part),
                    sum(bool(sample.throttle_ms) for sample in part),
                    sum(sample.dt_ms for sample in measured_samples if sample.throttle_ms)
                    if measured_samples
                    else None,
                    censored_ms(part),
                    DAY,
                )
            )
        hists += [
            (case, *BUCKET, "1", index, weight, DAY) for index, weight in histogram(samples).items()
        ]
    limits = [
        (case, *BUCKET, limit_of(case), "[]") for case in series if limit_of(case) is not None
    ]
    schema = "cluster_id string, quota_type string, group_kind string, user string, client_id string, ip string, limit_units bigint, source_entity string"
    return (
        series,
        spark.createDataFrame(fives, struct(USAGE_5M)),
        spark.createDataFrame(hists, struct(USAGE_HIST_D)),
        spark.createDataFrame(limits, schema),
    )


def state_of(peak: int, throttled: int | None, limit: int | None) -> UsageState:
    """The verdict of the first rule that matches."""
    rules = [
        (peak == 0, UsageState.UNUSED),
        (bool(throttled), UsageState.THROTTLED),
        (limit is None, UsageState.USED),
        (10 * peak >= 9 * (limit or 0), UsageState.NEAR_LIMIT),
        (10 * peak <= (limit or 0), UsageState.IDLE),
    ]
    return next((state for holds, state in rules if holds), UsageState.USED)


def test_every_row_equals_the_profile_of_the_samples(frames) -> None:
    series, five, hist, limits = frames
    rows = {row.cluster_id: row for row in limit_usage.use(five, hist, limits, DAY).collect()}
    assert len(rows) == len(series)
    for case, samples in series.items():
        row, limit = rows[case], limit_of(case)
        weights, peak = histogram(samples), max(sample.rate_units for sample in samples)
        assert row.limit_units == limit
        assert (
            row.covered_ms,
            row.p50_units,
            row.p95_units,
            row.p99_units,
            row.max_rate_units,
            row.throttled_ms,
            row.censored_ms,
        ) == (
            covered_ms(samples),
            *(percentile(weights, ppm) for ppm in (500_000, 950_000, 990_000)),
            peak,
            throttled_ms(samples),
            censored_ms(samples),
        ), case
        assert row.state == state_of(peak, throttled_ms(samples), limit), case
        assert row.source_entity == ("[]" if limit is not None else "")


def test_unused_limits_are_distinguished_from_limits_without_data(spark, frames) -> None:
    _, five, hist, limits = frames
    profiles = limit_usage.use(five, hist, limits, DAY)
    schema = limits.schema
    declared = spark.createDataFrame(
        [
            ("1", *BUCKET, 5, "[]"),
            ("1", "produce", "user", "x", "", "", 5, "[1]"),
            ("1", "fetch", "user", "x", "", "", 5, "[2]"),
        ],
        schema,
    )
    measured = spark.createDataFrame([("1", "produce")], "cluster_id string, quota_type string")
    states = {
        row.source_entity: row.state
        for row in limit_usage.unused(profiles, declared, measured, DAY).collect()
    }
    assert states == {"[1]": UsageState.UNUSED, "[2]": UsageState.NO_DATA}


def test_curves_contain_the_mean_over_time_and_the_largest_rate_of_each_span(spark, frames) -> None:
    series, five, _, _ = frames
    case = max(series, key=lambda cluster_id: len(series[cluster_id]))
    series_frame = spark.createDataFrame(
        [(case, *BUCKET, "1")], ", ".join(f"{name} string" for name in limit_usage.SERIES)
    )
    rows = {row.begin_ms: row for row in limit_usage.curves(five, series_frame, 2 * SPAN).collect()}
    spans: dict[int, list[Sample]] = {}
    for sample in series[case]:
        spans.setdefault(sample.ts_ms // (2 * SPAN) * (2 * SPAN), []).append(sample)
    assert rows.keys() == spans.keys()
    for begin, part in spans.items():
        units = sum(map(arrived, part))
        assert rows[begin].mean_units == units * 1000 // sum(sample.dt_ms for sample in part)
        assert rows[begin].max_rate_units == max(sample.rate_units for sample in part)


def test_a_bucket_keeps_its_name(frames) -> None:
    assert bucket_of("u", "c").kind == BUCKET[1]
    assert BUCKET[0] == QuotaType.PRODUCE
