"""Budgets, coincident load and fair shares on Spark equal the rows of the core."""

import datetime as dt
import random

import numpy as np
import pytest
from pyspark.sql import functions as fn

from reconciler.evidence.spark.tables.schemas import struct
from reconciler.evidence.spark.usage import broker_load as spark_load
from reconciler.evidence.spark.usage import series_blocks
from reconciler.evidence.spark.usage.effective_limits import BUCKET
from reconciler.evidence.spark.usage.limit_usage import SERIES
from reconciler.usage.capacity import (
    BucketUse,
    BudgetBasis,
    CapacityOfCluster,
    committed_ppm,
    shares,
)
from reconciler.usage.kernel.broker_load import BrokerCapacity, BrokerMoments, load
from reconciler.usage.kernel.series import NOT_RECORDED
from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.tables import BROKER_SAMPLE, USAGE_5M, USAGE_SAMPLE
from reconciler.usage.tags import bucket_of
from tests.usage.reference import Sample, arrived, rows

pytestmark = pytest.mark.integration

DAY = dt.date(2026, 11, 1)
GAP = 60_000
CASES = 220
NAMES = ("a", "b", "c")
BUDGETS = (
    "cluster_id string, broker_id string, direction string, bucket_ms bigint, budget_units bigint"
)


class World:
    """Random brokers, one cluster each, with three users who produce and fetch."""

    def __init__(self) -> None:
        draw = random.Random(11)
        self.samples: dict[tuple[str, str, str], list[Sample]] = {}
        self.limits: dict[tuple[str, str, str], int] = {}
        self.brokers: dict[str, list[tuple[int, int, int | None, int | None, int | None]]] = {}
        self.capacities: dict[str, tuple[int | None, int]] = {}
        for case in map(str, range(CASES)):
            scale = draw.choice((3, 1_000, 10**8, 10**12))
            times = [at * 10_000 for at in range(1, draw.randrange(3, 40)) if draw.random() < 0.95]
            for kind in ("produce", "fetch"):
                for name in NAMES[: draw.randrange(1, 4)]:
                    self.samples[case, kind, name] = [
                        Sample(ts, 10_000, draw.randrange(scale), 0, Censored.NO) for ts in times
                    ]
                    if draw.random() < 0.7:
                        self.limits[case, kind, name] = draw.randrange(1, scale)
            measured = draw.random() < 0.7
            self.brokers[case] = [
                (
                    ts,
                    10_000,
                    draw.choice((None, draw.randrange(3 * scale))),
                    draw.randrange(scale) if measured else None,
                    draw.choice((None, draw.randrange(scale))),
                )
                for ts in times
                if draw.random() < 0.9
            ]
            self.capacities[case] = (
                draw.choice((None, scale, 4 * scale)),
                draw.choice((800_000, 1_000_000)),
            )

    def moments(self, case: str, kind: str) -> BrokerMoments:
        totals: dict[int, list[int]] = {}
        for name in NAMES:
            samples = self.samples.get((case, kind, name), [])
            limit = self.limits.get((case, kind, name))
            served = (
                [arrived(sample) for sample in samples]
                if limit is None
                else [row.served for row in rows(QuotaType(kind), samples, limit, GAP)]
            )
            for sample, units in zip(samples, served, strict=True):
                at = totals.setdefault(sample.ts_ms, [0, 0])
                at[0] += units
                at[1] += sample.rate_units
        brokers = {moment[0]: moment for moment in self.brokers[case]}
        rows_ = [
            self._moment(kind, totals.get(ts, [0, 0]), brokers.get(ts))
            for ts in sorted(totals.keys() | brokers.keys())
        ]
        numbers = [[NOT_RECORDED if number is None else number for number in row] for row in rows_]
        columns = np.array(numbers, np.int64).reshape(-1, 5).T
        names = (
            "dt_ms",
            "served_units",
            "recorded_units",
            "broker_units",
            "replication_units",
        )
        return BrokerMoments(**dict(zip(names, columns, strict=True)))

    def _moment(
        self, kind: str, used: list[int], broker: tuple[int | None, ...] | None
    ) -> tuple[int | None, ...]:
        bytes_out, replication, bytes_in = (None, None, None) if broker is None else broker[2:]
        if kind == "produce":
            return (10_000, *used, bytes_in, replication)
        return (10_000, *used, bytes_out, replication)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def frames(spark, world):
    samples = [
        (case, kind, "user", name, "", "", "1", *sample[:4], str(sample.censored), DAY)
        for (case, kind, name), series in world.samples.items()
        for sample in series
    ]
    limits = [
        (case, kind, "user", name, "", "", limit)
        for (case, kind, name), limit in world.limits.items()
    ]
    brokers = [
        (case, "1", ts, span, bytes_in, bytes_out, replication, replication, None, DAY)
        for case, broker_samples in world.brokers.items()
        for ts, span, bytes_out, replication, bytes_in in broker_samples
    ]
    strings = ", ".join(f"{name} string" for name in BUCKET)
    frame = spark.createDataFrame(samples, struct(USAGE_SAMPLE))
    limited = spark.createDataFrame(limits, f"{strings}, limit_units bigint")
    runs = series_blocks.packed(frame)
    at = spark_load.moments(
        runs, limited, spark.createDataFrame(brokers, struct(BROKER_SAMPLE)), fn.lit(GAP)
    )
    return frame, limited, at.cache()


def test_every_row_equals_the_result_of_the_core_for_the_same_intervals(frames, world) -> None:
    frame, limited, at = frames
    capacities = spark_load.capacities_of(
        CapacityOfCluster(cluster_id=case, ingress=units, egress=units, headroom_ppm=headroom)
        for case, (units, headroom) in world.capacities.items()
    )
    rows = spark_load.capacity(at, limited, frame.select(*SERIES), capacities, DAY).collect()
    assert len(rows) == 2 * CASES
    bases = set()
    for row in rows:
        kind = "produce" if row.direction == "ingress" else "fetch"
        capacity, headroom = world.capacities[row.cluster_id]
        expected = load(
            world.moments(row.cluster_id, kind),
            BrokerCapacity(units=capacity, headroom_ppm=headroom),
        )
        figures = (
            row.budget_units,
            row.coincident_ppm,
            row.overload_ms,
            row.unattributed_ppm,
            row.covered_ms,
            row.basis,
        )
        assert figures == (
            expected.budget_units,
            expected.coincident_ppm,
            expected.overload_ms,
            expected.unattributed_ppm,
            expected.covered_ms,
            expected.basis,
        ), row
        limits = [
            limit
            for (case, of, _), limit in world.limits.items()
            if (case, of) == (row.cluster_id, kind)
        ]
        promised = (
            None if expected.budget_units is None else committed_ppm(limits, expected.budget_units)
        )
        assert row.committed_ppm == promised, row
        bases.add(row.basis)
    assert bases == set(BudgetBasis)


def test_the_excess_of_a_hot_interval_equals_that_of_the_core_and_adds_up_to_the_overload(
    spark,
) -> None:
    rates = {"a": 900, "b": 500, "c": 10}
    five = [
        (
            "x",
            "produce",
            "user",
            name,
            "",
            "",
            "1",
            begin,
            30,
            300_000,
            rate * 300,
            rate,
            0,
            0,
            0,
            DAY,
        )
        for begin in (0, 300_000)
        for name, rate in rates.items()
    ]
    budgets = spark.createDataFrame(
        [("x", "1", "ingress", 0, 600), ("x", "1", "ingress", 300_000, 5_000)], BUDGETS
    )
    strings = ", ".join(f"{name} string" for name in BUCKET)
    limits = spark.createDataFrame(
        [("x", "produce", "user", "a", "", "", 200), ("x", "produce", "user", "b", "", "", 100)],
        f"{strings}, limit_units bigint",
    )
    rows = spark.createDataFrame(five, struct(USAGE_5M))
    intervals = spark_load.hot(rows, spark_load.beyond(rows, budgets), 10)
    noisy_rows = spark_load.noisy(intervals, limits, DAY).collect()
    weights = {"a": 200, "b": 100, "c": 1}
    core = shares(
        [
            BucketUse(bucket=bucket_of(name), rate=rate, weight=weights[name])
            for name, rate in rates.items()
        ],
        600,
    )
    assert {(row.bucket_ms, row.user, row.fair_units, row.excess_units) for row in noisy_rows} == {
        (0, share.bucket.user, share.fair, share.excess) for share in core if share.excess
    }
    assert sum(row.excess_units for row in noisy_rows) == sum(rates.values()) - 600


def test_hot_intervals_of_one_cluster_do_not_displace_those_of_another(spark) -> None:
    # A is far above its budget in four intervals, B only slightly in two.
    used = {("a", n): 90_000 + n for n in range(4)} | {("b", n): 700 + n for n in range(2)}
    five = [
        (
            case,
            "produce",
            "user",
            "u",
            "",
            "",
            "1",
            n * 300_000,
            30,
            300_000,
            rate * 300,
            rate,
            0,
            0,
            0,
            DAY,
        )
        for (case, n), rate in used.items()
    ]
    budgets = spark.createDataFrame(
        [(case, "1", "ingress", n * 300_000, 600) for case, n in used], BUDGETS
    )
    rows = spark.createDataFrame(five, struct(USAGE_5M))
    over = spark_load.beyond(rows, budgets)
    intervals = spark_load.hot(rows, over, 2).collect()
    assert sorted((interval.cluster_id, interval.bucket_ms) for interval in intervals) == [
        ("a", 600_000),
        ("a", 900_000),
        ("b", 0),
        ("b", 300_000),
    ]
    assert [tuple(interval) for interval in spark_load.left_out(over, 2).collect()] == [("a", 2)]


def test_the_smallest_budget_of_an_interval_is_used_and_unknown_ones_are_ignored(spark) -> None:
    columns = "cluster_id string, broker_id string, direction string, ts_ms bigint, dt_ms int, served_units bigint, recorded_units bigint, broker_units bigint, replication_units bigint"
    rows = [
        ("x", "1", "ingress", ts, 10_000, 0, 0, None, replication)
        for ts, replication in ((299_999, 100), (300_000, 200), (599_999, 300), (600_000, None))
    ]
    capacities = spark_load.capacities_of(
        [CapacityOfCluster(cluster_id="x", ingress=1_000, headroom_ppm=800_000)]
    )
    budgets = spark_load.interval_budgets(spark.createDataFrame(rows, columns), capacities, 300_000)
    assert sorted(tuple(row)[3:] for row in budgets.collect()) == [(0, 700), (300_000, 500)]
