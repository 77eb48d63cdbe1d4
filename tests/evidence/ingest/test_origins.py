"""Which responses and points count for a broker: of one job and one target, and never of two brokers with one id."""

from reconciler.evidence.ingest.cluster_sources import (
    ScrapeTarget,
)
from tests.evidence.ingest.point_rows import (
    START,
    STEP,
    broker,
    column,
    day,
    gauge,
    times,
)

AT = times(8)
NODE, KAFKA = ScrapeTarget("host-1", "node"), ScrapeTarget("host-1", "kafka")
LONG = times(40)


def rate(at, values=100.0, *, user="alice", **more):
    return gauge("rate", at, values, kind="produce", user=user, **more)


def kafka(at, number=1, instance=KAFKA):
    """A broker of a job, with two users."""
    return [
        *broker(number, at, instance=instance),
        *rate(at, 100.0, instance=instance),
        *rate(at, 7.0, user="bob", instance=instance),
    ]


# ---- other jobs on the broker's host ------------------------------------------------------------


def test_samples_of_another_job_on_the_host_do_not_count_as_responses_of_the_broker():
    node = gauge("up", [ts - 15_000 for ts in AT[1:]], 1, instance=NODE)
    alone, done = day(kafka(AT)), day([*kafka(AT), *node])
    assert (done.usage, done.up) == (alone.usage, alone.up)
    assert "filled" not in done.counts
    assert done.counts["up_unknown"] == 7


def test_while_the_exporter_is_down_up_of_another_job_does_not_count_for_it():
    down = gauge("up", AT[4:], 0, instance=KAFKA)
    node = gauge("up", AT, 1, instance=NODE)
    done = day([*kafka(AT[:4]), *down, *node])
    assert column(done, "ts_ms", user="alice") == AT[:4]
    assert done.up.column("up").to_pylist() == [True] * 4 + [False] * 4
    assert done.coverage == {"1": 4 * STEP * 1_000_000 // 86_400_000}


def test_app_info_of_another_job_of_the_same_instance_identifies_the_broker():
    app_info = gauge("broker_id", AT, 4, instance=ScrapeTarget("host-1", "kafka-all"))
    kafka_rows = [*gauge("up", AT, 1, instance=KAFKA), *rate(AT, instance=KAFKA)]
    done = day([*kafka_rows, *app_info])
    assert column(done, "broker_id") == ["4"] * 8


def test_two_jobs_that_read_one_target_are_one_broker():
    slow = kafka(AT[::2], instance=ScrapeTarget("host-1", "all"))
    done = day([*kafka(AT), *slow])
    assert column(done, "ts_ms", user="alice") == AT
    assert done.counts["other_instance"] == 8
    assert done.doubts == ()


# ---- a rule that names brokers ------------------------------------------------------------------


def named(number, job="kafka", instance="h"):
    return ScrapeTarget(f"{instance}{number}", job, str(number))


def test_a_broker_that_never_answers_is_listed_with_no_coverage():
    blocked = gauge("up", AT, 0, instance=named(3))
    done = day([*kafka(AT, 1, named(1)), *blocked])
    (first, third) = (
        [row["up"] for row in done.up.to_pylist() if row["broker_id"] == number]
        for number in ("1", "3")
    )
    assert (first, third) == ([True] * 8, [False] * 8)
    assert set(done.coverage) == {"1"}


def test_a_target_with_up_and_no_other_series_is_not_the_broker():
    rows = kafka(AT[:4], 1, named(1))
    down = gauge("up", AT[4:], 0, instance=named(1))
    second_up = gauge("up", AT, 1, instance=named(1, instance="zookeeper-"))
    done = day([*rows, *down, *second_up])
    assert (done.usage, done.up) == (day([*rows, *down]).usage, day([*rows, *down]).up)
    assert done.counts == {"quota_unknown": 8, "up_alone": 8}


def test_failed_scrapes_of_another_job_add_no_broker():
    done = day([*kafka(AT, 1, named(1)), *gauge("up", AT, 0, instance=named(9, "postgres"))])
    assert set(done.up.column("broker_id").to_pylist()) == {"1"}
    assert done.counts["up_unknown"] == 8


def test_a_replica_that_has_only_up_of_a_broker_counts_as_having_scraped_it():
    second_up = gauge("up", times(60, step=15_000), 1, instance=KAFKA, replica="b")
    done = day([*kafka(times(30)), *second_up])
    assert "up_unknown" not in done.counts
    assert set(column(done, "rate_units", user="bob")) == {7}


def test_failed_scrapes_of_another_target_change_nothing_while_the_broker_answers():
    beside = gauge("up", [ts + 11_000 for ts in AT], 0, instance=named(1, "node"))
    rows = kafka(AT, 1, named(1))
    assert day([*rows, *beside]).up == day(rows).up


def test_up_without_the_label_belongs_to_the_one_broker_of_its_target():
    up = gauge("up", AT, [1, 1, 0, 0, 1, 1, 1, 1], instance=ScrapeTarget("h1", "kafka"))
    rates = rate([*AT[:2], *AT[4:]], instance=named(1))
    done = day([*up, *rates])
    assert done.up.column("up").to_pylist() == [True, True, False, False] + [True] * 4
    assert "no_up" not in done.counts
    assert "up_unknown" not in done.counts


def test_up_of_a_federation_is_not_that_of_the_brokers_behind_it():
    target = ScrapeTarget("federate:9090", "federate")
    rows = [
        row
        for number in (1, 2)
        for row in rate(AT, 10.0 * number, instance=target._replace(broker=str(number)))
    ]
    done = day([*rows, *gauge("up", AT, 1, instance=target)])
    assert done.usage.num_rows == 0
    assert (done.counts["no_up"], done.counts["up_unknown"]) == (16, 8)
    assert "honor_labels" in done.doubts[0]


# ---- one id, two brokers ------------------------------------------------------------------------


def test_two_clusters_with_the_same_ids_are_refused_and_both_are_named():
    first = [*broker(1, LONG, instance="a1"), *rate(LONG, 100, instance="a1")]
    second = [*broker(1, LONG, instance="b1"), *rate(LONG, 900, instance="b1")]
    done = day([*first, *second])
    assert done.usage.num_rows == done.up.num_rows == 0
    assert done.counts["two_brokers"] == 80
    (sentence,) = done.doubts
    assert sentence.startswith("a1, b1 report clients under the broker id 1 at the same time")


def test_two_clusters_with_the_same_ids_are_refused_also_in_hours_in_which_only_one_of_them_answers():
    later = times(40, begin=START + 3_600_000)
    first = [*broker(1, LONG + later, instance="a1"), *rate(LONG + later, 100, instance="a1")]
    second = [*broker(1, LONG, instance="b1"), *rate(LONG, 9, user="zoe", instance="b1")]
    assert day([*first, *second]).usage.num_rows == 0


def test_other_brokers_of_that_day_are_used():
    first = [*broker(1, LONG, instance="a1"), *rate(LONG, 100, instance="a1")]
    second = [*broker(1, LONG, instance="b1"), *rate(LONG, 900, instance="b1")]
    third = [*broker(2, LONG, instance="a2"), *rate(LONG, 5, instance="a2")]
    done = day([*first, *second, *third])
    assert set(column(done, "broker_id")) == {"2"}
    assert len(done.doubts) == 1


def test_one_broker_that_is_scraped_under_two_names_is_refused_too():
    late = [ts + 9_000 for ts in LONG]
    first = [*broker(1, LONG, instance="dns"), *rate(LONG, instance="dns")]
    second = [*broker(1, late, instance="ip"), *rate(late, instance="ip")]
    done = day([*first, *second])
    assert done.usage.num_rows == 0
    assert "the one job of its brokers" in done.doubts[0]


def test_another_exporter_of_a_broker_that_reports_no_clients_does_not_take_its_place():
    kafka_rows = [*broker(1, LONG[::2], instance="x:2"), *rate(LONG[::2], 100, instance="x:2")]
    totals = [*broker(1, LONG, instance="x:1"), *gauge("bytes_in", LONG, 3, instance="x:1")]
    done = day([*kafka_rows, *totals])
    assert column(done, "ts_ms") == LONG[::2]
    assert done.counts["other_instance"] == 40
    assert done.doubts == ()


def test_a_broker_that_moved_to_another_instance_is_one():
    old = [*broker(1, LONG[:20], instance="old"), *rate(LONG[:20], 100, instance="old")]
    new = [*broker(1, LONG[18:], instance="new"), *rate(LONG[18:], 900, instance="new")]
    done = day([*old, *new])
    assert done.doubts == ()
    assert len(column(done, "ts_ms")) >= 20


# ---- from series to samples ---------------------------------------------------------------------
