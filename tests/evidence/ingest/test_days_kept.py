"""Days whose points are gone, expired or damaged, are not replaced by what is left of them; and what is left is told."""

from datetime import date

import pytest

from reconciler.errors import LakeDamaged
from reconciler.evidence.ingest import snapshot_import
from reconciler.evidence.ingest.day_assembler import SETTLED, DayAssembler
from reconciler.evidence.ingest.point_store import PointSource, keep
from reconciler.evidence.ingest.snapshot_import import SnapshotDocument
from reconciler.evidence.store.files import object_store
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.manifest import Unit
from reconciler.evidence.store.unit_repair import given_up
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import DAY_MS
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

MADE = (USAGE_SAMPLE, TARGET_UP, BROKER_SAMPLE)
BEFORE = date(2026, 1, 1)


@pytest.fixture
def lake():
    return Lake(object_store.opened("memory://"), clock=FakeClock(), pause=lambda _: None)


def bring_up(lake, **how):
    return DayAssembler(lake, "c", PACE, snapshot_import.limit_snapshots(lake, "c")).bring_up(**how)


def content(lake, day=DAY):
    return [lake.read(lake.manifests(one, ["c"], day, day), table=one).to_pylist() for one in MADE]


def generations(lake):
    return [(one.unit.day, one.generation) for of in MADE for one in lake.manifests(of, ["c"])]


def use(begin, count, *, rate=5.0):
    at = times(count, begin=begin)
    return [
        *broker(1, at),
        *gauge("rate", at, rate, kind="produce", user="u"),
        *gauge("bytes_in_total", at, [number * 60_000 for number in range(count)]),
    ]


def kept(lake, *rows):
    keep(lake, "c", table([one for part in rows for one in part]), PointSource())


def expire(lake, day, of=POINT):
    unit = Unit(table=of, cluster_id="c", day=day)
    for folder in (unit.manifests, unit.folder):
        lake.store.delete([path for path, _ in lake.store.paths(folder)])


def spoil(lake, day, of=POINT):
    (made,) = lake.manifests(of, ["c"], day, day)
    lake.store.put(made.files[0].path, b"x" * made.files[0].size)


def test_a_day_whose_points_expired_stays_whatever_comes_later(lake):
    kept(lake, use(START, 40))
    bring_up(lake)
    before, stand = content(lake), generations(lake)
    expire(lake, DAY)
    for count in (5, 60):
        kept(lake, use(START, count))
        for rebuild in (False, True):
            (report,) = bring_up(lake, rebuild=rebuild)
            assert (report.is_assembled, report.samples, report.partial) == (False, 40, (SETTLED,))
    assert (content(lake), generations(lake)) == (before, stand)


def looked(lake, limit):
    state = QuotaState(limits={entity(user="u"): limits_of({Key.PRODUCER_BYTE_RATE: limit})})
    snapshot_import.keep(
        lake, [SnapshotDocument(cluster_id="c", observed_ms=START - 5 * DAY_MS, state=state)]
    )


def around_midnight():
    """A bucket that the day before named, and that is silent for a while after midnight."""
    late = times(4, begin=START - 4 * STEP)
    early = times(6)
    return (
        [*use(START - 4 * STEP, 4), *gauge("rate", late, 3, kind="produce", user="silent")],
        [*use(START, 6), *gauge("rate", early[3:], 3, kind="produce", user="silent")],
    )


def test_a_look_does_not_cost_a_day_what_the_expired_day_before_told_of_it(lake):
    kept(lake, *around_midnight())
    bring_up(lake)
    before = content(lake)
    zeros = [one for one in before[0] if one["user"] == "silent" and not one["rate_units"]]
    assert len(zeros) == 3
    expire(lake, BEFORE)
    looked(lake, 1.0)
    (report,) = bring_up(lake)
    assert (content(lake), report.partial) == (before, (SETTLED,))
    bring_up(lake, rebuild=True)
    assert content(lake) == before


def test_a_fragment_of_the_day_before_does_not_cost_the_day_after_either(lake):
    kept(lake, *around_midnight())
    bring_up(lake)
    before = content(lake)
    expire(lake, BEFORE)
    kept(lake, use(START - 1000 * STEP, 3))
    reports = bring_up(lake)
    assert content(lake) == before
    assert [report.partial for report in reports] == [(SETTLED,)] * 2


def test_points_that_expire_while_days_are_made_cost_nothing(lake):
    kept(lake, use(START, 40))
    bring_up(lake)
    before = content(lake)
    looked(lake, 1.0)
    original = lake.manifest

    def expired(unit):
        if unit.table is POINT and unit.day == DAY:
            expire(lake, DAY)
        return original(unit)

    lake.manifest = expired
    bring_up(lake)
    assert content(lake) == before


def test_a_day_that_is_taken_away_is_made_of_what_there_is(lake):
    kept(lake, use(START, 40))
    bring_up(lake)
    expire(lake, DAY)
    kept(lake, use(START, 5))
    bring_up(lake)
    for one in MADE:
        unit = Unit(table=one, cluster_id="c", day=DAY)
        lake.store.delete([path for path, _ in lake.store.paths(unit.manifests)])
    (report,) = bring_up(lake)
    assert (report.is_assembled, report.samples, report.partial) == (True, 5, ())


# ---- damaged points -----------------------------------------------------------------------------


def give_up(lake, table_=POINT):
    return given_up(lake, table_, "c", BEFORE, date(2026, 1, 3))


def test_damaged_points_are_an_error_until_they_are_given_up_and_cost_no_samples(lake):
    kept(lake, use(START, 40))
    bring_up(lake)
    before = content(lake)
    spoil(lake, DAY)
    with pytest.raises(LakeDamaged):
        kept(lake, use(START + 40 * STEP, 5))
    with pytest.raises(LakeDamaged):
        bring_up(lake, rebuild=True)
    assert [str(unit) for unit in give_up(lake)] == [
        "point of c on 2026-01-02 was damaged and begun anew: 0 of 160 rows are left"
    ]
    kept(lake, use(START + 20 * STEP, 5))
    (report,) = bring_up(lake)
    assert (content(lake), report.partial) == (before, (SETTLED,))
    (points,) = lake.manifests(POINT)
    assert points.partial == ("160 rows were damaged, and not as many came again",)
    kept(lake, use(START, 40))
    assert lake.manifests(POINT)[0].partial == ()
    assert bring_up(lake)[0].partial == ()
    kept(lake, use(START, 41))
    assert bring_up(lake)[0].samples == 41


def test_the_cursor_and_what_is_missing_outlive_damage(lake):
    rows = table(use(START, 4))
    keep(
        lake, "c", rows, PointSource(cursor_ms=START + STEP, missing_spans=((START, START + STEP),))
    )
    (before,) = lake.manifests(POINT)
    spoil(lake, DAY)
    give_up(lake)
    (after,) = lake.manifests(POINT)
    assert before.inputs.items() <= after.inputs.items()
    assert after.partial[: len(before.partial)] == before.partial
    keep(lake, "c", rows, PointSource())
    assert lake.manifests(POINT)[0].partial == before.partial


def test_looks_of_a_damaged_day_can_be_brought_in_again(lake):
    looked(lake, 1.0)
    day = date(2025, 12, 28)
    for of in (snapshot_import.SNAPSHOT, snapshot_import.QUOTA_ENTRY):
        spoil(lake, day, of)
    with pytest.raises(LakeDamaged):
        looked(lake, 1.0)
    for of in (snapshot_import.SNAPSHOT, snapshot_import.QUOTA_ENTRY):
        given_up(lake, of, "c", day, day)
    assert snapshot_import.limit_snapshots(lake, "c") == ()
    (made,) = lake.manifests(snapshot_import.SNAPSHOT)
    assert made.partial
    looked(lake, 1.0)
    assert len(snapshot_import.limit_snapshots(lake, "c")) == 1
    (made,) = lake.manifests(snapshot_import.SNAPSHOT)
    assert made.partial == ()
