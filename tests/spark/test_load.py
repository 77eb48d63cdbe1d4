"""Budgets, coincident load and fair shares on Spark: the rows of the core."""

import datetime as dt
import random

import pytest
from pyspark.sql import functions as fn

from reconciler.spark import load as spark_load
from reconciler.spark.resolve import BUCKET
from reconciler.spark.schemas import struct
from reconciler.spark.use import SERIES
from reconciler.usage.capacity import Use, committed_ppm, shares
from reconciler.usage.load import Basis, Moment, load
from reconciler.usage.samples import Censored, QuotaType, Sample
from reconciler.usage.tables import BROKER_SAMPLE, USAGE_5M, USAGE_SAMPLE
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle import arrivals, rows

pytestmark = pytest.mark.integration

DAY = dt.date(2026, 11, 1)
GAP = 60_000
CASES = 220
NAMES = ("a", "b", "c")


class World:
    """Random brokers, one cluster each, with three users who produce and fetch."""

    def __init__(self) -> None:
        draw = random.Random(11)
        self.samples: dict[tuple[str, str, str], list[Sample]] = {}
        self.limits: dict[tuple[str, str, str], int] = {}
        self.brokers: dict[str, list[tuple[int, int, int | None, int | None]]] = {}
        self.capacities: dict[str, tuple[int | None, int, int | None]] = {}
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
                (ts, 10_000, draw.choice((None, draw.randrange(3 * scale))), draw.randrange(scale) if measured else None)
                for ts in times
                if draw.random() < 0.9
            ]  # fmt: skip
            self.capacities[case] = (
                draw.choice((None, scale, 4 * scale)), draw.choice((800_000, 1_000_000)), draw.choice((None, 3)),
            )  # fmt: skip

    def moments(self, case: str, kind: str) -> list[Moment]:
        found: dict[int, list[int]] = {}
        for name in NAMES:
            samples = self.samples.get((case, kind, name), [])
            series = arrivals(samples, GAP)
            limit = self.limits.get((case, kind, name))
            served = [one.units for one in series] if limit is None else [one.served for one in rows(QuotaType(kind), series, limit)]  # fmt: skip
            for one, units in zip(samples, served, strict=True):
                at = found.setdefault(one.ts_ms, [0, 0])
                at[0] += units
                at[1] += one.rate_units
        brokers = {one[0]: one for one in self.brokers[case]}
        return [
            Moment(10_000, *found.get(ts, [0, 0]), *(brokers[ts][2:] if ts in brokers else (None, None)))
            for ts in sorted(found.keys() | brokers.keys())
        ]  # fmt: skip


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def frames(spark, world):
    samples = [
        (case, kind, "user", name, "", "", "1", *one[:4], str(one.censored), DAY)
        for (case, kind, name), series in world.samples.items()
        for one in series
    ]
    limits = [
        (case, kind, "user", name, "", "", limit)
        for (case, kind, name), limit in world.limits.items()
    ]
    brokers = [
        (case, "1", ts, span, whole, whole, replication, replication, None, DAY)
        for case, found in world.brokers.items()
        for ts, span, whole, replication in found
    ]
    capacities = [
        (case, way, *one) for case, one in world.capacities.items() for way in ("ingress", "egress")
    ]
    strings = ", ".join(f"{name} string" for name in BUCKET)
    frame = spark.createDataFrame(samples, struct(USAGE_SAMPLE))
    limited = spark.createDataFrame(limits, f"{strings}, limit_units bigint")
    at = spark_load.moments(
        frame, limited, spark.createDataFrame(brokers, struct(BROKER_SAMPLE)), fn.lit(GAP)
    )
    budgeted = spark_load.budgeted(at, spark.createDataFrame(capacities, spark_load.CAPACITIES))
    return frame, limited, budgeted.cache()


def test_every_row_is_what_the_core_says_of_the_same_moments(frames, world) -> None:
    frame, limited, budgeted = frames
    found = spark_load.capacity(budgeted, limited, frame.select(*SERIES), DAY).collect()
    assert len(found) == 2 * CASES
    bases = set()
    for row in found:
        kind = "produce" if row.direction == "ingress" else "fetch"
        capacity, headroom, factor = world.capacities[row.cluster_id]
        expected = load(
            world.moments(row.cluster_id, kind),
            capacity,
            headroom_ppm=headroom,
            replication_factor=factor,
        )
        told = (
            row.budget_units,
            row.coincident_ppm,
            row.overload_ms,
            row.unattributed_ppm,
            row.covered_ms,
            row.basis,
        )
        assert told == (
            expected.budget_units, expected.coincident_ppm, expected.overload_ms, expected.unattributed_ppm,
            expected.covered_ms, expected.basis,
        ), row  # fmt: skip
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
    assert bases == set(Basis)


def test_excesses_of_a_hot_interval_are_the_cores_and_add_up_to_the_overload(spark, frames) -> None:
    _, _, budgeted = frames
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
    at = spark.createDataFrame(
        [("x", "1", "ingress", 1_000, 10_000, 0, 0, 0, 0, 600, "measured"), ("x", "1", "ingress", 300_000, 10_000, 0, 0, 0, 0, 5_000, "measured")],
        budgeted.schema,
    )  # fmt: skip
    strings = ", ".join(f"{name} string" for name in BUCKET)
    limits = spark.createDataFrame(
        [("x", "produce", "user", "a", "", "", 200), ("x", "produce", "user", "b", "", "", 100)], f"{strings}, limit_units bigint"
    )  # fmt: skip
    intervals = spark_load.hot(spark.createDataFrame(five, struct(USAGE_5M)), at, 300_000, 10)
    found = spark_load.noisy(intervals, limits, DAY).collect()
    weights = {"a": 200, "b": 100, "c": 1}
    core = shares(
        [
            Use(bucket=bucket_of(name), rate=rate, weight=weights[name])
            for name, rate in rates.items()
        ],
        600,
    )
    assert {(one.bucket_ms, one.user, one.fair_units, one.excess_units) for one in found} == {
        (0, one.bucket.user, one.fair, one.excess) for one in core if one.excess
    }
    assert sum(one.excess_units for one in found) == sum(rates.values()) - 600
