"""A window of a lake for the core: its coverage, its samples, and its gaps."""

from pathlib import Path

from reconciler.evidence.store import recorded_window
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import UnitContent, counts_of
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState
from reconciler.usage.samples import DAY_MS, Cadence, day_of
from reconciler.usage.tables import TARGET_UP, USAGE_SAMPLE
from tests.evidence.analysis import lakes, replays

CLUSTER = "c1"
BEGIN = 1_760_054_400_000 // DAY_MS * DAY_MS
PACE = Cadence(step_ms=30_000, max_gap_ms=150_000)


def _limits(value: float) -> QuotaState:
    return QuotaState().with_values([(entity(user="alice"), Key.PRODUCER_BYTE_RATE, value)])


def _sample(ts_ms: int, broker: str, rate: int = 100) -> dict[str, object]:
    return {
        "quota_type": "produce",
        "group_kind": "user",
        "user": "alice",
        "broker_id": broker,
        "ts_ms": ts_ms,
        "dt_ms": 30_000,
        "rate_units": rate,
        "throttle_ms": 0,
        "censored": "no",
    }


def _filled(folder: Path, **inputs: str) -> Lake:
    into = lakes.lake(folder)
    rows = [_sample(BEGIN + n * 30_000, str(broker)) for n in (3, 1, 2) for broker in (2, 10)]
    replays.commit(into, USAGE_SAMPLE, CLUSTER, day_of(BEGIN), rows, **inputs)
    up = [
        {"broker_id": broker, "ts_ms": BEGIN + n, "dt_ms": DAY_MS // 4, "up": answered}
        for n, (broker, answered) in enumerate(
            [("2", True), ("2", True), ("10", True), ("10", False)]
        )
    ]
    replays.commit(into, TARGET_UP, CLUSTER, day_of(BEGIN), up)
    return into


def test_a_window_has_its_coverage_and_its_missing_data(tmp_path: Path) -> None:
    into = _filled(tmp_path, **recorded_window.cadence_inputs(PACE))
    (day,) = into.days(USAGE_SAMPLE)
    counts = counts_of({"filled": 3, "no_up": 0}, {"2": 500_000})
    rows = into.read([day], table=USAGE_SAMPLE)
    into.replace(day.unit, UnitContent(rows=rows, counts=counts, inputs=day.inputs))
    replays.looked(into, CLUSTER, _limits(50.0), BEGIN + 1)
    window = recorded_window.opened(into, CLUSTER, BEGIN, BEGIN + 2 * DAY_MS)
    note = window.note(into, "here", 7)
    assert (window.reason, window.rows, window.cadence) == ("", 6, PACE)
    assert note.coverage_ppm == 125_000  # broker 10 answered for a quarter of one of two days
    assert (note.snapshot_id, note.step_ms, note.made_ms, note.stale) == ("look", 30_000, 7, "")
    assert note.partial == (f"1 of 2 days have no samples: {day_of(BEGIN + DAY_MS)}",)
    assert note.counts == {"filled": 3}


def test_a_window_that_cannot_be_used_has_a_reason(tmp_path: Path) -> None:
    into = _filled(tmp_path)
    assert (
        recorded_window.opened(into, CLUSTER, BEGIN, BEGIN + DAY_MS).reason
        == recorded_window.NO_PACE
    )
    assert (
        recorded_window.opened(into, "other", BEGIN, BEGIN + DAY_MS).reason
        == recorded_window.NO_SAMPLES
    )
    paced = _filled(tmp_path / "paced", **recorded_window.cadence_inputs(PACE))
    assert (
        recorded_window.opened(paced, CLUSTER, BEGIN, BEGIN + DAY_MS).reason
        == recorded_window.NO_SNAPSHOT
    )


def test_days_without_samples_are_missing(tmp_path: Path) -> None:
    into = _filled(tmp_path, **recorded_window.cadence_inputs(PACE))
    replays.looked(into, CLUSTER, _limits(50.0), BEGIN + 1)
    replays.commit(
        into,
        USAGE_SAMPLE,
        CLUSTER,
        day_of(BEGIN + DAY_MS),
        [],
        **recorded_window.cadence_inputs(PACE),
    )
    window = recorded_window.opened(into, CLUSTER, BEGIN, BEGIN + 2 * DAY_MS)
    assert window.note(into, "here", 7).partial == (
        f"1 of 2 days have no samples: {day_of(BEGIN + DAY_MS)}",
    )
    second_day = recorded_window.opened(into, CLUSTER, BEGIN + DAY_MS, BEGIN + 2 * DAY_MS)
    assert second_day.reason == recorded_window.NO_SAMPLES
    note = second_day.note(into, "here", 7)
    assert (note.coverage_ppm, note.partial[0]) == (0, recorded_window.NOT_COVERED)


def test_days_with_another_step_keep_the_longest_gap_of_the_window(tmp_path: Path) -> None:
    slow = Cadence(step_ms=60_000, max_gap_ms=300_000)
    into = _filled(tmp_path, **recorded_window.cadence_inputs(slow))
    quick = recorded_window.cadence_inputs(Cadence(step_ms=10_000, max_gap_ms=50_000))
    late = [_sample(BEGIN + DAY_MS + 10_000, "2")]
    replays.commit(into, USAGE_SAMPLE, CLUSTER, day_of(BEGIN + DAY_MS), late, **quick)
    window = recorded_window.opened(into, CLUSTER, BEGIN, BEGIN + 2 * DAY_MS)
    assert window.cadence == Cadence(step_ms=10_000, max_gap_ms=300_000)


def test_limits_of_an_old_snapshot_are_reported(tmp_path: Path) -> None:
    into = _filled(tmp_path, **recorded_window.cadence_inputs(PACE))
    replays.looked(into, CLUSTER, _limits(50.0), BEGIN - 90 * DAY_MS)
    (message,) = (
        recorded_window.opened(into, CLUSTER, BEGIN, BEGIN + DAY_MS).note(into, "here", 7).partial
    )
    assert message.startswith("limits were not observed for 91 days: those of 2025-07-12 00:00 UTC")
