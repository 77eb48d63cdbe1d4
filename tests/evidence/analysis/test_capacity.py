"""Budgets, coincident load and fair shares of whole clusters equal those of the core; the report has the worst."""

import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from reconciler.errors import QuotaValueError
from reconciler.evidence.analysis import capacity, report
from reconciler.evidence.analysis.engine import LocalEngine
from reconciler.evidence.analysis.results import ReportWindow
from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import canonical_text, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.capacity import (
    BucketUse,
    BudgetBasis,
    CapacityOfCluster,
    committed_ppm,
    shares,
)
from reconciler.usage.kernel.broker_load import BrokerCapacity, BrokerMoments, load
from reconciler.usage.kernel.series import NOT_RECORDED
from reconciler.usage.reports.usage import TrafficDirection, UsageReport
from reconciler.usage.samples import Cadence, Censored, QuotaType
from reconciler.usage.tables import (
    BROKER_SAMPLE,
    CAPACITY_ROW,
    IMPACT_ROW,
    NOISY_ROW,
    RECOMMENDATION,
    USAGE_SAMPLE,
)
from reconciler.usage.tags import bucket_of
from tests.evidence.analysis import lakes, replays
from tests.evidence.analysis.report_lake import BEGIN, DAY, FROM, STEP, TO, build_lake
from tests.fakes.progress import silent
from tests.usage.reference import Sample, arrived, rows

GAP = 60_000
CASES = 40
NAMES = ("a", "b", "c")


class World:
    """Random brokers, one cluster each, with three users who produce and fetch."""

    def __init__(self) -> None:
        draw = random.Random(11)
        self.samples: dict[tuple[str, str, str], list[Sample]] = {}
        self.limits: dict[tuple[str, str, str], int] = {}
        self.brokers: dict[str, list[tuple[int, int, int | None, int | None, int | None]]] = {}
        self.capacities: dict[str, tuple[int | None, int]] = {}
        for case in (f"c{number}" for number in range(CASES)):
            scale = draw.choice((3, 1_000, 10**8, 10**12))
            times = [
                BEGIN + at * 10_000
                for at in range(1, draw.randrange(3, 40))
                if draw.random() < 0.95
            ]
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


def carried(lake: Lake, window: ReportWindow) -> UsageReport:
    return capacity.carried(LocalEngine(), lake, window, silent)


def filled(folder: Path, world: World) -> Lake:
    lake = lakes.lake(folder)
    used: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
    for (case, kind, name), series in world.samples.items():
        used[case] += [
            {
                "quota_type": kind,
                "group_kind": "user",
                "user": name,
                "broker_id": "1",
                "ts_ms": sample.ts_ms,
                "dt_ms": sample.dt_ms,
                "rate_units": sample.rate_units,
                "throttle_ms": 0,
                "censored": "no",
            }
            for sample in series
        ]
    pace = recorded_window.cadence_inputs(Cadence(step_ms=10_000, max_gap_ms=GAP))
    keys = {"produce": Key.PRODUCER_BYTE_RATE, "fetch": Key.CONSUMER_BYTE_RATE}
    for case, of_case in used.items():
        replays.commit(lake, USAGE_SAMPLE, case, DAY, of_case, **pace)
        totals = [
            {
                "broker_id": "1",
                "ts_ms": ts,
                "dt_ms": span,
                "bytes_in": bytes_in,
                "bytes_out": bytes_out,
                "replication_in": replication,
                "replication_out": replication,
            }
            for ts, span, bytes_out, replication, bytes_in in world.brokers[case]
        ]
        replays.commit(lake, BROKER_SAMPLE, case, DAY, totals)
        limits = [
            (entity(user=name), keys[kind], float(limit))
            for (of, kind, name), limit in world.limits.items()
            if of == case
        ]
        replays.looked(lake, case, QuotaState().with_values(limits), BEGIN)
    return lake


def test_every_row_equals_the_result_of_the_core_for_the_same_moments(
    tmp_path: Path, world: World
) -> None:
    lake = filled(tmp_path, world)
    capacities = tuple(
        CapacityOfCluster(cluster_id=case, ingress=units, egress=units, headroom_ppm=headroom)
        for case, (units, headroom) in world.capacities.items()
    )
    window = ReportWindow(
        from_ms=FROM, to_ms=TO, clusters=tuple(world.capacities), capacity=capacities
    )
    _ = carried(lake, window)
    result = lakes.rows_of(lake, CAPACITY_ROW)
    assert len(result) == 2 * CASES
    for row in result:
        case, kind = row["cluster_id"], "produce" if row["direction"] == "ingress" else "fetch"
        units, headroom = world.capacities[case]
        expected = load(
            world.moments(case, kind), BrokerCapacity(units=units, headroom_ppm=headroom)
        )
        limits = [limit for key, limit in world.limits.items() if key[:2] == (case, kind)]
        promised = (
            None if expected.budget_units is None else committed_ppm(limits, expected.budget_units)
        )
        names = ("budget_units", "coincident_ppm", "overload_ms", "unattributed_ppm", "covered_ms")
        assert [row[name] for name in names] == [getattr(expected, name) for name in names], row
        assert (row["basis"], row["committed_ppm"]) == (expected.basis, promised), row
    assert {row["basis"] for row in result} == set(BudgetBasis)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return build_lake(tmp_path_factory.mktemp("lake"))


C1 = CapacityOfCluster(cluster_id="c1", ingress=1_500)
WINDOW = ReportWindow(from_ms=FROM, to_ms=TO, clusters=("c1",), capacity=(C1,), most=3)


def test_capacity_is_reduced_by_replication_and_excess_in_the_hottest_intervals_is_reported(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "HOT", 3)
    result = carried(lake, ReportWindow(from_ms=FROM, to_ms=TO, clusters=("c1",), capacity=(C1,)))
    ingress = next(row for row in result.capacity if row.direction is TrafficDirection.INGRESS)
    assert (ingress.budget_units, ingress.basis) == (1_000, BudgetBasis.MEASURED)
    assert ingress.committed_ppm == 11_000_000  # alice and bob were observed, dave was not
    assert ingress.coincident_ppm == 1_405_000
    assert ingress.overload_ms == 120 * STEP
    assert ingress.unattributed_ppm == 95 * 1_000_000 // 1_500
    egress = next(row for row in result.capacity if row.direction is TrafficDirection.EGRESS)
    assert (egress.budget_units, egress.basis) == (None, BudgetBasis.NO_DATA)
    # Users without a limit have the least weight.
    assert {row.bucket.user for row in result.noisy} == {"alice", "carol"}
    first = result.noisy[0]
    assert (first.quota_type, first.bucket.user) == (QuotaType.PRODUCE, "alice")
    uses = [
        BucketUse(bucket=bucket_of(name), rate=rate, weight=weight)
        for name, rate, weight in (("alice", 900, 1_000), ("bob", 500, 10_000), ("carol", 5, 1))
    ]
    fair = {share.bucket: share for share in shares(uses, 1_000)}
    at = result.noisy[-1].bucket_ms
    assert {row.bucket: row.excess_units for row in result.noisy if row.bucket_ms == at} == {
        bucket: share.excess for bucket, share in fair.items() if share.excess
    }
    assert len(lakes.rows_of(lake, CAPACITY_ROW)) == 2
    assert len(lakes.rows_of(lake, NOISY_ROW)) == len(result.noisy)
    assert len({row.bucket_ms for row in result.noisy}) == 3
    assert result.notes == (
        "c1: fair shares are those of the 3 intervals furthest beyond the budget; 10 more are left out",
    )


def test_hot_intervals_of_one_cluster_do_not_displace_those_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "HOT", 2)
    lake = build_lake(tmp_path)
    for table in (USAGE_SAMPLE, BROKER_SAMPLE):
        (day,) = lake.days(table, ["c1"])
        copied = lake.read([day], table=table).to_pylist()
        replays.commit(
            lake, table, "c2", DAY, [row | {"cluster_id": "c2"} for row in copied], **day.inputs
        )
    both = tuple(CapacityOfCluster(cluster_id=name, ingress=1_200) for name in ("c1", "c2"))
    window = ReportWindow(from_ms=FROM, to_ms=TO, clusters=("c1", "c2"), capacity=both)
    hot = {(row.cluster_id, row.bucket_ms) for row in carried(lake, window).noisy}
    assert sorted(name for name, _ in hot) == ["c1", "c1", "c2", "c2"]


def test_impossible_rates_are_an_error(tmp_path: Path) -> None:
    fleet, huge, pacing = replays.beyond_64_bits()
    filled_lake = replays.filled(tmp_path, [fleet], pacing)
    window = ReportWindow(
        from_ms=huge[0].ts_ms - pacing.step_ms,
        to_ms=huge[-1].ts_ms + 1,
        clusters=(fleet.cluster_id,),
        capacity=(CapacityOfCluster(cluster_id=fleet.cluster_id, ingress=10, egress=10),),
    )
    with pytest.raises(QuotaValueError, match="no broker moves so much"):
        carried(filled_lake, window)


def test_a_cluster_without_a_capacity_is_named(lake: Lake) -> None:
    result = carried(lake, ReportWindow(from_ms=FROM, to_ms=TO, clusters=("c1",)))
    assert result.notes == (
        "c1: no capacity is configured (spec.brokerCapacity), so there is no budget",
    )
    assert {row.basis for row in result.capacity} == {BudgetBasis.NO_DATA}


def test_a_report_contains_the_newest_simulation_of_the_lake_with_both_limits_in_its_curve(
    tmp_path: Path,
) -> None:
    lake = build_lake(tmp_path)
    produce = {"group_kind": "user", "quota_type": "produce"}
    impact = produce | {
        "user": "bob",
        "any_name": False,
        "broker_id": "1",
        "before_units": 10_000,
        "after_units": 400,
        "source_entity": canonical_text(entity(user="bob")),
        "answer": "exact",
        "verdict": "worse",
        "bound": "at_least",
        "model": "backlog",
        "observed_throttled_ms": 0,
        "after_throttled_ms": 9_000,
        "covered_ms": 100,
    }
    same_impact = impact | {"user": "carol", "verdict": "same", "after_units": 10_000}
    censored_impact = same_impact | {"user": "dave", "after_units": 300, "censored_ms": 90}
    span = {"from_ms": str(FROM - 86_400_000), "to_ms": str(TO), "snapshot_id": "s-0"}
    impacts = [same_impact | {"user": "zed"}, same_impact, impact, censored_impact]
    replays.commit(lake, IMPACT_ROW, "c1", DAY, impacts, **span)
    advice = produce | {
        "user": "bob",
        "tier": "silver",
        "advice": "change",
        "peak_units": 5,
        "rules": ["cut", "floor"],
    }
    span = {"from_ms": str(FROM), "to_ms": str(TO - 5), "snapshot_id": "s-1"}
    replays.commit(lake, RECOMMENDATION, "c1", DAY, [advice], **span)
    result = report.reported(LocalEngine(), lake, WINDOW, silent)
    assert result.simulation is not None
    assert [row.bucket.user for row in result.simulation.rows] == ["bob", "dave", "carol"]
    assert result.simulation.rows[0].bound == "at_least"
    assert (result.simulation.left_out, result.simulation.may_be_worse) == (1, 1)
    assert result.simulation.verdicts == {"worse": 1, "same": 3}
    assert [
        (origin.table, origin.from_ms, origin.to_ms, origin.snapshot_id, origin.other_window)
        for origin in result.origins
    ] == [
        ("impact_row", FROM - 86_400_000, TO, "s-0", True),
        ("recommendation", FROM, TO - 5, "s-1", False),
    ]
    assert result.recommendations[0].rules == ("cut", "floor")
    assert [(curve.bucket.user, curve.after_units) for curve in result.curves][:3] == [
        ("bob", 400),
        ("carol", 10_000),
        ("alice", 1_000),
    ]
    assert result.left_out["usage_row"] == 1
    assert result.capacity
