"""Points come in any order, twice, late, from several runs at once: the days in the lake are the same as made in one go."""

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.evidence.ingest import point_store, snapshot_import
from reconciler.evidence.ingest.day_assembler import DayAssembler
from reconciler.evidence.ingest.drop_reasons import DropReason
from reconciler.evidence.ingest.point_store import (
    PointSource,
    cursor,
    keep,
    without,
)
from reconciler.evidence.ingest.snapshot_import import SnapshotDocument
from reconciler.evidence.store.files import object_store
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Unit
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import cadence
from reconciler.usage.tables import BROKER_SAMPLE, POINT, TARGET_UP, USAGE_SAMPLE
from tests.evidence.ingest.point_rows import (
    DAY,
    PACE,
    START,
    STEP,
    broker,
    gauge,
    table,
    times,
)
from tests.fakes.clock import FakeClock

DAY_MS = 86_400_000
MADE = (USAGE_SAMPLE, TARGET_UP, BROKER_SAMPLE)


def lake():
    return Lake(object_store.opened("memory://"), clock=FakeClock(), pause=lambda _: None)


def bring_up(where, *, rebuild=False):
    return DayAssembler(where, "c", PACE, snapshot_import.limit_snapshots(where, "c")).bring_up(
        rebuild=rebuild
    )


def content(where):
    return [where.read(where.manifests(one, ["c"]), table=one).to_pylist() for one in MADE]


def generations(where):
    return [(one.unit.day, one.generation) for of in MADE for one in where.manifests(of, ["c"])]


def around_midnight():
    """Some minutes before and after two midnights: a busy bucket, one that falls silent, a counter, a broker that changes."""
    rows = []
    for begin in (START - 4 * STEP, START + DAY_MS - 3 * STEP):
        at = times(8, begin=begin)
        rows += broker(1, at)
        rows += gauge(
            "rate", at, [100.0 + number for number in range(8)], kind="produce", user="busy"
        )
        rows += gauge("throttle_ms", at, [0, 5] * 4, kind="produce", user="busy")
        rows += gauge("rate", at[:2], 7, kind="produce", user="silent")
        rows += gauge(
            "rate_total", at, [number * 3000 for number in range(8)], kind="fetch", user="counted"
        )
        rows += gauge("bytes_in_total", at, [number * 60_000 for number in range(8)])
    return rows


def taken(at, limit):
    state = QuotaState(limits={entity(user="busy"): limits_of({Key.PRODUCER_BYTE_RATE: limit})})
    return SnapshotDocument(cluster_id="c", observed_ms=at, state=state)


LOOKS = [taken(START - DAY_MS, 100.0), taken(START + STEP, 200.0), taken(START + DAY_MS, 200.0)]


def in_one_go():
    whole = lake()
    keep(whole, "c", table(around_midnight()), PointSource())
    snapshot_import.keep(whole, LOOKS)
    bring_up(whole)
    return content(whole)


@settings(max_examples=6)
@given(data=st.data())
def test_deliveries_in_any_order_overlapping_and_late_come_to_the_days_of_one_go(data):
    rows = around_midnight()
    parts = data.draw(
        st.lists(st.lists(st.sampled_from(rows), unique=True), min_size=1, max_size=3)
    )
    looks = data.draw(st.permutations(LOOKS))
    where = lake()
    for number, part in enumerate([*parts, rows]):
        if part:
            keep(where, "c", table(part), PointSource())
        snapshot_import.keep(where, looks[: number + 1])
        bring_up(where)
    snapshot_import.keep(where, looks)
    bring_up(where)
    expected = in_one_go()
    assert content(where) == expected
    bring_up(where, rebuild=True)
    assert content(where) == expected


def test_the_same_delivery_again_writes_nothing():
    where = lake()
    keep(where, "c", table(around_midnight()), PointSource())
    bring_up(where)
    before = generations(where), [one.generation for one in where.manifests(POINT)]
    kept = keep(where, "c", table(around_midnight()), PointSource())
    reports = bring_up(where)
    assert (generations(where), [one.generation for one in where.manifests(POINT)]) == before
    assert not any(one.is_assembled for one in reports)
    assert set(kept.new.values()) == {0}
    assert kept.counts[DropReason.DUPLICATES] == len(around_midnight())


def test_a_late_point_changes_its_day_and_the_first_samples_of_the_next_and_nothing_else():
    where = lake()
    rows = around_midnight()
    keep(where, "c", table(rows[1:]), PointSource())
    bring_up(where)
    keep(where, "c", table(rows[:1]), PointSource())
    made = {one.day: one.is_assembled for one in bring_up(where)}
    first = date(2026, 1, 1)
    assert made == {first: True, DAY: True, date(2026, 1, 3): False}


def test_of_two_values_for_one_moment_the_larger_stays_whatever_the_order():
    for values in ([5.0, 9.0], [9.0, 5.0]):
        where = lake()
        kept = [
            keep(where, "c", table([*broker(1, [START]), *gauge("rate", [START], one, kind="produce", user="u")]), PointSource())
            for one in values
        ]  # fmt: skip
        rows = where.read(where.manifests(POINT)).to_pylist()
        assert [one["value"] for one in rows if one["measure"] == "rate"] == [9.0]
        assert kept[1].counts[DropReason.CONTRADICTIONS] == 1


def test_looking_again_at_the_same_limits_makes_nothing_anew_and_another_limit_does():
    where = lake()
    keep(where, "c", table(around_midnight()), PointSource())
    snapshot_import.keep(where, [taken(START - DAY_MS, 100.0)])
    bring_up(where)
    snapshot_import.keep(where, [taken(START + 10 * DAY_MS, 100.0)])
    assert not any(one.is_assembled for one in bring_up(where))
    snapshot_import.keep(where, [taken(START + 5 * DAY_MS, 50.0)])
    assert all(one.is_assembled for one in bring_up(where))


def test_a_day_before_that_has_expired_changes_nothing():
    where = lake()
    keep(where, "c", table(around_midnight()), PointSource())
    bring_up(where)
    expected = content(where)
    unit = Unit(table=POINT, cluster_id="c", day=date(2026, 1, 1))
    where.store.delete([path for path, _ in where.store.paths(unit.manifests)])
    assert not any(one.is_assembled for one in bring_up(where))
    assert content(where) == expected


def test_two_runs_at_once_keep_the_union():
    where = lake()
    rows = around_midnight()
    mine, its = rows[::2], rows[1::2]
    original = where.manifest

    def interrupted(unit):
        found = original(unit)
        if unit.table is POINT and its:
            also, its[:] = list(its), []
            other = Lake(where.store, clock=FakeClock(), run_id="other")
            keep(other, "c", table(also), PointSource())
        return found

    where.manifest = interrupted
    keep(where, "c", table(mine), PointSource())
    bring_up(where)
    snapshot_import.keep(where, LOOKS)
    bring_up(where)
    assert content(where) == in_one_go()


def test_a_run_that_assembles_while_points_change_does_not_win_with_old_rows():
    where = lake()
    rows = around_midnight()
    keep(where, "c", table(rows[::2]), PointSource())
    late = list(rows[1::2])
    original = where.read

    def interrupted(manifests, *args, **kinds):
        found = original(manifests, *args, **kinds)
        if late:
            also, late[:] = list(late), []
            other = Lake(where.store, clock=FakeClock(), run_id="other")
            keep(other, "c", table(also), PointSource())
            bring_up(other)
        return found

    where.read = interrupted
    bring_up(where)
    bring_up(where)
    snapshot_import.keep(where, LOOKS)
    bring_up(where)
    assert content(where) == in_one_go()


# ---- where to go on, and what is missing ---------------------------------------------------------


def test_the_cursor_never_claims_a_day_that_was_not_kept():
    where = lake()
    keep(where, "c", table(around_midnight()), PointSource(cursor_ms=START + 2 * DAY_MS))
    reached = [int(one.inputs["fetched_to_ms"]) for one in where.manifests(POINT)]
    assert reached == [START, START + DAY_MS, START + 2 * DAY_MS]
    assert cursor(where.manifests(POINT)) == START + 2 * DAY_MS
    assert cursor([]) is None


def test_what_a_server_did_not_give_whole_makes_the_day_partial_until_it_does():
    where = lake()
    rows = table([*broker(1, times(3)), *gauge("rate", times(3), 5, kind="produce", user="u")])
    keep(where, "c", rows, PointSource(missing_spans=((START, START + 60_000),)))
    (report,) = bring_up(where)
    assert "between 2026-01-02T00:00:00Z and 2026-01-02T00:01:00Z" in report.partial[0]
    keep(where, "c", rows, PointSource(complete_span=(START + 30_000, START + 90_000)))
    (report,) = bring_up(where)
    assert "and 2026-01-02T00:00:30Z" in report.partial[0]
    keep(where, "c", rows, PointSource(complete_span=(START, START + 90_000)))
    (report,) = bring_up(where)
    assert report.partial == ()


def test_a_file_that_ends_too_early_makes_its_days_partial_until_it_is_read_whole():
    where = lake()
    rows = table([*broker(1, times(3)), *gauge("rate", times(3), 5, kind="produce", user="u")])
    keep(where, "c", rows, PointSource(cut_files=frozenset({"a.json"})))
    (report,) = bring_up(where)
    assert report.partial == ("the file a.json was not read whole",)
    keep(where, "c", rows, PointSource(read_files=frozenset({"a.json"})))
    (report,) = bring_up(where)
    assert report.partial == ()


@pytest.mark.parametrize(
    ("whole", "left"),
    [
        ((0, 0), ((10, 20),)),
        ((0, 10), ((10, 20),)),
        ((0, 15), ((15, 20),)),
        ((12, 15), ((10, 12), (15, 20))),
        ((5, 25), ()),
        ((20, 30), ((10, 20),)),
    ],
)
def test_spans_without_a_span(whole, left):
    assert without([(10, 20)], whole) == left


def test_a_unit_of_points_is_known_by_what_it_holds():
    where = lake()
    keep(where, "c", table(around_midnight()), PointSource())
    before = [point_store.content(one) for one in where.manifests(POINT)]
    keep(where, "c", table(around_midnight()), PointSource(cursor_ms=START))
    assert [point_store.content(one) for one in where.manifests(POINT)] == before
    assert point_store.content(None) == ""


def test_no_points_keep_nothing():
    where = lake()
    kept = keep(where, "c", table([]), PointSource())
    assert (dict(kept.new), where.manifests(POINT)) == ({}, ())
    assert isinstance(where.read((), table=POINT), pa.Table)


# ---- the cadence of a day ------------------------------------------------------------------------


def test_another_step_makes_no_day_anew_until_a_rebuild_and_late_points_keep_the_old_one():
    where = lake()
    at = times(40, step=60_000)
    rows = [*broker(1, at), *gauge("rate", at, 5, kind="produce", user="u")]
    minute, ten = cadence(60_000), cadence(10_000)
    keep(where, "c", table(rows[:-1]), PointSource())
    DayAssembler(where, "c", minute, ()).bring_up()
    before = content(where)
    assert not any(one.is_assembled for one in DayAssembler(where, "c", ten, ()).bring_up())
    assert content(where) == before
    keep(where, "c", table(rows), PointSource())
    (report,) = DayAssembler(where, "c", ten, ()).bring_up()
    assert (report.is_assembled, report.partial) == (True, ())
    samples = where.read(where.manifests(USAGE_SAMPLE), table=USAGE_SAMPLE)
    assert samples["dt_ms"].to_pylist() == [60_000] * 40
    (report,) = DayAssembler(where, "c", ten, ()).bring_up(rebuild=True)
    assert "brokers were" not in report.partial[0]
    assert report.partial[0].startswith("broker 1 was read every 60 s, and telemetry.scrapeStep")
    samples = where.read(where.manifests(USAGE_SAMPLE), table=USAGE_SAMPLE)
    assert samples["dt_ms"].to_pylist() == [10_000] * 40


def test_a_rebuild_that_was_killed_half_way_leaves_no_day_with_two_cadences():
    where = lake()
    keep(where, "c", table(around_midnight()), PointSource())
    bring_up(where)
    other = DayAssembler(where, "c", cadence(60_000), ())
    original = where.update

    def killed(unit, make):
        if unit.table is TARGET_UP:
            raise KeyboardInterrupt
        return original(unit, make)

    where.update = killed
    with pytest.raises(KeyboardInterrupt):
        other.bring_up(rebuild=True)
    where.update = original
    other.bring_up()
    for day in (date(2026, 1, 1), DAY):
        units = [one for of in MADE for one in where.manifests(of, ["c"], day, day)]
        assert len({one.inputs["step_ms"] for one in units}) == 1
