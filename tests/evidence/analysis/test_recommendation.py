"""Every column of every recommendation equals that of the core, over generated buckets of every model."""

import dataclasses
import datetime as dt
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.errors import QuotaValueError
from reconciler.evidence.analysis import recommendation
from reconciler.evidence.analysis.engine import LocalEngine
from reconciler.evidence.analysis.recommendation import (
    SCHEMA,
    BucketCase,
    RecommendationRequest,
    SizingTask,
    advised,
)
from reconciler.evidence.analysis.results import TimeWindow
from reconciler.evidence.store import recorded_window, samples
from reconciler.evidence.store.lake import Lake
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.recommendation import limit_sizes
from reconciler.usage.recommendation.limit_sizes import (
    BATCH,
    GOLD,
    SILVER,
    Advice,
    SizedLimit,
    SizingRule,
    Tier,
)
from reconciler.usage.samples import DAY_MS, MAX_UNITS, Cadence, Censored, QuotaType, day_of
from reconciler.usage.tables import CAPACITY_ROW, RECOMMENDATION, USAGE_SAMPLE
from reconciler.usage.tags import Bucket, bucket_of
from tests.evidence.analysis import cases, lakes, replays
from tests.fakes.progress import silent
from tests.usage.recorded import SizingCase
from tests.usage.recorded import recommend as of_core
from tests.usage.reference import Sample

CASES = 150
FROM, TO = cases.BEGIN, cases.BEGIN + 24 * DAY_MS
GAP = 5 * 3_600_000
TIERS = {
    "gold": GOLD,
    "silver": SILVER,
    "batch": BATCH,
    "gold:fetch": dataclasses.replace(GOLD, floor=5_000, ceiling=70_000),
    "none": Tier(name="none", share_ppm=1, max_delay_ms=0),
}


@dataclass(frozen=True)
class Sized:
    bucket: Bucket
    tier: str
    case: SizingCase


def _series(draw: random.Random, scale: int) -> tuple[Sample, ...]:
    """Five weeks in hours, so that a case stays small; starts and ends vary, also outside of the window."""
    hour = 3_600_000
    begin = FROM + draw.choice((-3, 0, 0, 0, 2, 11, 18)) * DAY_MS
    times, ts = [], begin
    while ts < TO + 2 * DAY_MS:
        apart = draw.choice((hour, hour, hour, hour, 2 * hour, 999, GAP, GAP + 1))
        ts += apart
        times.append((ts, hour if apart > GAP else apart))
    calm = draw.random() < 0.7
    return cases.series(
        draw,
        times=times[: draw.choice((3, 90, 600, 600, 600))],
        scale=scale,
        censoring=(Censored.NO,) * 8 + (Censored.UNKNOWN,) if calm else tuple(Censored),
    )


def _sized(number: int) -> Sized:
    draw = random.Random(number)
    kind = draw.choice((QuotaType.PRODUCE, QuotaType.PRODUCE, *QuotaType))
    scale = draw.choice((2, 60, 100_000, 10**9, 10**9, 10**10))
    series = {str(n): _series(draw, scale) for n in range(draw.randrange(4))}
    if draw.random() < 0.1:
        series["9"] = tuple(Sample(FROM + n * 3_600_000 + 5, 3_600_000, 0) for n in range(500))
    if draw.random() < 0.05:
        series["8"] = tuple(
            Sample(FROM + n * 7_200_000 + 5, 300_000, MAX_UNITS if n % 9 else 7) for n in range(240)
        )
    case = SizingCase(
        kind=kind,
        series=series,
        from_ms=FROM,
        to_ms=TO,
        max_gap_ms=GAP,
        current=draw.choice((None, None, scale, 3 * scale, max(1, scale // 3), MAX_UNITS - 1)),
        budget=draw.choice((None, None, None, scale // 2 + 1, 10 * scale)),
        pinned=draw.random() < 0.1,
        bumped=draw.random() < 0.2,
    )
    bucket = (
        bucket_of(ip=f"10.0.0.{number}")
        if kind is QuotaType.IP
        else bucket_of(f"alice{number}", draw.choice(("", "app")))
    )
    return Sized(
        bucket=bucket,
        case=case,
        tier=draw.choice(("gold", "gold", "silver", "batch", "none")),
    )


def _plain(entry: Sized, result: SizedLimit) -> tuple[object, ...]:
    columns = {
        **dataclasses.asdict(result),
        **entry.bucket.columns,
        "cluster_id": "c1",
        "quota_type": str(entry.case.kind),
        "source_entity": "somebody",
        "tier": entry.tier,
        "advice": str(result.advice),
        "rules": [str(rule) for rule in result.rules],
        "brokers": sum(
            any(FROM <= sample.ts_ms < TO for sample in samples)
            for samples in entry.case.series.values()
        ),
        "day": day_of(TO - 1),
    }
    return tuple(columns[name] for name in RECOMMENDATION.names)


def _tier(entry: Sized) -> Tier:
    return TIERS.get(f"{entry.tier}:{entry.case.kind}") or TIERS[entry.tier]


def _lake_with(folder: Path, sized: list[Sized]) -> Lake:
    """A lake of one cluster, with the samples of each case."""
    lake = lakes.lake(folder)
    rows: defaultdict[dt.date, list[dict[str, object]]] = defaultdict(list)
    for entry in sized:
        for broker, series in entry.case.series.items():
            for row in cases.sample_rows("c1", entry.case.kind, entry.bucket, broker, series):
                rows[row[-1]].append(dict(zip(replays.NAMES, row, strict=True)))
    for day, of_day in rows.items():
        replays.commit(lake, USAGE_SAMPLE, "c1", day, of_day)
    return lake


def _recommended(lake: Lake, sized: list[Sized]) -> list[dict[str, object]]:
    """The rows of one task for these cases."""
    units = tuple(day.unit for day in lake.days(USAGE_SAMPLE))
    task_cases = tuple(
        BucketCase(
            bucket=entry.bucket,
            case=limit_sizes.SizingCase(
                kind=entry.case.kind,
                from_ms=FROM,
                to_ms=TO,
                max_gap_ms=GAP,
                current=entry.case.current,
                budget=entry.case.budget,
                pinned=entry.case.pinned,
                bumped=entry.case.bumped,
            ),
            tier_name=entry.tier,
            tier=_tier(entry),
            source_entity="somebody",
            keys=tuple(
                samples.key_of(entry.case.kind, entry.bucket, broker)
                for broker in entry.case.series
            ),
        )
        for entry in sized
    )
    task = SizingTask(units=units, window=(FROM, TO), day=day_of(TO - 1), cases=task_cases, rows=1)
    (table,) = LocalEngine().run(lake.store.at, [task], SCHEMA, silent)
    return table.to_pylist()


def test_every_column_of_generated_recommendations_equals_that_of_the_core(tmp_path: Path) -> None:
    sized = [_sized(number) for number in range(CASES)]
    rows = _recommended(_lake_with(tmp_path, sized), sized)
    expected = [_plain(entry, of_core(entry.case, _tier(entry))) for entry in sized]
    assert [tuple(row[name] for name in RECOMMENDATION.names) for row in rows] == expected
    assert {row["advice"] for row in rows} == set(Advice)
    assert {rule for row in rows for rule in row["rules"]} == set(SizingRule)
    assert {row["quota_type"] for row in rows} == set(QuotaType)


@pytest.mark.parametrize("rate", [5, MAX_UNITS + 1], ids=["twice", "out of range"])
def test_impossible_samples_give_no_limit_and_are_an_error(tmp_path: Path, rate: int) -> None:
    entry = dataclasses.replace(_sized(0), tier="gold")
    hours = [Sample(FROM + n * 3_600_000, 3_600_000, 5) for n in range(1, 24 * 24)]
    strange = Sample(hours[40].ts_ms + (rate > MAX_UNITS), 1000, rate)
    case = dataclasses.replace(entry.case, series={"1": [*hours, strange]})
    odd = [dataclasses.replace(entry, case=case)]
    words = "has .* units over" if rate > MAX_UNITS else "samples must ascend"
    with pytest.raises(QuotaValueError, match=words):
        _recommended(_lake_with(tmp_path, odd), odd)


PACE = Cadence(step_ms=30_000, max_gap_ms=150_000)
BEGIN = 1_760_054_400_000 // DAY_MS * DAY_MS


def _sample(kind: str, group: str, **names: str) -> dict[str, object]:
    return {
        "quota_type": kind,
        "group_kind": group,
        "broker_id": "1",
        "ts_ms": BEGIN + 3 * DAY_MS + 5,
        "dt_ms": 30_000,
        "rate_units": 7,
        "censored": "no",
        **names,
    }


def test_cases_have_limit_tier_marks_and_budget_and_clients_that_cannot_be_limited_are_omitted(
    tmp_path: Path,
) -> None:
    into = lakes.lake(tmp_path)
    state = QuotaState().with_values(
        [
            (entity(user="ann"), Key.PRODUCER_BYTE_RATE, 50.0),
            (entity(user=DEFAULT), Key.PRODUCER_BYTE_RATE, 90.0),
            (entity(user="ann"), Key.REQUEST_PERCENTAGE, -1.0),
        ]
    )
    replays.looked(into, "c1", state, BEGIN + 5)
    rows = [
        _sample("produce", "user", user="ann"),
        _sample("produce", "user", user="bea"),
        _sample("produce", "user", user="cid"),
        _sample("fetch", "client", client_id="app"),
        _sample("request", "user", user="ann"),
        _sample("produce", "none"),
    ]
    last = day_of(BEGIN + 3 * DAY_MS)
    replays.commit(into, USAGE_SAMPLE, "c1", last, rows, **recorded_window.cadence_inputs(PACE))
    capacity = [
        {"broker_id": broker, "direction": "ingress", "budget_units": budget, "basis": "measured"}
        for broker, budget in (("1", 900), ("2", 700), ("3", None))
    ]
    replays.commit(into, CAPACITY_ROW, "c1", last, capacity)
    raised = {
        "quota_type": "produce",
        "group_kind": "user",
        "user": "bea",
        "tier": "silver",
        "advice": "change",
        "rules": ["bump"],
        "target_units": 90,
    }
    proposals = [
        raised,
        raised | {"user": "ann", "rules": ["cut"], "target_units": 5},
        raised | {"user": "cid", "target_units": 91},  # not merged: cid still has 90
    ]
    replays.commit(into, RECOMMENDATION, "c1", day_of(BEGIN + DAY_MS), proposals)
    work = RecommendationRequest(
        clusters=("c1",),
        window=TimeWindow(from_ms=BEGIN, to_ms=BEGIN + 4 * DAY_MS),
        pinned=frozenset({("c1", entity(user="ann")), ("c2", entity(user="bea"))}),
    )
    window = recorded_window.opened(into, "c1", *work.window.span)
    (task,) = recommendation._tasks(into, window, work)
    inputs = {
        (case.case.kind, case.bucket.user or case.bucket.client_id): (
            case.case.current,
            case.case.budget,
            case.case.pinned,
            case.case.bumped,
        )
        for case in task.cases
    }
    assert inputs == {
        ("produce", "ann"): (50, 700, True, False),
        ("produce", "bea"): (90, 700, False, True),
        ("produce", "cid"): (90, 700, False, False),
        ("fetch", "app"): (None, None, False, False),
        ("request", "ann"): (None, None, True, False),
    }
    assert {case.tier_name for case in task.cases} == {"silver"}
    assert {case.case.max_gap_ms for case in task.cases} == {150_000}
    result = advised(LocalEngine(), into, work, silent)
    assert len(result.report.recommendations) == 5
    assert result.changes == ()  # no documents are asked for


def test_a_window_without_samples_recommends_nothing_and_is_reported(tmp_path: Path) -> None:
    window = TimeWindow(from_ms=BEGIN, to_ms=BEGIN + DAY_MS)
    work = RecommendationRequest(clusters=("c1",), window=window)
    result = advised(LocalEngine(), lakes.lake(tmp_path), work, silent)
    assert result.changes == ()
    assert result.report.evidence[0].stale == recorded_window.NO_SAMPLES
