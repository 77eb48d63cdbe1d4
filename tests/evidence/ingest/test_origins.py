"""Which responses and points count for a broker: of one job and one target, and never of two brokers with one id."""

from reconciler.evidence.ingest.cluster_sources import (
    ScrapeTarget,
)
from tests.evidence.ingest.point_rows import (
    START,
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


# ---- one id, two brokers ------------------------------------------------------------------------


def test_two_clusters_with_the_same_ids_are_refused_also_in_hours_in_which_only_one_of_them_answers():
    later = times(40, begin=START + 3_600_000)
    first = [*broker(1, LONG + later, instance="a1"), *rate(LONG + later, 100, instance="a1")]
    second = [*broker(1, LONG, instance="b1"), *rate(LONG, 9, user="zoe", instance="b1")]
    assert day([*first, *second]).usage.num_rows == 0


def test_a_broker_that_moved_to_another_instance_is_one():
    old = [*broker(1, LONG[:20], instance="old"), *rate(LONG[:20], 100, instance="old")]
    new = [*broker(1, LONG[18:], instance="new"), *rate(LONG[18:], 900, instance="new")]
    done = day([*old, *new])
    assert done.doubts == ()
    assert len(column(done, "ts_ms")) >= 20


# ---- from series to samples ---------------------------------------------------------------------
