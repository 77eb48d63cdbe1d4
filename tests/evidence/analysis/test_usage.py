"""Use against limits: every row equals the profile of the samples; the report has the first rows and their curves."""

import datetime as dt
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.evidence.analysis.capacity import carried
from reconciler.evidence.analysis.engine import LocalEngine
from reconciler.evidence.analysis.results import ReportWindow
from reconciler.evidence.analysis.usage import SCHEMA, UsageTask, profiled
from reconciler.evidence.store import samples
from reconciler.evidence.store.files import arrow_tables
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.recorded_window import NO_SAMPLES
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.quota.entity import canonical_text, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.capacity import CapacityOfCluster
from reconciler.usage.reports.usage import UsageReport, UsageState
from reconciler.usage.samples import Censored, QuotaType
from reconciler.usage.tables import USAGE_5M, USAGE_HIST_D, USAGE_ROW, USAGE_SAMPLE
from reconciler.usage.tags import bucket_of
from tests.evidence.analysis import cases, lakes, replays
from tests.evidence.analysis.report_lake import BEGIN, FROM, STEP, TIMES, TO, build_lake
from tests.evidence.store.rows import remove
from tests.fakes.clock import FakeClock
from tests.fakes.progress import silent
from tests.usage.reference import (
    Sample,
    censored_ms,
    covered_ms,
    histogram,
    percentile,
    throttled_ms,
)


def fleet() -> dict[str, list[Sample]]:
    """Series by user over two days: idle, with ties, throttled without a recorded delay, capped."""
    draw = random.Random(7)
    series: dict[str, list[Sample]] = {}
    for case in range(240):
        scale = draw.choice((1, 30, 10**6, 10**13))
        throttle = draw.choice(((None,), (0,), (0, None, 7)))
        series[f"u{case}"] = [
            Sample(
                BEGIN + at * 1_800_000,
                10_000,
                draw.randrange(scale + 1),
                draw.choice(throttle),
                draw.choice(list(Censored)),
            )
            for at in range(1, draw.randrange(2, 80))
        ]
    return series


def limit_of(number: int) -> int | None:
    return None if number % 4 == 0 else 10 ** (number % 13) + 5


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


def test_every_row_equals_the_profile_of_the_samples_and_no_percentile_exceeds_the_maximum(
    tmp_path: Path,
) -> None:
    series, lake = fleet(), lakes.lake(tmp_path)
    rows: defaultdict[dt.date, list[dict[str, object]]] = defaultdict(list)
    for user, of_user in series.items():
        for row in cases.sample_rows("c1", QuotaType.PRODUCE, bucket_of(user), "1", of_user):
            rows[row[-1]].append(dict(zip(replays.NAMES, row, strict=True)))
    for day, of_day in rows.items():
        replays.commit(lake, USAGE_SAMPLE, "c1", day, of_day)
    keys = tuple(sorted(samples.recorded_series(lake.days(USAGE_5M))))
    limits = tuple(
        (limit, "[]") if (limit := limit_of(int(key[2][1:]))) is not None else (None, "")
        for key in keys
    )
    task = UsageTask(
        sums=tuple(lake.units(USAGE_5M)),
        histograms=tuple(lake.units(USAGE_HIST_D)),
        day=dt.date(2026, 11, 2),
        keys=keys,
        limits=limits,
        rows=1,
    )
    (table,) = LocalEngine().run(lake.store.at, [task], SCHEMA, silent)
    result = {row["user"]: row for row in table.to_pylist()}
    assert result.keys() == series.keys()
    for user, of_user in series.items():
        row, limit = result[user], limit_of(int(user[1:]))
        weights, peak = histogram(of_user), max(sample.rate_units for sample in of_user)
        shares = [min(peak, percentile(weights, ppm)) for ppm in (500_000, 950_000, 990_000)]
        assert [row[name] for name in ("p50_units", "p95_units", "p99_units")] == shares
        assert (row["limit_units"], row["covered_ms"]) == (limit, covered_ms(of_user))
        assert (row["max_rate_units"], row["throttled_ms"]) == (peak, throttled_ms(of_user))
        assert row["censored_ms"] == censored_ms(of_user)
        assert row["state"] == state_of(peak, throttled_ms(of_user), limit), user


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return build_lake(tmp_path_factory.mktemp("lake"))


def report(lake: Lake, to_ms: int = TO, *clusters: str) -> UsageReport:
    window = ReportWindow(from_ms=FROM, to_ms=to_ms, clusters=clusters or ("c1",))
    return profiled(LocalEngine(), lake, window, silent)


def test_use_is_listed_worst_first_with_unused_limits_and_curves_of_the_first_rows(
    lake: Lake,
) -> None:
    result = report(lake)
    states = {row.bucket.user: row.state for row in result.usage}
    assert list(states.items()) == [
        ("alice", UsageState.THROTTLED),
        ("dave", UsageState.UNUSED),
        ("carol", UsageState.USED),
        ("bob", UsageState.IDLE),
    ]
    alice = result.usage[0]
    assert (alice.limit_units, alice.max_rate_units, alice.throttled_ms) == (1_000, 900, STEP)
    assert alice.source_entity == canonical_text(entity(user="alice"))
    (note,) = result.evidence
    coverage = 120 * STEP * 1_000_000 // 86_400_000
    assert (note.step_ms, note.snapshot_id, note.coverage_ppm) == (STEP, "s", coverage)
    assert note.counts == {"gap": 1}
    assert len(lakes.rows_of(lake, USAGE_ROW)) == 4
    assert [curve.bucket.user for curve in result.curves] == ["alice", "carol", "bob"]
    first = result.curves[0]
    assert first.points[0] == (BEGIN, 900, 900)
    assert first.throttled == (BEGIN,)
    assert (first.before_units, first.after_units) == (1_000, 1_000)


@pytest.mark.parametrize("make", [profiled, carried])
def test_a_report_on_samples_without_their_own_sums_equals_one_with_them(
    tmp_path: Path, make: Callable[..., UsageReport]
) -> None:
    """A run was killed between samples and sums: of the days one has no sums, and the others those of no samples."""
    lake = build_lake(tmp_path)
    size = CapacityOfCluster(cluster_id="c1", ingress=2, egress=2)
    window = ReportWindow(from_ms=FROM, to_ms=TO, clusters=("c1",), capacity=(size,))
    before = make(LocalEngine(), lake, window, silent)
    for table in (USAGE_5M, USAGE_HIST_D):
        for unit in lake.units(table):
            lake.replace(unit, UnitContent(rows=arrow_tables.schema(table).empty_table()))
        remove(lake, lake.units(table)[0])
    assert make(LocalEngine(), lake, window, silent) == before


def test_a_window_inside_a_day_is_answered_for_the_whole_day_and_says_so(tmp_path: Path) -> None:
    built = build_lake(tmp_path)
    lake = Lake(built.store, clock=FakeClock(TO / 1000))  # the days are over when they are written
    for day in lake.days(USAGE_SAMPLE):
        rows = lake.read([day], table=USAGE_SAMPLE)
        lake.replace(day.unit, UnitContent(rows=rows, counts=day.facts.counts, inputs=day.inputs))
    window = ReportWindow(from_ms=FROM + 60_000, to_ms=FROM + 120_000, clusters=("c1",))
    result = profiled(LocalEngine(), lake, window, silent)
    (note,) = result.evidence
    assert result.notes == (
        f"the window is widened to whole days: use is of {window.first_day} to {window.last_day} (UTC)",
    )
    assert (note.from_ms, note.to_ms > window.to_ms, note.coverage_ppm > 0) == (FROM, True, True)
    of_day = ReportWindow(from_ms=FROM, to_ms=FROM + 86_400_000, clusters=("c1",))
    again = profiled(LocalEngine(), lake, of_day, silent)
    assert (again.usage, again.notes) == (result.usage, ())


def test_a_window_that_ends_now_has_no_gap_after_the_present(lake: Lake) -> None:
    now = TIMES[-1] + 1
    result = report(lake, now)
    (note,) = result.evidence
    assert (note.from_ms, note.to_ms, note.coverage_ppm) == (FROM, now, 999_999)
    assert len(result.usage) == 4


def test_a_cluster_without_samples_is_reported(lake: Lake) -> None:
    result = report(lake, TO, "other")
    assert result.usage == ()
    assert result.evidence[0].stale == NO_SAMPLES


def test_limits_of_a_cluster_without_samples_are_reported_and_stored(tmp_path: Path) -> None:
    filled_lake = build_lake(tmp_path)
    state = QuotaState().with_values([(entity(user="erin"), Key.PRODUCER_BYTE_RATE, 5.0)])
    replays.looked(filled_lake, "quiet", state, BEGIN)
    result = report(filled_lake, TO, "c1", "quiet")
    states = {(row.cluster_id, row.bucket.user): row.state for row in result.usage}
    assert states["quiet", "erin"] is UsageState.NO_DATA
    stored_states = {
        (row["cluster_id"], row["user"]): row["state"]
        for row in lakes.rows_of(filled_lake, USAGE_ROW)
    }
    assert stored_states == {key: str(state) for key, state in states.items()}
