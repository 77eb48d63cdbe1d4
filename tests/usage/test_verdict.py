"""Impacts: what may be said about a new limit on which evidence, and what a policy refuses."""

from dataclasses import replace

import pytest

from reconciler.usage.buckets import Answer
from reconciler.usage.censoring import Bound
from reconciler.usage.samples import DAY_MS, Censored, QuotaType, Sample
from reconciler.usage.verdict import (
    Breach,
    Part,
    Tolerance,
    Verdict,
    breaches,
    compared,
    impact,
)

GAP = 150_000
STEP = 30_000
NO, YES, UNKNOWN = Censored.NO, Censored.YES, Censored.UNKNOWN


def series(*rates, censored=NO, throttle=0):
    return [
        Sample(n * STEP, STEP, rate, throttle, censored) for n, rate in enumerate((*rates, 0, 0, 0))
    ]


PEAK = (10, 200, 10)
CALM = (10, 10, 10)


def told(answer, samples, now, then, *, kind=QuotaType.PRODUCE):
    return impact(kind, answer, [Part(samples=samples, limit=now)], then, max_gap_ms=GAP)


@pytest.mark.parametrize(
    ("answer", "samples", "now", "then", "verdict", "bound", "figure"),
    [
        pytest.param(Answer.EXACT, series(*PEAK), 300, 150, Verdict.WORSE, Bound.EXACT, 30_000, id="tighter"),
        pytest.param(Answer.EXACT, series(*PEAK), None, 150, Verdict.WORSE, Bound.EXACT, 30_000, id="newly limited"),
        pytest.param(Answer.EXACT, series(*PEAK), 150, 300, Verdict.BETTER, Bound.EXACT, 0, id="looser"),
        pytest.param(Answer.EXACT, series(*PEAK), 150, None, Verdict.BETTER, Bound.EXACT, 0, id="newly unlimited"),
        pytest.param(Answer.EXACT, series(*CALM), 300, 150, Verdict.SAME, Bound.EXACT, 0, id="never near"),
        pytest.param(
            Answer.EXACT, series(*PEAK, censored=YES, throttle=9), 200, 150,
            Verdict.WORSE, Bound.AT_LEAST, 30_000, id="censored and tighter",
        ),
        pytest.param(
            Answer.EXACT, series(*PEAK, censored=YES, throttle=9), 150, 180,
            Verdict.BETTER, Bound.AT_MOST, None, id="censored and looser: no number",
        ),
        pytest.param(
            Answer.EXACT, series(*PEAK, censored=YES, throttle=9), 150, None,
            Verdict.BETTER, Bound.EXACT, 0, id="censored and unlimited",
        ),
        pytest.param(
            Answer.EXACT, series(*PEAK, censored=YES, throttle=9), 150, 150,
            Verdict.SAME, Bound.AT_LEAST, 30_000, id="censored and equal",
        ),
        pytest.param(
            Answer.EXACT, series(*PEAK, censored=UNKNOWN), 300, 150,
            Verdict.WORSE, Bound.AT_LEAST, 30_000, id="nobody knows whether censored",
        ),
        pytest.param(
            Answer.EXACT, series(200, 200, 200), 300, 50,
            Verdict.WORSE, Bound.AT_LEAST, 180_000, id="a backlog that outlives the evidence",
        ),
        pytest.param(Answer.BOUND, series(*CALM), 300, 150, Verdict.SAFE_BY_BOUND, Bound.AT_MOST, 0, id="bounded"),
        pytest.param(Answer.BOUND, series(*PEAK), 300, 150, Verdict.NOT_IDENTIFIABLE, Bound.AT_MOST, None, id="over the bound"),
        pytest.param(
            Answer.BOUND, series(*CALM, censored=UNKNOWN), 300, 150,
            Verdict.NOT_IDENTIFIABLE, Bound.AT_MOST, None, id="a bound of censored rates bounds nothing",
        ),
        pytest.param(
            Answer.BOUND, series(*PEAK, censored=YES), 150, None,
            Verdict.SAFE_BY_BOUND, Bound.AT_MOST, 0, id="no limit is safe whatever they want",
        ),
        pytest.param(Answer.NOT_IDENTIFIABLE, series(*CALM), 300, 150, Verdict.NOT_IDENTIFIABLE, Bound.EXACT, None, id="unknown"),
        pytest.param(Answer.NO_DATA, [], 300, 150, Verdict.NO_DATA, Bound.EXACT, None, id="unseen"),
        pytest.param(Answer.EXACT, [], 300, 150, Verdict.NO_DATA, Bound.EXACT, None, id="an empty window"),
    ],
)  # fmt: skip
def test_evidence_says(answer, samples, now, then, *, verdict, bound, figure):
    found = told(answer, samples, now, then)
    assert (found.verdict, found.bound) == (verdict, bound)
    assert (found.after and found.after.throttled_ms) == figure


def test_no_part_at_all_is_no_data():
    found = impact(QuotaType.PRODUCE, Answer.NO_DATA, [], 5, max_gap_ms=GAP)
    assert (found.verdict, found.before, found.observed_throttled_ms) == (
        Verdict.NO_DATA,
        None,
        None,
    )


def test_what_was_seen_stands_beside_what_is_simulated():
    found = told(Answer.EXACT, series(*PEAK, censored=YES, throttle=9), 150, 100)
    assert found.before.throttled_ms == 30_000
    assert found.observed_throttled_ms == found.censored_ms == found.covered_ms == 6 * STEP


def test_parts_together_are_compared_with_the_worst_of_them():
    parts = [Part(samples=series(90, 90), limit=80), Part(samples=series(80, 80), limit=None)]
    found = impact(QuotaType.PRODUCE, Answer.EXACT, parts, 150, max_gap_ms=GAP)
    assert found.after.max_delay_ms == 8_000  # 2 * 20 * 30 s over 150
    assert found.before.max_delay_ms == 7_500  # 2 * 10 * 30 s over 80
    assert found.covered_ms == 5 * STEP


def forecast(throttled, delay=0, covered=DAY_MS, **more):
    base = told(Answer.EXACT, series(1), None, 5).after
    return replace(base, throttled_ms=throttled, max_delay_ms=delay, covered_ms=covered, **more)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (0, 60_000, Verdict.SAME),
        (0, 60_001, Verdict.WORSE),
        (60_001, 0, Verdict.BETTER),
        (1_000_000, 1_100_000, Verdict.SAME),
        (1_000_000, 1_100_001, Verdict.WORSE),
        (1_000_000, 899_999, Verdict.BETTER),
    ],
)
def test_a_difference_counts_above_a_minute_a_day_and_a_tenth(before, after, verdict):
    assert compared(forecast(before), forecast(after)) is verdict


STRICT = Tolerance(new_throttled_ms_per_day=600_000, max_delay_ms=60_000)


def made(before, after, verdict=Verdict.WORSE, **more):
    base = told(Answer.EXACT, series(*CALM), 300, 150)
    return replace(base, before=before, after=after, verdict=verdict, **more)


def test_a_policy_refuses_what_a_change_makes_worse():
    assert breaches(made(forecast(0), forecast(600_000, 60_000)), STRICT) == ()
    assert breaches(made(forecast(0), forecast(600_001, 60_001)), STRICT) == (
        Breach(what="newly throttled per day", found_ms=600_001, allowed_ms=600_000),
        Breach(what="worst delay", found_ms=60_001, allowed_ms=60_000),
    )
    week = made(forecast(0, covered=7 * DAY_MS), forecast(700_000, covered=7 * DAY_MS))
    assert breaches(week, STRICT) == ()


def test_a_policy_does_not_refuse_a_delay_that_was_there_before():
    assert breaches(made(forecast(0, 90_000), forecast(100_000, 90_000)), STRICT) == ()


def test_a_policy_refuses_no_guess():
    bad = forecast(10**7, 10**6)
    for verdict in set(Verdict) - {Verdict.WORSE}:
        assert breaches(made(forecast(0), bad, verdict), STRICT) == ()
    assert breaches(made(forecast(0), None), STRICT) == ()
    assert breaches(made(None, bad), STRICT) == ()
    assert breaches(made(forecast(0), bad), replace(STRICT, elastic=True)) == ()
    assert breaches(made(forecast(0), bad), Tolerance()) == ()
    approximate = told(Answer.EXACT, series(*PEAK * 9), 300, 5, kind=QuotaType.REQUEST)
    assert approximate.verdict is Verdict.WORSE
    assert breaches(approximate, Tolerance(new_throttled_ms_per_day=0)) == ()


@pytest.mark.parametrize(
    ("kind", "limit", "bound"),
    [
        (QuotaType.FETCH, 500, Bound.AT_LEAST),
        (QuotaType.PRODUCE, 500, Bound.EXACT),
        (QuotaType.FETCH, 5_000, Bound.EXACT),
    ],
)
def test_a_forecast_that_delays_consumers_is_a_lower_bound_because_they_get_less_than_their_limit(
    kind: QuotaType, limit: int, bound: Bound
) -> None:
    rates = [1_000, 1_000, *[0] * 20]
    samples = [
        Sample(
            ts_ms=at * 10_000, dt_ms=10_000, rate_units=rate, throttle_ms=0, censored=Censored.NO
        )
        for at, rate in enumerate(rates, 1)
    ]
    found = impact(
        kind, Answer.EXACT, [Part(samples=samples, limit=None)], limit, max_gap_ms=50_000
    )
    assert found.bound is bound
