"""Points of a day become samples: broker identity, replicas, gaps, counters, limits in effect; counted deviations."""

import pytest

from reconciler.evidence.store.snapshot_import import LimitSnapshot
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import QuotaState, limits_of
from tests.evidence.ingest.point_rows import (
    DAY,
    NAN,
    START,
    STEP,
    broker,
    column,
    day,
    gauge,
    times,
    usage,
)

AT = times(4)
PRODUCER, REQUEST = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE


def alice(at=AT, values=100.0, **more):
    return gauge("rate", at, values, kind="produce", user="alice", **more)


def look(at, *pairs, name="s"):
    """A quota snapshot with these limits of users: (name or None for the default, key, value)."""
    limits: dict[object, dict[Key, float]] = {}
    for user, key, value in pairs:
        limits.setdefault(entity(user=user), {})[key] = value
    state = QuotaState(limits={owner: limits_of(values) for owner, values in limits.items()})
    return LimitSnapshot(observed_ms=at, snapshot_id=name, state=state)


def test_a_reading_becomes_a_sample_of_its_broker_with_all_columns():
    done = day([*broker(1, AT), *alice(values=[1.4, 2.5, 3, 4])])
    assert usage(done)[1] == {
        "cluster_id": "c",
        "quota_type": "produce",
        "group_kind": "user",
        "user": "alice",
        "client_id": "",
        "ip": "",
        "broker_id": "1",
        "ts_ms": START + STEP,
        "dt_ms": STEP,
        "rate_units": 3,
        "throttle_ms": None,
        "censored": "unknown",
        "day": DAY,
    }
    assert column(done, "rate_units") == [1, 3, 3, 4]
    assert done.coverage == {"1": 4 * STEP * 1_000_000 // 86_400_000}
    assert done.counts == {"quota_unknown": 4}


def test_values_of_types_without_bytes_are_in_millionths():
    done = day([*broker(1, AT), *gauge("rate", AT, 1.25, kind="request", user="u")])
    assert column(done, "rate_units") == [1_250_000] * 4


# ---- who is who ---------------------------------------------------------------------------------


def test_an_instance_without_a_broker_id_is_dropped_and_counted():
    done = day([*gauge("up", AT, 1), *alice()])
    assert done.usage.num_rows == 0
    assert done.counts == {"broker_unknown": 4, "up_unknown": 4}


def test_an_invalid_broker_id_identifies_no_broker():
    done = day([*gauge("up", AT, 1), *gauge("broker_id", AT, [1.5, NAN, -1, 2.0**40]), *alice()])
    assert done.counts == {"broker_unknown": 4, "up_unknown": 4, "bad_broker_id": 4}


def test_an_instance_that_becomes_another_broker_belongs_to_each_in_its_time_and_to_none_between():
    at = times(6)
    ids = gauge("broker_id", at[:2], 1) + gauge("broker_id", at[4:], 2)
    done = day([*gauge("up", at, 1), *ids, *alice(at)])
    assert column(done, "ts_ms", broker_id="1") == at[:2]
    assert column(done, "ts_ms", broker_id="2") == at[4:]
    assert done.counts["broker_changed"] == 2


def test_an_instance_that_replaces_another_for_the_same_broker_continues_its_series():
    at = times(6)
    old = [*broker(1, at[:3], instance="old"), *alice(at[:3], instance="old")]
    new = [*broker(1, at[3:], instance="new"), *alice(at[3:], instance="new")]
    done = day([*old, *new])
    assert column(done, "ts_ms", broker_id="1") == at
    assert column(done, "dt_ms") == [STEP] * 6


def test_of_two_simultaneous_instances_with_one_id_the_more_complete_one_is_used():
    at = times(6)
    more = [*broker(1, at, instance="a"), *alice(at, 100, instance="a")]
    less = [*broker(1, at[:4], instance="b"), *alice(at[:4], 900, instance="b")]
    done = day([*more, *less])
    assert column(done, "rate_units") == [100] * 6
    assert done.counts["other_instance"] == 4


# ---- replicas and scrapes -----------------------------------------------------------------------


def test_of_two_replicas_the_more_complete_one_is_used_for_each_hour():
    first, second = times(118), times(120, begin=START + 7_000)
    hour = 3_600_000
    later_first, later_second = (
        times(120, begin=START + hour),
        times(60, begin=START + hour + 7_000),
    )
    a = [*broker(1, first + later_first, replica="a"), *alice(first + later_first, 1, replica="a")]
    b = [
        *broker(1, second + later_second, replica="b"),
        *alice(second + later_second, 2, replica="b"),
    ]
    done = day([*a, *b])
    assert column(done, "ts_ms") == second + later_first
    assert set(column(done, "rate_units")[:120]) == {2}
    assert set(column(done, "rate_units")[120:]) == {1}
    assert done.counts["other_replica"] == 118 + 60


def test_scrapes_closer_than_ten_windows_are_thinned_for_all_series_alike():
    at = times(8, step=5_000)
    done = day(
        [*broker(1, at), *alice(at, range(8)), *gauge("rate", at, 7, kind="fetch", user="u")]
    )
    assert column(done, "rate_units", quota_type="produce") == [0, 2, 4, 6]
    assert column(done, "ts_ms", quota_type="fetch") == at[::2]
    assert done.counts["thinned"] == 8


def test_points_close_to_a_scrape_are_assigned_to_it_and_others_are_counted():
    near, far = [ts + 4_000 for ts in AT[:3]], [AT[3] + 20_000]
    done = day([*broker(1, AT), *alice(near + far)])
    assert column(done, "ts_ms") == AT[:3]
    assert (done.counts["snapped"], done.counts["unaligned"]) == (3, 1)


def test_a_failed_scrape_is_a_gap_and_not_zero():
    rows = [
        *gauge("up", AT, [1, 1, 0, 1]),
        *gauge("broker_id", AT, 1),
        *alice([AT[0], AT[1], AT[3]]),
    ]
    done = day(rows)
    assert column(done, "ts_ms") == [AT[0], AT[1], AT[3]]
    assert column(done, "dt_ms") == [STEP, STEP, 2 * STEP]
    assert done.up.column("up").to_pylist() == [True, True, False, True]
    assert done.up.column("dt_ms").to_pylist() == [STEP] * 4


def test_brokers_with_clocks_that_disagree_are_independent_of_each_other():
    late = times(4, begin=START + 11_000)
    rows = [*broker(1, AT), *alice(), *broker(2, late), *alice(late, 7, instance="b2:7071")]
    done = day(rows)
    assert column(done, "ts_ms", broker_id="1") == AT
    assert column(done, "ts_ms", broker_id="2") == late


# ---- silence ------------------------------------------------------------------------------------


def test_a_missing_point_is_a_gap_unless_the_broker_is_known_to_count():
    done = day([*broker(1, AT), *alice([AT[0]], 50)])
    assert column(done, "ts_ms", user="alice") == [AT[0]]
    assert done.counts["not_measured"] == 3


def test_a_limit_of_another_quota_type_implies_no_counting():
    snapshot = look(START, ("bob", REQUEST, 100.0))
    done = day([*broker(1, AT), *alice([AT[0]], 50)], looks=[snapshot])
    assert column(done, "ts_ms", user="alice") == [AT[0]]


def test_an_address_is_counted_only_while_it_has_a_limit():
    rate = gauge("rate", [AT[0]], 2, kind="ip", ip="10.0.0.1")
    second_rate = gauge("rate", AT, 2, kind="ip", ip="10.0.0.2")
    limited = QuotaState(
        limits={entity(ip="10.0.0.1"): limits_of({Key.CONNECTION_CREATION_RATE: 5.0})}
    )
    free = QuotaState(
        limits={entity(ip="10.0.0.2"): limits_of({Key.CONNECTION_CREATION_RATE: 5.0})}
    )
    rows = [*broker(1, AT), *rate, *second_rate]
    limited_day = day(
        rows, looks=[LimitSnapshot(observed_ms=START, snapshot_id="a", state=limited)]
    )
    free_day = day(rows, looks=[LimitSnapshot(observed_ms=START, snapshot_id="a", state=free)])
    assert column(limited_day, "rate_units", ip="10.0.0.1") == [2_000_000, 0, 0, 0]
    assert column(free_day, "rate_units", ip="10.0.0.1") == [2_000_000]
    assert column(limited_day, "group_kind", ip="10.0.0.1")[0] == "ip"


def test_a_bucket_continues_at_midnight_and_its_first_sample_covers_the_time_since_the_last_day():
    earlier = times(3, begin=START - 3 * STEP - 10_000 + STEP)
    before = day([*broker(1, earlier), *alice(earlier)], on=DAY.replace(day=1))
    bob = gauge("rate", AT, 1, kind="produce", user="bob")
    done = day([*broker(1, AT), *bob], before=before.carry)
    assert column(done, "rate_units", user="alice") == [0] * 4
    assert column(done, "dt_ms", user="alice") == [START - earlier[-1], STEP, STEP, STEP]
    assert column(done, "dt_ms", user="bob")[0] == STEP
    next_day = times(4, begin=START + 86_400_000)
    bob = gauge("rate", next_day, 1, kind="produce", user="bob")
    again = day([*broker(1, next_day), *bob], before=done.carry, on=DAY.replace(day=3))
    assert usage(again, user="alice") == []


# ---- values -------------------------------------------------------------------------------------


def test_a_rate_of_nan_is_a_gap_and_rates_out_of_range_are_clipped_and_counted():
    done = day([*broker(1, AT), *alice(values=[NAN, -5, 1e300, 7])])
    assert column(done, "rate_units") == [0, 10**13, 7]
    assert column(done, "dt_ms") == [STEP] * 3
    counted = ("rate_not_a_number", "rate_below_zero", "rate_clamped")
    assert [done.counts[reason] for reason in counted] == [1, 1, 1]


def test_delays_of_nan_mean_no_throttling_and_absent_delays_are_unknown():
    delays = gauge("throttle_ms", AT[:3], [NAN, 0.2, 1500.5], kind="produce", user="alice")
    done = day([*broker(1, AT), *alice(), *delays])
    assert column(done, "throttle_ms") == [0, 1, 1501, None]


def test_counters_become_rates_and_a_reset_counts_from_zero():
    at = times(6)
    total = gauge(
        "rate_total", at, [1000, 31000, 61000, 300, 30300, 30300], kind="produce", user="alice"
    )
    done = day([*broker(1, at), *total])
    assert column(done, "rate_units") == [1000, 1000, 10, 1000, 0]
    assert column(done, "ts_ms") == at[1:]
    assert (done.counts["counter_first"], done.counts["counter_reset"]) == (1, 1)


def test_a_counter_continues_after_midnight_and_not_over_a_long_gap():
    earlier = times(2, begin=START - 2 * STEP)
    before = day(
        [*broker(1, earlier), *gauge("rate_total", earlier, [0, 3000], kind="produce", user="u")],
        on=DAY.replace(day=1),
    )
    at = [START, START + 400_000]
    done = day(
        [*broker(1, at), *gauge("rate_total", at, [6000, 9000], kind="produce", user="u")],
        before=before.carry,
    )
    assert column(done, "rate_units") == [100]
    assert done.counts["counter_gap"] == 1


def test_a_counter_of_throttle_time_gives_its_increase():
    delays = gauge("throttle_ms_total", AT, [10, 10, 510, 510.4], kind="produce", user="alice")
    done = day([*broker(1, AT), *alice(), *delays])
    assert column(done, "throttle_ms") == [None, 0, 500, 1]


def test_the_total_of_a_broker_is_stored_per_second():
    rows = [
        *broker(1, AT),
        *gauge("bytes_in_total", AT, [0, 3000, 6000, 6000]),
        *gauge("bytes_out", AT, [5.5, NAN, -1, 2]),
        *gauge("request_idle", AT, [0.5, 0.25, 1.2, NAN]),
    ]
    done = day(rows)
    assert done.brokers.select(
        ["bytes_in", "bytes_out", "replication_in", "request_idle_ppm"]
    ).to_pylist() == [
        {"bytes_in": None, "bytes_out": 6, "replication_in": None, "request_idle_ppm": 500_000},
        {"bytes_in": 100, "bytes_out": None, "replication_in": None, "request_idle_ppm": 250_000},
        {"bytes_in": 100, "bytes_out": 0, "replication_in": None, "request_idle_ppm": 1_000_000},
        {"bytes_in": 0, "bytes_out": 2, "replication_in": None, "request_idle_ppm": None},
    ]


# ---- the active controller ----------------------------------------------------------------------


def test_mutations_are_one_series_of_the_cluster_across_a_failover():
    at = times(6)
    first = gauge("rate", at, [5, 6, 0, 0, 0, 0], kind="controller_mutation", user="u")
    later = [ts + 1_000 for ts in at[2:]]
    second = gauge(
        "rate", later, [4, 3, 2, 1], kind="controller_mutation", user="u", instance="b2:7071"
    )
    done = day([*broker(1, at), *first, *broker(2, [ts + 1_000 for ts in at]), *second])
    assert column(done, "broker_id") == ["controller"] * 6
    assert column(done, "rate_units") == [5e6, 6e6, 4e6, 3e6, 2e6, 1e6]
    assert column(done, "ts_ms") == [*at[:2], *later]
    assert done.counts["standby_controller"] == 4
    assert set(done.up.column("broker_id").to_pylist()) == {"1", "2"}


# ---- limits in force ----------------------------------------------------------------------------


def throttled(values=(100.0, 100.0, 80.0, 100.0), delays=(500, NAN, 500, 0), kind="produce"):
    rate = gauge("rate", AT, list(values), kind=kind, user="alice")
    delay = gauge("throttle_ms", AT, delays, kind=kind, user="alice")
    return [*broker(1, AT), *rate, *delay]


@pytest.mark.parametrize(("rate", "judged"), [(90.0, "yes"), (89.4, "no"), (150.0, "yes")])
def test_a_sample_is_near_its_limit_from_nine_tenths_of_it(rate, judged):
    done = day(throttled([rate] * 4), looks=[look(START, ("alice", PRODUCER, 100.0))])
    assert column(done, "censored") == [judged, "no", judged, "no"]


def test_a_consumer_that_is_throttled_far_below_its_limit_is_possibly_censored():
    snapshot = look(START, ("alice", Key.CONSUMER_BYTE_RATE, 100.0))
    done = day(throttled([100.0, 10.0, 10.0, 10.0], [500, 500, NAN, 0], "fetch"), looks=[snapshot])
    assert column(done, "censored") == ["yes", "unknown", "no", "no"]


def test_between_two_snapshots_that_differ_no_limit_is_certain():
    looks = [
        look(START, ("alice", PRODUCER, 100.0)),
        look(AT[2], ("alice", PRODUCER, 200.0), name="t"),
    ]
    done = day(throttled(), looks=looks)
    assert column(done, "censored") == ["yes", "unknown", "no", "no"]
    assert done.counts["quota_changed"] == 1


def test_without_a_snapshot_no_limit_is_certain():
    done = day(throttled())
    assert column(done, "censored") == ["unknown"] * 4
    assert done.counts["quota_unknown"] == 4


def request(delays, *, user="alice", client_id=""):
    return [
        *gauge("rate", AT, 10, kind="request", user=user, client_id=client_id),
        *gauge("throttle_ms", AT, delays, kind="request", user=user, client_id=client_id),
    ]


def test_without_a_snapshot_a_delay_leaves_request_time_unknown_and_no_delay_does_not():
    done = day([*broker(1, AT), *request([NAN, 900, 0, NAN])])
    assert column(done, "censored") == ["no", "unknown", "no", "no"]


def test_a_client_that_its_request_quota_throttles_is_censored():
    snapshot = look(START, ("alice", PRODUCER, 1e6), (DEFAULT, REQUEST, 10.0))
    done = day([*throttled(), *request([NAN, 900, NAN, NAN])], looks=[snapshot])
    assert column(done, "censored", quota_type="produce") == ["no", "yes", "no", "no"]


def test_without_request_telemetry_a_request_quota_makes_samples_unknown():
    snapshot = look(START, ("alice", PRODUCER, 1e6), (DEFAULT, REQUEST, 10.0))
    done = day(throttled(), looks=[snapshot])
    assert column(done, "censored", quota_type="produce") == ["unknown"] * 4


def test_a_request_quota_that_throttled_some_of_the_clients_makes_the_sample_unknown():
    limits = {
        entity(user="alice"): limits_of({PRODUCER: 1e6}),
        entity(user="alice", client_id="a"): limits_of({REQUEST: 10.0}),
    }
    snapshot = LimitSnapshot(observed_ms=START, snapshot_id="s", state=QuotaState(limits=limits))
    rows = [*throttled(), *request([NAN, 900, NAN, NAN], client_id="a")]
    done = day([*rows, *request([900] * 4, user="bob", client_id="a")], looks=[snapshot])
    assert column(done, "censored", quota_type="produce") == ["no", "unknown", "no", "no"]


@pytest.mark.parametrize("rows", [[], broker(1, AT), gauge("broker_id", AT, 1)])
def test_a_day_without_use_has_no_samples(rows):
    assert day(rows).usage.num_rows == 0
