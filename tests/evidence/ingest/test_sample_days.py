"""Imports in any order, repeated, late, partial or concurrent: a day has the samples of the import with most points."""

import functools
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import LakeDamaged
from reconciler.evidence.analysis import rollup
from reconciler.evidence.ingest.sample_days import (
    NOT_REPLACED,
    SETTLED,
    DayReading,
    SampleDays,
    cursor,
)
from reconciler.evidence.store import snapshot_import
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.snapshot_import import SnapshotDocument
from reconciler.evidence.store.stored_days import CURSOR, Unit
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import cadence
from reconciler.usage.tables import BROKER_SAMPLE, TARGET_UP, USAGE_5M, USAGE_SAMPLE
from tests.evidence.ingest.point_rows import (
    DAY,
    PACE,
    START,
    STEP,
    broker,
    gauge,
    points,
    times,
)
from tests.evidence.store import rows as rows_of_tables
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock
from tests.hypothesis_profiles import count_examples

HOUR = 3_600_000
DAY_MS = 86_400_000
BEFORE = DAY - timedelta(days=1)
AFTER = DAY + timedelta(days=1)
DAYS = (BEFORE, DAY, AFTER)
MADE = (USAGE_SAMPLE, TARGET_UP, BROKER_SAMPLE)


@pytest.fixture
def lake():
    return new_lake()


def new_lake(store=None, run_id=""):
    where = store or PassingStore()
    return Lake(where, clock=FakeClock(), run_id=run_id, pause=lambda _: None)


def write(lake, rows, days=DAYS, *, pace=PACE, rebuild=False, **how):
    """One import of several days; returns the days that were written."""
    writer = SampleDays(lake, "c", pace, rebuild=rebuild)
    reports = {day: writer.write(day, DayReading(points=points(rows), **how)) for day in days}
    return {day: report for day, report in reports.items() if report is not None}


def assembled(reports):
    return {day for day, report in reports.items() if report.is_assembled}


def content(lake):
    return [lake.read(lake.days(of, ["c"]), table=of).to_pylist() for of in MADE]


def generations(lake):
    return [
        (unit.unit.day, lake.store.version(unit.unit.path))
        for of in MADE
        for unit in lake.days(of, ["c"])
    ]


def use(begin, count, *, rate=5.0):
    at = times(count, begin=begin)
    return [
        *broker(1, at),
        *gauge("rate", at, rate, kind="produce", user="u"),
        *gauge("bytes_in_total", at, [number * 60_000 for number in range(count)]),
    ]


def around_midnight():
    """Some minutes before and after two midnights: a busy bucket, one that becomes idle, counters."""
    rows = []
    for begin in (START - 4 * STEP, START + DAY_MS - 3 * STEP):
        at = times(8, begin=begin)
        busy = [100.0 + number for number in range(8)]
        rows += broker(1, at)
        rows += gauge("rate", at, busy, kind="produce", user="busy")
        rows += gauge("throttle_ms", at, [0, 5] * 4, kind="produce", user="busy")
        rows += gauge("rate", at[:2], 7, kind="produce", user="silent")
        counted = [number * 3000 for number in range(8)]
        rows += gauge("rate_total", at, counted, kind="fetch", user="counted")
        rows += gauge("bytes_in_total", at, [number * 60_000 for number in range(8)])
    return rows


def look(at, limit, user="busy"):
    state = QuotaState(limits={entity(user=user): limits_of({Key.PRODUCER_BYTE_RATE: limit})})
    return SnapshotDocument(cluster_id="c", observed_ms=at, state=state)


LOOKS = [look(START - DAY_MS, 100.0), look(START + STEP, 200.0), look(START + DAY_MS, 200.0)]


@functools.cache
def in_one_go():
    lake = new_lake()
    snapshot_import.keep(lake, LOOKS)
    write(lake, around_midnight())
    return content(lake)


# ---- the same rows, in whatever order readings come ----------------------------------------------


@settings(max_examples=count_examples(8))
@given(data=st.data())
def test_fragments_in_any_order_and_a_complete_reading_give_the_same_days(data):
    rows = around_midnight()
    fragments = data.draw(
        st.lists(st.lists(st.sampled_from(rows), unique=True), min_size=1, max_size=3)
    )
    looks = data.draw(st.permutations(LOOKS))
    later = data.draw(st.lists(st.sampled_from(fragments), max_size=2))
    where = new_lake()
    for number, part in enumerate(fragments):
        write(where, part)
        snapshot_import.keep(where, looks[: number + 1])
    snapshot_import.keep(where, looks)
    write(where, rows)
    assert content(where) == in_one_go()
    for part in later:
        write(where, part)
    assert content(where) == in_one_go()
    write(where, rows, rebuild=True)
    assert content(where) == in_one_go()


def test_the_same_reading_again_writes_nothing(lake):
    write(lake, around_midnight())
    before = generations(lake)
    reports = write(lake, around_midnight())
    assert generations(lake) == before
    assert assembled(reports) == set()
    assert {report.new_points for report in reports.values()} == {0}


def test_a_late_point_changes_its_day_and_the_first_samples_of_the_next_day_only(lake):
    rows = around_midnight()
    write(lake, rows[1:])
    reports = write(lake, rows)
    assert assembled(reports) == {BEFORE, DAY}
    assert {day: report.new_points for day, report in reports.items()} == {
        BEFORE: 1,
        DAY: 0,
        AFTER: 0,
    }


def test_of_two_concurrent_runs_the_reading_with_most_points_is_kept(lake):
    rows = around_midnight()
    original = lake.day
    late = [rows]

    def interrupted(unit):
        day = original(unit)
        if unit.table is TARGET_UP and late:
            write(new_lake(lake.store, "other"), late.pop())
        return day

    snapshot_import.keep(lake, LOOKS)
    lake.day = interrupted
    write(lake, rows[::2])
    assert content(lake) == in_one_go()
    assert late == []


@pytest.mark.parametrize("table_", MADE)
def test_a_day_that_a_killed_run_wrote_in_part_is_read_again(lake, table_):
    write(lake, around_midnight())
    original = lake.update

    def killed(unit, make, **how):
        if unit.table is table_:
            raise KeyboardInterrupt
        return original(unit, make, **how)

    lake.update = killed
    with pytest.raises(KeyboardInterrupt):
        write(lake, [*around_midnight(), *use(START + HOUR, 3)], [DAY])
    lake.update = original
    torn = table_ is not BROKER_SAMPLE
    assert SampleDays(lake, "c", PACE).first_stale(BEFORE) == (DAY if torn else None)
    write(lake, [*around_midnight(), *use(START + HOUR, 3)], [DAY])
    assert SampleDays(lake, "c", PACE).first_stale(BEFORE) is None


# ---- fragments -----------------------------------------------------------------------------------


def test_a_source_past_its_retention_removes_nothing(lake):
    write(lake, use(START, 400))
    before = content(lake)
    for fragment in ([], use(START, 5), use(START + HOUR, 120), use(START + 2 * HOUR, 160)):
        for rebuild in (False, True):
            assert not assembled(write(lake, fragment, [DAY], rebuild=rebuild))
    assert content(lake) == before


def test_a_source_that_lost_its_morning_is_used_for_the_afternoon(lake):
    morning, afternoon = use(START, 240), use(START + 2 * HOUR, 240)
    write(lake, morning, [DAY])
    for _ in range(2):
        (report,) = write(lake, afternoon, [DAY]).values()
        assert report.samples == 480
    assert report.coverage == {"1": 480 * STEP * 1_000_000 // DAY_MS}
    day_content, second_lake = content(lake), new_lake()
    write(second_lake, [*use(START, 480)], [DAY])
    names = ("ts_ms", "dt_ms", "rate_units", "user")
    assert [[row[name] for name in names] for row in day_content[0]] == [
        [row[name] for name in names] for row in content(second_lake)[0]
    ]
    assert not assembled(write(lake, morning, [DAY]))
    assert content(lake) == day_content


def test_a_rebuild_with_another_scrape_interval_does_not_replace_the_samples_of_a_day(lake):
    write(lake, use(START, 240), [DAY])
    before = content(lake)
    report = write(lake, use(START + HOUR, 480), [DAY], pace=cadence(60_000), rebuild=True)[DAY]
    assert (report.is_assembled, content(lake)) == (False, before)


def test_a_fragment_keeps_the_samples_that_follow_from_the_previous_day(lake):
    rows = around_midnight()
    write(lake, rows)
    before = content(lake)
    silent = [row for row in before[0] if row["user"] == "silent" and row["ts_ms"] >= START]
    assert silent
    write(lake, [row for row in rows if row[-2] >= START], [DAY])
    assert content(lake) == before


# ---- limits --------------------------------------------------------------------------------------


def test_a_snapshot_with_equal_limits_makes_no_day_stale_and_one_with_other_limits_does(lake):
    snapshot_import.keep(lake, [look(START - DAY_MS, 100.0)])
    write(lake, around_midnight())
    snapshot_import.keep(lake, [look(START + 10 * DAY_MS, 100.0)])
    assert SampleDays(lake, "c", PACE).first_stale(BEFORE) is None
    assert assembled(write(lake, around_midnight())) == set()
    snapshot_import.keep(lake, [look(START + 5 * DAY_MS, 50.0)])
    assert SampleDays(lake, "c", PACE).first_stale(DAY) == DAY
    assert assembled(write(lake, around_midnight())) == set(DAYS)


def test_limits_imported_after_the_source_expired_are_reported_and_queried_once(lake):
    write(lake, use(START, 40), [DAY])
    before = content(lake)
    snapshot_import.keep(lake, [look(START - DAY_MS, 100.0)])
    writer = SampleDays(lake, "c", PACE)
    assert writer.first_stale(DAY) == DAY
    (report,) = writer.reports({})
    assert report.partial == (SETTLED,)
    report = write(lake, [], [DAY])[DAY]
    assert (report.partial, content(lake)) == ((SETTLED,), before)
    assert SampleDays(lake, "c", PACE).first_stale(DAY) is None
    (report,) = write(lake, use(START, 40), [DAY]).values()
    assert (report.is_assembled, report.partial) == (True, ())


# ---- where to go on, and what is missing ---------------------------------------------------------


def test_the_cursor_never_passes_a_day_that_was_not_written(lake):
    write(lake, around_midnight(), cursor_ms=START + 2 * DAY_MS)
    reached = [int(unit.inputs[CURSOR]) for unit in lake.days(USAGE_SAMPLE)]
    assert reached == [START, START + DAY_MS, START + 2 * DAY_MS]
    assert cursor(lake, "c") == START + 2 * DAY_MS
    assert cursor(lake, "d") is None


def test_time_without_points_moves_the_cursor_and_changes_no_rows(lake):
    write(lake, use(START, 4), [DAY], cursor_ms=START + HOUR)
    before = content(lake)
    report = write(lake, use(START, 4), [DAY], cursor_ms=START + 2 * HOUR)[DAY]
    assert (cursor(lake, "c"), report.is_assembled) == (START + 2 * HOUR, False)
    assert content(lake) == before


def test_an_incomplete_reading_is_reported_until_it_was_completed(lake):
    for partial in (("a",), ("b",), ()):
        write(lake, use(START, 3), [DAY], partial=partial)
        (report,) = SampleDays(lake, "c", PACE).reports({})
        assert report.partial == partial


def test_a_day_without_received_data_is_stored_as_missing_only(lake):
    assert write(lake, []) == {}
    assert lake.days(USAGE_SAMPLE) == ()
    assert write(lake, [], [DAY], partial=("away",))[DAY].partial == ("away",)


# ---- the cadence of a day ------------------------------------------------------------------------


def test_another_step_rebuilds_no_day_until_a_rebuild_and_late_points_keep_the_old_step(lake):
    at = times(40, step=60_000)
    rows = [*broker(1, at), *gauge("rate", at, 5, kind="produce", user="u")]
    minute, ten = cadence(60_000), cadence(10_000)
    write(lake, rows[:-1], [DAY], pace=minute)
    before = content(lake)
    assert not assembled(write(lake, rows[:-1], [DAY], pace=ten))
    assert content(lake) == before
    report = write(lake, rows, [DAY], pace=ten)[DAY]
    assert (report.is_assembled, report.partial) == (True, ())
    assert {row["dt_ms"] for row in content(lake)[0]} == {60_000}
    report = write(lake, rows, [DAY], pace=ten, rebuild=True)[DAY]
    assert report.partial[0].startswith("broker 1 was read every 60 s, and telemetry.scrapeStep")
    assert {row["dt_ms"] for row in content(lake)[0]} == {10_000}


# ---- damaged lakes ------------------------------------------------------------------------------


def spoil(lake, unit):
    lake.store.put(unit.path, b"x" * 500, after=lake.store.version(unit.path))


def test_a_damaged_day_is_an_error_until_its_file_is_removed_and_then_read_again(lake):
    write(lake, use(START, 40), [DAY])
    before = content(lake)
    unit = Unit(table=USAGE_SAMPLE, cluster_id="c", day=DAY)
    spoil(lake, unit)
    with pytest.raises(LakeDamaged) as damaged:
        write(lake, use(START + HOUR, 40), [DAY])
    assert "remove the file" in damaged.value.hint
    rows_of_tables.remove(lake, unit)
    assert SampleDays(lake, "c", PACE).first_stale(DAY) == DAY
    write(lake, use(START, 40), [DAY])
    assert content(lake) == before


def test_snapshots_of_a_damaged_day_can_be_imported_again(lake):
    early = look(START - 5 * DAY_MS, 1.0)
    snapshot_import.keep(lake, [early])
    tables = (snapshot_import.SNAPSHOT, snapshot_import.QUOTA_ENTRY)
    units = [Unit(table=table, cluster_id="c", day=date(2025, 12, 28)) for table in tables]
    for unit in units:
        spoil(lake, unit)
    with pytest.raises(LakeDamaged):
        snapshot_import.keep(lake, [early])
    for unit in units:
        rows_of_tables.remove(lake, unit)
    snapshot_import.keep(lake, [early])
    assert all(day.rows for table in tables for day in lake.days(table))


# ---- what replaces what ---------------------------------------------------------------------------


def test_a_reading_with_less_replaces_more_only_on_request(lake):
    write(lake, use(START, 240), [DAY])
    before = content(lake)
    fewer = write(lake, use(START, 20), [DAY])[DAY]
    assert (fewer.samples, content(lake)) == (240, before)
    writer = SampleDays(lake, "c", PACE, replace=True)
    report = writer.write(DAY, DayReading(points=points(use(START, 20))))
    assert (report.samples, report.is_assembled) == (20, True)
    # From then on the smaller reading is what others are compared with.
    assert write(lake, use(START, 20), [DAY])[DAY].is_assembled is False


def test_a_reading_that_is_not_whole_never_takes_samples_away_even_on_request(lake):
    write(lake, use(START, 240), [DAY])
    before = content(lake)
    writer = SampleDays(lake, "c", PACE, replace=True)
    cut = DayReading(points=points(use(START, 20)), partial=("the file a was not read whole",))
    assert writer.write(DAY, cut).partial == (NOT_REPLACED,)
    assert content(lake) == before


# ---- sums and histograms --------------------------------------------------------------------------


def rollups(lake):
    return [
        (lake.read(lake.days(table), table=table).to_pylist(), rows)
        for table, rows in rollup.ROLLUPS
    ]


def test_sums_and_histograms_follow_the_samples(lake):
    for count in (40, 240, 60):
        write(lake, use(START, count), [DAY])
        check_sums(lake)


def test_sums_follow_the_stored_samples_whichever_of_two_writers_was_slower(lake):
    """One writer is stopped before it puts sums; another runs whole meanwhile."""
    second_runs = iter([lambda: write(new_lake(lake.store), use(START, 240), [DAY])])

    class Interrupted(Lake):
        def _put(self, unit, content, version):
            if unit.table == USAGE_5M:
                next(second_runs, lambda: None)()
            return super()._put(unit, content, version)

    slow = Interrupted(lake.store, clock=FakeClock(), run_id="slow", pause=lambda _: None)
    write(slow, use(START, 40), [DAY])
    check_sums(lake)
    assert len(lake.read(lake.days(USAGE_SAMPLE), table=USAGE_SAMPLE)) == 240


def check_sums(lake):
    samples = lake.read(lake.days(USAGE_SAMPLE), table=USAGE_SAMPLE)
    for stored, rows in rollups(lake):
        assert sorted(map(str, stored)) == sorted(map(str, rows(samples).to_pylist()))
        assert stored


@pytest.mark.parametrize("written", [0, 1])
@pytest.mark.parametrize("is_older", [False, True])
def test_sums_that_a_killed_run_did_not_write_are_made_from_the_samples(lake, written, is_older):
    """All or one of the two tables are missing, or of the samples before."""
    if is_older:
        write(lake, use(START, 20), [DAY])

    class Killed(Lake):
        def update(self, unit, make, **how):
            if unit.table in [table for table, _ in rollup.ROLLUPS][written:]:
                raise InterruptedError
            return super().update(unit, make, **how)

    with pytest.raises(InterruptedError):
        write(Killed(lake.store, clock=FakeClock()), use(START, 40), [DAY])
    rollup.update(lake, "c")
    check_sums(lake)


@pytest.mark.parametrize("table_", [table for table, _ in rollup.ROLLUPS])
def test_damaged_sums_are_made_from_the_samples_by_the_next_run(lake, table_):
    write(lake, use(START, 40), [DAY])
    spoil(lake, Unit(table=table_, cluster_id="c", day=DAY))
    rollup.update(lake, "c")
    check_sums(lake)
    spoil(lake, Unit(table=table_, cluster_id="c", day=DAY))
    write(lake, use(START, 60), [DAY])
    check_sums(lake)
