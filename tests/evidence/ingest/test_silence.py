"""Absent series: zero only while brokers count, and only if their response is known to be complete."""

from reconciler.evidence.store.snapshot_import import LimitSnapshot
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from tests.evidence.ingest.point_rows import START, broker, column, day, gauge, times

AT = times(8)
FREE = QuotaState(limits={})


def look(at, state):
    return LimitSnapshot(observed_ms=at, snapshot_id=f"{at}", state=state)


def rate(at, values, *, user="alice", kind="produce", **more):
    return gauge("rate", at, values, kind=kind, user=user, **more)


# ---- after the last quota of a type -------------------------------------------------------------


def test_zeros_of_an_address_without_a_limit_are_not_used():
    limited = QuotaState(
        limits={entity(ip="10.0.0.1"): limits_of({Key.CONNECTION_CREATION_RATE: 5.0})}
    )
    rows = [*broker(1, AT), *gauge("rate", AT, [2, 2, 1] + [0] * 5, kind="ip", ip="10.0.0.1")]
    done = day(rows, looks=[look(START, limited), look(AT[2], FREE)])
    assert column(done, "rate_units") == [2_000_000, 2_000_000, 1_000_000]


# ---- without `up` -------------------------------------------------------------------------------


# ---- a step that the readings contradict --------------------------------------------------------
