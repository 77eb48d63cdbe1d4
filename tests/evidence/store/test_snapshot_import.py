"""Quota snapshots: documents into the lake without loss and out again; snapshots that may be incomplete are refused."""

from datetime import date

import pytest

from reconciler.codecs.state import state_document
from reconciler.errors import ConfigError, TelemetryError
from reconciler.evidence.ingest.limit_history import LimitHistory
from reconciler.evidence.store import snapshot_import
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.snapshot_import import SnapshotDocument
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from reconciler.usage.samples import DAY_MS, start_of
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT
from tests.evidence.store import rows
from tests.evidence.store.stores import PassingStore
from tests.fakes.clock import FakeClock

NOON = "2026-01-02T12:00:00Z"
NOON_MS = 1_767_355_200_000
ODD = QuotaState(
    limits={
        entity(user='"<default>"\n'): limits_of(
            {Key.PRODUCER_BYTE_RATE: 1.5, Key.REQUEST_PERCENTAGE: 1e300}
        ),
        entity(user=DEFAULT, client_id="app"): limits_of({Key.CONSUMER_BYTE_RATE: float("inf")}),
        entity(ip="::1"): limits_of({Key.CONNECTION_CREATION_RATE: 7.0}),
    },
    foreign_values={entity(ip="::1"): (("made_up_rate", 3.0),)},
    foreign_entities=(
        ((("client-id-prefix", "a"), ("user", None)), (("producer_byte_rate", 5.0),)),
    ),
)


def lake():
    return Lake(PassingStore(), clock=FakeClock(), pause=lambda _: None)


def document(state=ODD, *, taken_at=NOON, cluster_id="c"):
    return dump(state_document(state, cluster_id=cluster_id, taken_at=taken_at))


def test_a_snapshot_is_read_from_the_lake_as_it_was_written():
    where = lake()
    snapshot = snapshot_import.read(document(), source="a.json")
    assert snapshot_import.keep(where, [snapshot]) == 1
    (look,) = snapshot_import.limit_snapshots(where, "c")
    assert (look.observed_ms, look.snapshot_id) == (NOON_MS, snapshot.snapshot_id)
    assert look.state == ODD
    assert snapshot_import.limit_snapshots(where, "another") == ()


def test_rows_contain_kinds_units_and_marks_of_values_that_are_not_finite():
    where = lake()
    snapshot_import.keep(where, [snapshot_import.read(document(), source="a.json")])
    rows = where.read(where.days(QUOTA_ENTRY), table=QUOTA_ENTRY).to_pylist()
    names = ("user_kind", "client_kind", "ip_kind", "quota_units", "value_state")
    assert {
        f"{row['entity_json']} {row['quota_key']}: {' '.join(str(row[name]) for name in names)}"
        for row in rows
    } == {
        r'[["user","\"<default>\"\n"]] producer_byte_rate: named absent absent 2 finite',
        r'[["user","\"<default>\"\n"]] request_percentage: named absent absent None unlimited',
        '[["user",null],["client-id","app"]] consumer_byte_rate: default named absent None unlimited',
        '[["ip","::1"]] connection_creation_rate: absent absent named 7000000 finite',
        '[["ip","::1"]] made_up_rate: absent absent named None invalid',
        '[["client-id-prefix","a"],["user",null]] producer_byte_rate: foreign foreign foreign 5 finite',
    }


def test_the_same_snapshot_again_changes_nothing_and_a_later_one_is_added():
    where = lake()
    first = snapshot_import.read(document(), source="a")
    later = snapshot_import.read(
        document(QuotaState(), taken_at="2026-01-02T13:00:00Z"), source="b"
    )
    assert snapshot_import.keep(where, [first, first]) == 1
    assert snapshot_import.keep(where, [first]) == 0
    assert snapshot_import.keep(where, [first, later]) == 1
    assert len(where.days(SNAPSHOT)) == 1
    assert [snapshot.state for snapshot in snapshot_import.limit_snapshots(where, "c")] == [
        ODD,
        QuotaState(),
    ]


def test_a_snapshot_with_missing_entries_is_ignored():
    where = lake()
    snapshot_import.keep(where, [snapshot_import.read(document(), source="a")])
    (day,) = where.days(QUOTA_ENTRY)
    rows = where.read([day], table=QUOTA_ENTRY)
    where.replace(day.unit, UnitContent(rows=rows.slice(1)))
    assert snapshot_import.limit_snapshots(where, "c") == ()


def test_equal_snapshots_share_one_state():
    where = lake()
    plain = QuotaState(limits={entity(user="u"): limits_of({Key.PRODUCER_BYTE_RATE: 5.0})})
    moments = ("2026-01-02T12:00:00Z", "2026-01-02T13:00:00Z", "2026-01-04T13:00:00Z")
    snapshot_import.keep(
        where,
        [snapshot_import.read(document(plain, taken_at=moment), source="a") for moment in moments],
    )
    first, second, third = snapshot_import.limit_snapshots(where, "c")
    assert first.state is second.state is third.state


def limited(value):
    return QuotaState(limits={entity(user="u"): limits_of({Key.PRODUCER_BYTE_RATE: value})})


def daily(numbers):
    """A quota snapshot at noon of each of these days of January, with a different limit each."""
    return [
        SnapshotDocument(
            cluster_id="c", observed_ms=NOON_MS + (number - 2) * DAY_MS, state=limited(number)
        )
        for number in numbers
    ]


@pytest.mark.parametrize(
    ("looked", "since", "expected"),
    [
        (range(2, 10), 7, [6, 7, 8, 9]),
        ([2, 3, 20, 21], 20, [3, 20, 21]),  # the previous one is more than a week older
        ([20, 21], 5, [20, 21]),
        ([3, 4], 20, [4]),
        ([], 5, []),
    ],
)
def test_only_snapshots_that_apply_since_a_day_are_read(looked, since, expected):
    where = lake()
    snapshots = daily(looked)
    snapshot_import.keep(where, snapshots)
    day = date(2026, 1, since)
    recent = snapshot_import.limit_snapshots(where, "c", day)
    assert [snapshot.observed_ms for snapshot in recent] == [
        snapshot.observed_ms for snapshot in daily(expected)
    ]
    every = snapshot_import.limit_snapshots(where, "c")
    for number in range(3):
        span = (start_of(day) + number * DAY_MS, start_of(day) + (number + 1) * DAY_MS)
        assert LimitHistory(recent).digest(*span) == LimitHistory(every).digest(*span)


def test_older_snapshots_are_not_opened(tmp_path):
    where = Lake(rows.Watched(tmp_path), clock=FakeClock())
    snapshot_import.keep(where, daily(range(2, 29)))
    where.store.opened = []
    snapshot_import.limit_snapshots(where, "c", date(2026, 1, 27))
    days = {path.split("/")[-2] for path in where.store.opened}
    assert days == {"day=2026-01-26", "day=2026-01-27", "day=2026-01-28"}


def test_an_incomplete_last_snapshot_before_a_day_is_ignored_and_the_previous_one_applies():
    where = lake()
    snapshot_import.keep(where, daily([2, 3, 5]))
    day = date(2026, 1, 3)
    (unit,) = where.units(QUOTA_ENTRY, from_day=day, to_day=day)
    where.replace(unit, UnitContent(rows=where.read((), table=QUOTA_ENTRY)))
    snapshots = snapshot_import.limit_snapshots(where, "c", date(2026, 1, 4))
    assert [snapshot.observed_ms for snapshot in snapshots] == [
        snapshot.observed_ms for snapshot in daily([2, 5])
    ]


@pytest.mark.parametrize("taken_at", ["", "yesterday", "2026-01-02T12:00:00"])
def test_a_document_without_a_time_is_refused(taken_at):
    with pytest.raises(TelemetryError):
        snapshot_import.read(document(taken_at=taken_at), source="a.json")


def test_a_truncated_document_is_refused():
    with pytest.raises(ConfigError, match=r"a\.json"):
        snapshot_import.read(document()[:-40], source="a.json")
