"""Absent series: zero only while brokers count, and only if their response is known to be complete."""

import pytest

from reconciler.evidence.store.snapshot_import import LimitSnapshot
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from reconciler.usage.samples import cadence
from tests.evidence.ingest.point_rows import START, STEP, broker, column, day, gauge, times

AT = times(8)
LIMITED = QuotaState(limits={entity(user="bob"): limits_of({Key.PRODUCER_BYTE_RATE: 1000.0})})
FREE = QuotaState(limits={})


def look(at, state):
    return LimitSnapshot(observed_ms=at, snapshot_id=f"{at}", state=state)


def rate(at, values, *, user="alice", kind="produce", **more):
    return gauge("rate", at, values, kind=kind, user=user, **more)


# ---- after the last quota of a type -------------------------------------------------------------


def test_zeros_after_the_last_quota_was_removed_are_not_used():
    rows = [*broker(1, AT), *rate(AT, [50, 50, 9, 0, 0, 0, 0, 0]), *rate(AT[:2], 7, user="bob")]
    done = day(rows, looks=[look(START, LIMITED), look(AT[2], FREE)])
    assert column(done, "rate_units", user="alice") == [50, 50, 9]
    assert column(done, "rate_units", user="bob") == [7, 7, 0]
    assert done.counts["not_measured"] == 10


def test_between_a_snapshot_with_a_quota_and_one_without_a_missing_point_is_a_gap():
    rows = [*broker(1, AT), *rate(AT[:3], 50)]
    done = day(rows, looks=[look(START, LIMITED), look(AT[6], FREE)])
    assert column(done, "ts_ms") == AT[:3]
    assert done.counts["not_measured"] == 5


def test_zeros_of_an_address_without_a_limit_are_not_used():
    limited = QuotaState(
        limits={entity(ip="10.0.0.1"): limits_of({Key.CONNECTION_CREATION_RATE: 5.0})}
    )
    rows = [*broker(1, AT), *gauge("rate", AT, [2, 2, 1] + [0] * 5, kind="ip", ip="10.0.0.1")]
    done = day(rows, looks=[look(START, limited), look(AT[2], FREE)])
    assert column(done, "rate_units") == [2_000_000, 2_000_000, 1_000_000]


# ---- without `up` -------------------------------------------------------------------------------


def test_points_without_up_are_refused_and_the_day_names_their_instances():
    with_up = [*broker(1, AT), *rate(AT, 7, user="bob")]
    without = [*gauge("broker_id", AT, 2, instance="b2"), *rate(AT, 100, instance="b2")]
    done, alone = day([*with_up, *without]), day(with_up)
    assert (done.usage, done.up) == (alone.usage, alone.up)
    assert done.counts["no_up"] == 8
    (sentence,) = done.doubts
    assert sentence.startswith("b2 have no `up`")


def test_series_with_their_own_timestamps_belong_to_the_scrape_beside_them():
    late = [ts + 14_000 for ts in AT]
    rows = [*broker(1, AT), *rate(AT, range(8)), *rate(late, range(20, 28), user="bob")]
    done = day(rows)
    assert column(done, "ts_ms", user="bob") == AT
    assert column(done, "rate_units", user="bob") == list(range(20, 28))
    assert done.counts["snapped"] == 8
    assert not {"thinned", "filled"} & set(done.counts)


# ---- a step that the readings contradict --------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "configured_step"),
    [(60_000, 10_000), (10_000, 60_000), (30_000, 60_000), (15_000, 10_000)],
)
def test_a_configured_step_that_the_readings_contradict_is_reported(step, configured_step):
    at = times(40, step=step)
    done = day([*broker(1, at), *broker(2, at), *rate(at, 5)], pace=cadence(configured_step))
    gap = min(5 * configured_step, 300_000) // 1000
    (sentence,) = done.doubts
    assert sentence.startswith(f"brokers 1, 2 were read every {step // 1000} s, and ")
    assert f"means every {configured_step // 1000} s with gaps of up to {gap} s: " in sentence


def test_failed_scrapes_outages_and_few_readings_do_not_contradict_the_step():
    at = times(60)
    flapping = [*gauge("up", at, [1, 0] * 30), *gauge("broker_id", at, 1)]
    away = [*broker(2, at[:25]), *broker(2, at[50:])]
    few = broker(3, times(20, step=4 * STEP))
    assert day([*flapping, *away, *few]).doubts == ()


@pytest.mark.parametrize("scrape", [2_000, 3_000, 5_000, 9_000])
def test_thinned_scrapes_do_not_contradict_the_configured_step(scrape):
    at = times(200, step=scrape)
    assert day([*broker(1, at), *rate(at, 5)], pace=cadence(scrape)).doubts == ()
