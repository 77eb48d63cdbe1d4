"""Quota snapshots: documents into the lake without loss and out again; snapshots that may be incomplete are refused."""

from datetime import date

import pytest

from reconciler.codecs.state import state_document
from reconciler.errors import ConfigError, TelemetryError
from reconciler.evidence.store import snapshot_import
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.snapshot_import import SnapshotDocument
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.render.json_values import dump
from reconciler.usage.samples import DAY_MS
from reconciler.usage.tables import QUOTA_ENTRY
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


def test_a_snapshot_with_missing_entries_is_ignored():
    where = lake()
    snapshot_import.keep(where, [snapshot_import.read(document(), source="a")])
    (day,) = where.days(QUOTA_ENTRY)
    rows = where.read([day], table=QUOTA_ENTRY)
    where.replace(day.unit, UnitContent(rows=rows.slice(1)))
    assert snapshot_import.limit_snapshots(where, "c") == ()


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
