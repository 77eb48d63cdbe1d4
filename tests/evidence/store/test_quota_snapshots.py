import math
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from reconciler.errors import LakeDamaged
from reconciler.evidence.store import quota_snapshots
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.quota_snapshots import observed_limits, state_of
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import NO_LIMITS, QuotaState
from reconciler.usage.impact.recorded_limits import MOST_WAYS
from reconciler.usage.samples import DAY_MS, day_of, start_of
from reconciler.usage.tables import QUOTA_ENTRY, SNAPSHOT
from tests.evidence.store import rows

ALICE = (("user", "alice"),)
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return rows.lake_in(tmp_path)


def look(
    lake: Lake, number: int, snapshots: Sequence[tuple[str, float, bool, Sequence[rows.Limit]]]
) -> None:
    """Quota snapshots of one day: id, seconds of the day, whether complete, limits."""
    counted_snapshots = [
        (name, seconds, len(limits), complete) for name, seconds, complete, limits in snapshots
    ]
    lake.put(
        rows.unit(SNAPSHOT, number),
        UnitContent(rows=rows.snapshots(number, counted_snapshots)),
        None,
    )
    tables = [rows.entries(number, name, limits) for name, _, _, limits in snapshots]
    lake.put(rows.unit(QUOTA_ENTRY, number), UnitContent(rows=pa.concat_tables(tables)), None)


def limits_between(lake: Lake, first: int = 0, last: int = 10) -> quota_snapshots.ObservedLimits:
    return observed_limits(lake, rows.CLUSTER, rows.at(first), rows.at(last))


def test_a_state_is_read_back_completely() -> None:
    limits: list[rows.Limit] = [
        (ALICE, PRODUCE, 1024.0),
        (ALICE, "future_rate", 0.5),
        ((("user", None),), FETCH, 7.0),
        ((("user", "<default>"),), FETCH, 8.0),
        ((("user", 'ü "x"'), ("client-id", None)), "request_percentage", 12.5),
        ((("ip", "10.0.0.1"),), "connection_creation_rate", 3.0),
        ((("client-id", "only-foreign"),), "other_rate", 9.0),
        ((("client-id-prefix", "abc"),), PRODUCE, 5.0),
        ((("client-id-prefix", "abc"),), FETCH, math.inf),
    ]
    only_foreign = entity(client_id="only-foreign")
    state = state_of(rows.entries(0, "s", limits))
    assert state == QuotaState(
        limits=state.limits,
        foreign_values={
            entity(user="alice"): (("future_rate", 0.5),),
            only_foreign: (("other_rate", 9.0),),
        },
        foreign_entities=(((("client-id-prefix", "abc"),), ((FETCH, math.inf), (PRODUCE, 5.0))),),
    )
    assert len(state.limits) == 6
    assert state.limits[only_foreign] == NO_LIMITS
    assert state.value(entity(user=DEFAULT), Key.CONSUMER_BYTE_RATE) == 7.0
    assert state.value(entity(user="<default>"), Key.CONSUMER_BYTE_RATE) == 8.0
    assert state.value(entity(user='ü "x"', client_id=DEFAULT), Key.REQUEST_PERCENTAGE) == 12.5


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ((("user", "a"), ("ip", "::1")), "is not an entity: ip cannot be combined"),
        ((("user", "a"), ("user", "b")), "given twice"),
        ((), "'\\[\\]' is not an entity"),
    ],
)
def test_contradictory_rows_are_refused(named: rows.Limit, message: str) -> None:
    with pytest.raises(LakeDamaged, match=message):
        state_of(rows.entries(0, "s", [(named, PRODUCE, 1.0)]), "some/file")


def test_a_repeated_limit_is_refused() -> None:
    with pytest.raises(LakeDamaged, match="duplicate producer_byte_rate of "):
        state_of(rows.entries(0, "s", [(ALICE, PRODUCE, 1.0), (ALICE, PRODUCE, 2.0)]))


def test_the_newest_complete_snapshot_before_the_end_is_used(lake: Lake) -> None:
    assert limits_between(lake).snapshot is None
    look(lake, 1, [("a", 10, True, [(ALICE, PRODUCE, 1.0)])])
    look(
        lake,
        2,
        [("b", 10, True, [(ALICE, PRODUCE, 2.0)]), ("c", 20, False, [(ALICE, PRODUCE, 3.0)])],
    )
    look(lake, 9, [("d", 10, True, [])])
    observed = observed_limits(lake, rows.CLUSTER, rows.at(0), rows.at(9, 5))
    assert observed.snapshot is not None
    assert observed.snapshot.snapshot_id == "b"
    assert observed.entries.column("value").to_pylist() == [2.0]
    none = limits_between(lake)
    assert none.snapshot is not None
    assert (none.snapshot.snapshot_id, none.entries.num_rows) == ("d", 0)  # all limits were removed


def test_changes_are_counted_since_the_last_snapshot_before_the_window(lake: Lake) -> None:
    look(lake, 0, [("a", 0, True, [(ALICE, PRODUCE, 1.0), (ALICE, FETCH, 1.0)])])
    look(lake, 1, [("b", 0, True, [(ALICE, PRODUCE, 2.0), (ALICE, FETCH, 1.0)])])
    look(
        lake,
        3,
        [
            ("c", 0, True, [(ALICE, PRODUCE, 2.0), (ALICE, FETCH, 1.0)]),
            ("d", 60, True, [(ALICE, PRODUCE, math.nan), ((("user", None),), PRODUCE, 1.0)]),
            ("e", 120, True, [(ALICE, PRODUCE, math.nan), ((("user", None),), PRODUCE, 1.0)]),
        ],
    )
    assert limits_between(lake, 0).changes == 4  # 1 → 2; then altered, removed, set
    assert limits_between(lake, 1).changes == 4
    assert limits_between(lake, 2).changes == 3
    assert limits_between(lake, 4).changes == 0
    newest = limits_between(lake, 4).snapshot
    assert newest is not None
    assert newest.snapshot_id == "e"


APP = (("client-id", "app"),)
BOB = (("user", "bob"),)


def test_one_snapshot_in_the_window_is_kept_for_each_way_of_counting_clients(lake: Lake) -> None:
    look(lake, 0, [("a", 0, True, [(APP, PRODUCE, 1.0)])])
    look(lake, 1, [("b", 0, True, [(APP, PRODUCE, 2.0)])])  # another number, the same clients
    look(
        lake,
        2,
        [
            ("c", 0, True, [(APP, PRODUCE, 2.0), (ALICE, PRODUCE, 1.0)]),
            ("d", 60, False, [(BOB, PRODUCE, 1.0)]),
            ("e", 120, True, [(APP, PRODUCE, 2.0), (ALICE, PRODUCE, 1.0)]),
        ],
    )
    observed = limits_between(lake, 1)  # the first applies at the start of the window
    assert [entries.column("snapshot_id").to_pylist() for entries in observed.earlier] == [["a"]]
    assert not observed.beyond
    states = observed.recorded().states
    assert [len(state.limits) for state in states] == [1, 2]
    assert states[-1] == state_of(observed.entries)
    assert len(limits_between(lake, 3).recorded().states) == 1


def test_an_earlier_value_is_kept_and_equal_snapshots_are_not(lake: Lake) -> None:
    look(lake, 0, [("a", 0, True, [(ALICE, PRODUCE, 1.0)])])
    look(lake, 1, [("b", 0, True, [(ALICE, PRODUCE, 2.0)])])
    assert [entries.column("value").to_pylist() for entries in limits_between(lake).earlier] == [
        [1.0]
    ]
    look(lake, 2, [("c", 0, True, [(ALICE, PRODUCE, 1.0)])])
    assert limits_between(lake).earlier == ()


def test_limits_that_changed_too_often_are_reported_by_key(lake: Lake) -> None:
    for number in range(MOST_WAYS + 1):
        users: list[rows.Limit] = [((("user", f"u{number}"),), PRODUCE, 1.0), (APP, PRODUCE, 1.0)]
        look(lake, number, [(f"s{number}", 0, True, [*users, (ALICE, FETCH, 1.0)])])
    observed = limits_between(lake, 0, 99)
    assert len(observed.earlier) == MOST_WAYS
    assert observed.recorded().beyond == {Key.PRODUCER_BYTE_RATE}
    message = observed.warnings(rows.at(99))[-1]
    assert (
        message
        == "producer_byte_rate: limits changed too often to determine which clients were counted together"
    )


def test_a_snapshot_with_missing_rows_is_ignored(lake: Lake) -> None:
    look(lake, 0, [("a", 0, True, [(ALICE, PRODUCE, 1.0)])])
    lake.put(rows.unit(SNAPSHOT, 1), UnitContent(rows=rows.snapshots(1, [("b", 0, 5, True)])), None)
    observed = limits_between(lake)
    assert observed.snapshot is not None
    assert (observed.snapshot.snapshot_id, observed.incomplete) == ("a", ("b",))


def test_snapshots_of_earlier_years_are_not_read(tmp_path: Path) -> None:
    store = rows.Watched(tmp_path)
    lake = Lake(store, clock=rows.FakeClock())
    for number in range(20):
        look(lake, number, [(f"s{number}", 0, True, [(ALICE, PRODUCE, 1.0)])])
    store.opened = []
    assert observed_limits(lake, rows.CLUSTER, rows.at(17), rows.at(18)).changes == 0
    assert len(set(store.opened)) <= 4


def test_days_begin_at_midnight_utc() -> None:
    assert day_of(rows.at(3) - 1) == rows.day(2)
    assert day_of(rows.at(3)) == rows.day(3)
    assert start_of(rows.day(3)) == rows.at(3)
    assert start_of(rows.day(3)) % DAY_MS == 0
