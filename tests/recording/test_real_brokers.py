"""T12: the model's forecast from recorded use, against real brokers with the same records. Needs no broker.

The bounds are 15 % of throttled time and 20 % of the worst delay, group by group. All that an owner can state is stated.
docs/recorded-use.md has the results and explains the remaining error.
"""

from functools import cache

import pytest

from tests.recording import compare, fixture
from tests.recording.compare import Row
from tests.recording.fixture import FixtureRun
from tests.recording.truth import DELAY_BOUND, TIME_BOUND, Compared, Way, truth

PRODUCERS = (1, 2, 3, 4, 5, 6)
UNSEEN = (9, 10, 11, 12, 13, 14)
"""Recorded after a model was finished: 9 and 10 before peaks, 11 and 12 before the rule about their neighbours, 13 and 14
after it."""


@cache
def run_of(number: int) -> FixtureRun:
    return fixture.read(number)


@cache
def rows(number: int) -> tuple[Row, ...]:
    return compare.rows(run_of(number))


def every() -> list[Row]:
    return [row for number in fixture.numbers() for row in rows(number)]


def of(number: int, kind: str) -> list[Row]:
    return [row for row in rows(number) if row.case.kind == kind]


def names(named_rows: list[Row]) -> list[tuple[int, str, str]]:
    return [(row.run, row.case.kind, row.case.shape) for row in named_rows]


def test_the_documented_number_of_runs_exists_and_every_recording_is_valid():
    """A machine with too much load delays records by more than the measured effect."""
    assert fixture.numbers() == (*PRODUCERS, 7, 8, *UNSEEN)
    assert len(every()) == 52 + 36
    assert all(row.truth.baseline_ms <= compare.LONGEST_BASELINE_MS for row in every())
    assert all(run_of(number).driver_ms <= 1 for number in UNSEEN)


def test_of_the_known_groups_one_misses_a_bound():
    """Three connections with records of 16 KiB: readings do not show which of them had to wait."""
    known_rows = [row for row in every() if row.run < compare.FIRST_UNSEEN]
    missed = [row for row in known_rows if not (row.time_is_within and row.delay_is_within)]
    assert names(missed) == [(3, "produce", "walk")]


MISSED = {
    # A reading of ten seconds hides teeth and spikes: with each record in its place the replay meets the bounds.
    (9, "fetch", "steady", 1): ("time",),
    (10, "fetch", "spikes", 1): ("time", "delay"),
    (11, "fetch", "walk", 1): ("delay",),
    (13, "fetch", "spikes", 2): ("time",),
    # Which of several connections waits longest is chance: 16 to 22 s by replays of the four, 23 s in truth.
    (10, "produce", "jobs", 3): ("delay",),
    (10, "produce", "steady", 4): ("delay",),
    (11, "produce", "spikes", 4): ("delay",),
    (12, "produce", "steady", 2): ("delay",),
    (13, "fetch", "spikes", 3): ("delay",),
    # Records of 100 bytes: the replay has too little beside them in requests that no longer wait.
    (10, "produce", "walk", 2): ("delay",),
    (14, "produce", "walk", 3): ("time",),
}


@pytest.mark.parametrize("row", [row for number in UNSEEN for row in rows(number)], ids=Row.line)
def test_an_unseen_group_meets_the_bounds_unless_it_is_known_why_not(row: Row) -> None:
    """The promise of 10 of 12 is missed by one: of runs 13 and 14, which the model did not know, 9 meet both bounds."""
    missed = MISSED.get((row.run, row.case.kind, row.case.shape, row.case.connections), ())
    assert (row.time_is_within, row.delay_is_within) == (
        "time" not in missed,
        "delay" not in missed,
    )
    assert row.contains(row.stated, within=True)
    assert not missed or not row.stated.is_one_figure


def test_if_nothing_is_stated_the_interval_contains_what_happened():
    outside = [row for row in every() if not row.contains(row.unstated)]
    unseen = [row for row in outside if row.run >= compare.FIRST_UNSEEN]
    assert names(unseen) == [(14, "produce", "jobs")]  # 79.9 s, 1.4 s above it
    assert all(row.contains(row.unstated, within=True) for row in outside), names(outside)


def test_another_phase_of_the_scrapes_gives_the_same_forecast():
    """Scraped every 5 s, thinned to 10 s: the other half of the scrapes is a second recording."""
    for number in PRODUCERS:
        total = compare.total(of(number, "produce"))
        other_total = compare.total(
            row for row in compare.rows(run_of(number), skip=1) if row.case.kind == "produce"
        )
        assert other_total.throttled.within(TIME_BOUND)
        assert other_total.worst.within(DELAY_BOUND)
        assert (
            abs(other_total.throttled.told_ms - total.throttled.told_ms)
            <= 0.06 * total.throttled.told_ms
        )


def test_the_throttle_time_metric_of_the_broker_persists_after_throttling():
    """It is a mean over the last minute: it shows every throttling, for up to a minute longer."""
    producers = [row for number in PRODUCERS for row in of(number, "produce")]
    for row in producers:
        assert row.observed_ms >= row.throttled.true_ms - 20_000
    total = sum(row.observed_ms for row in producers)
    true = sum(row.throttled.true_ms for row in producers)
    assert 1.2 < total / true < 1.6


def test_counting_samples_above_the_limit_misses_a_third():
    """A common calculation of dashboards, on the same recordings."""
    counted = true = 0
    for number in PRODUCERS:
        run = run_of(number)
        rates = compare.truth.points_of(run.matrix, compare.RATE)
        for row in rows(number):
            if row.case.kind == "produce":
                points = rates["produce", row.case.user, row.case.client_id]
                counted += sum(
                    run.scrape_ms
                    for at, rate in points
                    if run.free[0] <= at < run.free[1] and rate > row.case.limit
                )
                true += row.throttled.true_ms
    assert counted < 0.67 * true


def test_the_fixture_contains_no_real_name():
    for number in fixture.numbers():
        run = run_of(number)
        names = {
            series["metric"].get(label, "p-")
            for series in run.matrix["data"]["result"]
            for label in ("user", "client_id")
        }
        assert all(name.startswith("p-") for name in names)


def test_late_time_is_the_time_during_which_a_record_is_late():
    free = [Way(due_ms=at, took_ms=10) for at in range(0, 100_000, 1_000)]
    limited = [
        Way(due_ms=0, took_ms=500),
        Way(due_ms=1_000, took_ms=5_010),  # late from 2,010 to 6,010
        Way(due_ms=3_000, took_ms=5_010),  # late from 4,010 to 8,010
        Way(due_ms=20_000, took_ms=2_010),  # late from 21,010 to 22,010
    ]
    result = truth(free, limited)
    assert result.throttled_ms == 6_000 + 1_000
    assert result.worst_ms == 5_000
    assert (result.baseline_ms, result.machine_ms) == (10, 0)


def test_a_delay_may_be_off_by_what_the_machine_added_to_it() -> None:
    free = [
        *(Way(due_ms=at, took_ms=10) for at in range(0, 200_000, 1_000)),
        Way(due_ms=0, took_ms=510),
        Way(due_ms=300, took_ms=310),
        Way(due_ms=5_000, took_ms=410),
    ]
    machine_ms = truth(free, free).machine_ms
    assert machine_ms == 400 + 100 + 300
    delay = Compared(told_ms=12_800, true_ms=10_000)
    assert delay.within(DELAY_BOUND, machine_ms=machine_ms)
    assert not delay.within(DELAY_BOUND, machine_ms=machine_ms - 1)
    assert not delay.within(DELAY_BOUND)
