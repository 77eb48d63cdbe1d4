"""T12: what the model tells from recorded use, against what real brokers then did to the same records. Needs no broker.

The bounds of T12 are 15 % of throttled time and 20 % of the worst delay. Producers keep them, run by run. Consumers do
not: a limited consumer gets 81 to 90 % of its limit, and half of it if one fetch can hold ten seconds' worth. The
tests hold what is true; docs/evidence-quality.md has every number and says where the rest comes from.
"""

from dataclasses import replace
from functools import cache

import pytest

from tests.recording import compare, fixture
from tests.recording.compare import Row
from tests.recording.fixture import Kept
from tests.recording.truth import DELAY_BOUND, TIME_BOUND, Way, truth

PRODUCERS = (1, 2, 3, 4, 5, 6)
WITH_SMALL_FETCHES = (7, 8)
WINDOW_SECONDS = 10


@cache
def kept_of(number: int) -> Kept:
    return fixture.read(number)


@cache
def rows(number: int) -> tuple[Row, ...]:
    return compare.rows(kept_of(number))


def of(number: int, kind: str) -> list[Row]:
    return [row for row in rows(number) if row.case.kind == kind]


def every(kind: str) -> list[Row]:
    return [row for number in fixture.numbers() for row in of(number, kind)]


def test_there_are_as_many_runs_as_were_promised():
    assert fixture.numbers() == (*PRODUCERS, *WITH_SMALL_FETCHES)
    assert len(every("produce")) == 30
    assert len(every("fetch")) == 22


@pytest.mark.parametrize("number", PRODUCERS)
def test_throttled_time_and_worst_delay_of_producers_are_within_the_bounds(number):
    total = compare.total(of(number, "produce"))
    assert total.throttled.within(TIME_BOUND), total
    assert total.worst.within(DELAY_BOUND), total


def test_single_groups_of_producers_are_within_the_bounds_but_for_three():
    missed = [
        (row.run, row.case.shape)
        for row in every("produce")
        if not row.throttled.within(TIME_BOUND) or not row.worst.within(DELAY_BOUND)
    ]
    # Bursts after a rest: the broker lets ten seconds' worth pass first, and the model does not. In run 5 three
    # connections with four requests under way each wait for one another.
    assert missed == [(2, "on/off"), (3, "walk"), (5, "walk")]


@pytest.mark.parametrize("number", WITH_SMALL_FETCHES)
def test_throttled_time_of_consumers_with_small_fetches_is_within_the_bound_and_their_delay_is_not(
    number,
):
    total = compare.total(of(number, "fetch"))
    assert total.throttled.within(TIME_BOUND), total
    assert -0.35 < total.worst.off < -DELAY_BOUND, total


def test_what_is_told_of_consumers_is_less_than_what_happens():
    assert all(row.throttled.off < 0 and row.worst.off < 0 for row in every("fetch"))


def test_a_consumer_whose_fetch_holds_ten_seconds_of_its_limit_waits_twice_as_long_as_told():
    wide = [row for row in every("fetch") if row.case.fetch_bytes > row.case.limit * 8]
    assert len(wide) == 6
    assert all(one.worst.off < -0.5 for one in wide)


@pytest.mark.parametrize("number", [2, 4, 6, 7, 8])
def test_nine_tenths_of_the_limit_would_tell_right_of_consumers_with_fetches_below_it(number):
    """Found afterwards on these very runs: an explanation, and no rule yet."""
    kept = kept_of(number)
    lowered = tuple(
        replace(case, limit=case.limit * 9 // 10) for case in kept.cases if case.kind == "fetch"
    )
    total = compare.total(compare.rows(replace(kept, cases=lowered)))
    assert total.throttled.within(TIME_BOUND)
    assert total.worst.within(DELAY_BOUND)


def test_another_phase_of_the_scrapes_tells_the_same():
    """Scraped every 5 s, thinned to 10 s: the other half of the scrapes is a recording of its own."""
    for number in PRODUCERS:
        ours = compare.total(of(number, "produce"))
        other_total = compare.total(
            row for row in compare.rows(kept_of(number), skip=1) if row.case.kind == "produce"
        )
        assert other_total.throttled.within(TIME_BOUND)
        assert other_total.worst.within(DELAY_BOUND)
        assert (
            abs(other_total.throttled.told_ms - ours.throttled.told_ms)
            <= 0.06 * ours.throttled.told_ms
        )


def test_the_brokers_own_throttle_time_lingers():
    """It is a mean over the last minute: the broker is seen to throttle whenever it did, and for up to a minute longer."""
    for row in every("produce"):
        assert row.observed_ms >= row.throttled.true_ms - 20_000
    total = sum(one.observed_ms for one in every("produce"))
    true = sum(one.throttled.true_ms for one in every("produce"))
    assert 1.2 < total / true < 1.6


def test_counting_samples_above_the_limit_would_miss_a_third():
    """What dashboards do, on the same recordings."""
    counted = true = 0
    for number in PRODUCERS:
        kept = kept_of(number)
        rates = compare.truth.points_of(kept.matrix, compare.RATE)
        for row in rows(number):
            if row.case.kind == "produce":
                points = rates["produce", row.case.user, row.case.client_id]
                counted += sum(
                    kept.scrape_ms
                    for at, rate in points
                    if kept.free[0] <= at < kept.free[1] and rate > row.case.limit
                )
                true += row.throttled.true_ms
    assert counted < 0.67 * true


def test_nothing_in_the_fixture_names_anybody():
    for number in fixture.numbers():
        kept = kept_of(number)
        names = {
            series["metric"].get(label, "p-")
            for series in kept.matrix["data"]["result"]
            for label in ("user", "client_id")
        }
        assert all(name.startswith("p-") for name in names)


def test_late_time_is_the_time_in_which_some_record_is_late():
    free = [Way(due_ms=at, took_ms=10) for at in range(0, 100_000, 1_000)]
    limited = [
        Way(due_ms=0, took_ms=500),
        Way(due_ms=1_000, took_ms=5_010),  # late from 2,010 to 6,010
        Way(due_ms=3_000, took_ms=5_010),  # late from 4,010 to 8,010
        Way(due_ms=20_000, took_ms=2_010),  # late from 21,010 to 22,010
    ]
    found = truth(free, limited)
    assert found.throttled_ms == 6_000 + 1_000
    assert found.worst_ms == 5_000
    assert found.baseline_ms == 10
