"""Impacts: the possible verdicts on a new limit for each evidence, and what a policy refuses."""

from dataclasses import replace

import pytest

from reconciler.usage.clients import UNSTATED_CONSUMERS, Clients, Span
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactRequest
from reconciler.usage.impact.verdict import (
    HIDDEN_BURSTS,
    REQUESTS_UNSTATED,
    TOO_MANY_REQUESTS,
    BucketImpact,
    ImpactVerdict,
    Tolerance,
    ToleranceBreach,
    compared,
)
from reconciler.usage.impact.what_if import breaches, row_of
from reconciler.usage.kernel import request_replay
from reconciler.usage.samples import DAY_MS, Censored, QuotaType
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle_models import FigureBound
from tests.usage.recorded import OldBucket, impact
from tests.usage.reference import Sample

GAP = 150_000
STEP = 30_000
NO, YES, UNKNOWN = Censored.NO, Censored.YES, Censored.UNKNOWN


def series(*rates, censored=NO, throttle=0):
    return [
        Sample(n * STEP, STEP, rate, throttle, censored) for n, rate in enumerate((*rates, 0, 0, 0))
    ]


PEAK = (10, 200, 10)
CALM = (10, 10, 10)


def impact_of(answer, samples, now, then, *, kind=QuotaType.PRODUCE):
    return impact(kind, answer, [OldBucket(samples=samples, limit=now)], then, max_gap_ms=GAP)


SAMPLES = {
    "peak": series(*PEAK),
    "calm": series(*CALM),
    "throttled peak": series(*PEAK, censored=YES, throttle=9),
    "unknown peak": series(*PEAK, censored=UNKNOWN),
    "high": series(200, 200, 200),
    "unknown calm": series(*CALM, censored=UNKNOWN),
    "censored peak": series(*PEAK, censored=YES),
    "none": [],
}
CASES = """\
case                                     | evidence         | samples        | now  | then | verdict          | bound    | ms
tighter                                  | EXACT            | peak           | 300  | 150  | WORSE            | EXACT    | 30000
newly limited                            | EXACT            | peak           | None | 150  | WORSE            | EXACT    | 30000
looser                                   | EXACT            | peak           | 150  | 300  | BETTER           | EXACT    | 0
newly unlimited                          | EXACT            | peak           | 150  | None | BETTER           | EXACT    | 0
never near                               | EXACT            | calm           | 300  | 150  | SAME             | EXACT    | 0
censored and tighter                     | EXACT            | throttled peak | 200  | 150  | WORSE            | AT_LEAST | 30000
censored and looser: no number           | EXACT            | throttled peak | 150  | 180  | BETTER           | AT_MOST  | -
censored and unlimited                   | EXACT            | throttled peak | 150  | None | BETTER           | EXACT    | 0
censored and equal                       | EXACT            | throttled peak | 150  | 150  | SAME             | AT_LEAST | 30000
unknown whether censored                 | EXACT            | unknown peak   | 300  | 150  | WORSE            | AT_LEAST | 30000
a backlog at the end of the evidence     | EXACT            | high           | 300  | 50   | WORSE            | AT_LEAST | 180000
bounded                                  | BOUND            | calm           | 300  | 150  | SAFE_BY_BOUND    | AT_MOST  | 0
over the bound                           | BOUND            | peak           | 300  | 150  | NOT_IDENTIFIABLE | AT_MOST  | -
a bound of censored rates is not a bound | BOUND            | unknown calm   | 300  | 150  | NOT_IDENTIFIABLE | AT_MOST  | -
an absent limit is safe for any demand   | BOUND            | censored peak  | 150  | None | SAFE_BY_BOUND    | AT_MOST  | 0
unknown                                  | NOT_IDENTIFIABLE | calm           | 300  | 150  | NOT_IDENTIFIABLE | EXACT    | -
unseen                                   | NO_DATA          | none           | 300  | 150  | NO_DATA          | EXACT    | -
an empty window                          | EXACT            | none           | 300  | 150  | NO_DATA          | EXACT    | -
"""
ROWS = [tuple(map(str.strip, line.split("|"))) for line in CASES.splitlines()[1:]]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_evidence_gives_the_expected_verdict_and_bound(row):
    _, evidence, samples, now, then, verdict, bound, throttled_ms = row
    limits = (None if limit == "None" else int(limit) for limit in (now, then))
    result = impact_of(Identifiability[evidence], SAMPLES[samples], *limits)
    assert (result.verdict, result.bound) == (ImpactVerdict[verdict], FigureBound[bound])
    assert str(result.after.throttled_ms if result.after else "-") == throttled_ms


def test_an_impact_without_series_has_no_data():
    result = impact(QuotaType.PRODUCE, Identifiability.NO_DATA, [], 5, max_gap_ms=GAP)
    assert (result.verdict, result.before, result.observed_throttled_ms) == (
        ImpactVerdict.NO_DATA,
        None,
        None,
    )


def test_the_observed_figures_are_shown_beside_the_simulated_ones():
    result = impact_of(Identifiability.EXACT, series(*PEAK, censored=YES, throttle=9), 150, 100)
    assert result.before.throttled_ms == 30_000
    assert result.observed_throttled_ms == result.censored_ms == result.covered_ms == 6 * STEP


def test_the_sum_of_several_series_is_compared_with_the_worst_of_them():
    parts = [
        OldBucket(samples=series(90, 90), limit=80),
        OldBucket(samples=series(80, 80), limit=None),
    ]
    result = impact(QuotaType.PRODUCE, Identifiability.EXACT, parts, 150, max_gap_ms=GAP)
    assert result.after.max_delay_ms == 8_000  # 2 * 20 * 30 s over 150
    assert result.before.max_delay_ms == 7_500  # 2 * 10 * 30 s over 80
    assert result.covered_ms == 5 * STEP


def forecast(throttled, delay=0, covered=DAY_MS, **more):
    base = impact_of(Identifiability.EXACT, series(1), None, 5).after
    return replace(base, throttled_ms=throttled, max_delay_ms=delay, covered_ms=covered, **more)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (0, 60_000, ImpactVerdict.SAME),
        (0, 60_001, ImpactVerdict.WORSE),
        (60_001, 0, ImpactVerdict.BETTER),
        (1_000_000, 1_100_000, ImpactVerdict.SAME),
        (1_000_000, 1_100_001, ImpactVerdict.WORSE),
        (1_000_000, 899_999, ImpactVerdict.BETTER),
    ],
)
def test_a_difference_counts_above_a_minute_per_day_and_a_tenth(before, after, verdict):
    assert compared(forecast(before), forecast(after)) is verdict


STRICT = Tolerance(new_throttled_ms_per_day=600_000, max_delay_ms=60_000)


def row(bucket_impact, kind=QuotaType.PRODUCE):
    request = ImpactRequest(
        quota_type=kind,
        bucket=bucket_of("alice"),
        any_name=False,
        broker_id="1",
        answer=Identifiability.EXACT,
        parts=(),
        before_units=300,
        after_units=150,
        source_entity="",
        reason="",
    )
    return row_of("c", request, bucket_impact)


def impact_row(before, after, verdict=ImpactVerdict.WORSE, covered=DAY_MS):
    base = impact_of(Identifiability.EXACT, series(*CALM), 300, 150)
    figures = {"before": before, "after": after, "verdict": verdict, "covered_ms": covered}
    return row(replace(base, **figures))


def test_a_policy_refuses_a_change_that_makes_use_worse():
    assert breaches(impact_row(forecast(0), forecast(600_000, 60_000)), STRICT) == ()
    assert breaches(impact_row(forecast(0), forecast(600_001, 60_001)), STRICT) == (
        ToleranceBreach(what="newly throttled per day", found_ms=600_001, allowed_ms=600_000),
        ToleranceBreach(what="worst delay", found_ms=60_001, allowed_ms=60_000),
    )
    week = impact_row(forecast(0), forecast(700_000), covered=7 * DAY_MS)
    assert breaches(week, STRICT) == ()


def test_a_policy_does_not_refuse_an_existing_delay():
    assert breaches(impact_row(forecast(0, 90_000), forecast(100_000, 90_000)), STRICT) == ()


def test_a_policy_refuses_only_known_figures():
    bad = forecast(10**7, 10**6)
    for verdict in set(ImpactVerdict) - {ImpactVerdict.WORSE}:
        assert breaches(impact_row(forecast(0), bad, verdict), STRICT) == ()
    assert breaches(impact_row(forecast(0), None), STRICT) == ()
    assert breaches(impact_row(None, bad), STRICT) == ()
    assert breaches(impact_row(forecast(0), bad), replace(STRICT, elastic=True)) == ()
    assert breaches(impact_row(forecast(0), bad), Tolerance()) == ()
    approximate = impact_of(
        Identifiability.EXACT, series(*PEAK * 9), 300, 5, kind=QuotaType.REQUEST
    )
    assert approximate.verdict is ImpactVerdict.WORSE
    assert (
        breaches(row(approximate, QuotaType.REQUEST), Tolerance(new_throttled_ms_per_day=0)) == ()
    )


def of_rates(*rates: int) -> list[Sample]:
    return [
        Sample(
            ts_ms=at * 10_000, dt_ms=10_000, rate_units=rate, throttle_ms=0, censored=Censored.NO
        )
        for at, rate in enumerate(rates, 1)
    ]


def stated(fetch: int, connections: int = 1) -> Clients:
    return Clients(
        is_produce=False,
        connections=Span(connections, connections),
        most_bytes=Span(fetch, fetch),
        part_bytes=Span(0, 0),
    )


def consumers(samples: list[Sample], limit: int, clients: Clients | None) -> BucketImpact:
    return impact(
        QuotaType.FETCH,
        Identifiability.EXACT,
        [OldBucket(samples=samples, limit=None, clients=clients)],
        limit,
        max_gap_ms=50_000,
        clients=clients,
    )


QUARTER = of_rates(*[100_000] * 10, *[250_000] * 15, *[100_000] * 65)


@pytest.mark.parametrize(
    ("clients", "samples", "limit", "bound", "why"),
    [
        (UNSTATED_CONSUMERS, QUARTER, 200_000, FigureBound.BETWEEN, REQUESTS_UNSTATED),
        (UNSTATED_CONSUMERS, QUARTER, 2_000_000, FigureBound.EXACT, ""),
        (stated(20_000), QUARTER, 200_000, FigureBound.EXACT, ""),
        (stated(20_000), of_rates(0, 0, 150, 0, 0), 60, FigureBound.BETWEEN, HIDDEN_BURSTS),
        (stated(20_000), of_rates(0, 0, 150, 0, 0), 80, FigureBound.BETWEEN, HIDDEN_BURSTS),
        (stated(20_000), of_rates(0, 0, 150, 0, 0), 100, FigureBound.BETWEEN, HIDDEN_BURSTS),
        (None, QUARTER, 200_000, FigureBound.EXACT, ""),
    ],
)
def test_there_is_one_figure_if_all_is_stated_and_readings_hide_nothing(
    clients: Clients | None, samples: list[Sample], limit: int, bound: FigureBound, why: str
) -> None:
    result = consumers(samples, limit, clients)
    assert (result.bound, result.reason) == (bound, why)
    assert result.after is not None
    if bound is FigureBound.BETWEEN:
        assert result.worst is not None
        assert result.after.throttled_ms < result.worst.throttled_ms
    else:
        assert result.worst is None


def test_the_interval_of_unstated_consumers_contains_what_stated_ones_get() -> None:
    unstated = consumers(QUARTER, 200_000, UNSTATED_CONSUMERS)
    assert unstated.after is not None
    assert unstated.worst is not None
    for fetch in (70_000, 1_000_000, 50_000_000):
        for connections in (1, 4):
            stated_forecast = consumers(QUARTER, 200_000, stated(fetch, connections)).after
            assert stated_forecast is not None
            least, most = unstated.after, unstated.worst
            assert least.throttled_ms <= stated_forecast.throttled_ms <= most.throttled_ms * 1.01
            assert (
                (least.max_delay_ms or 0)
                <= (stated_forecast.max_delay_ms or 0)
                <= (most.max_delay_ms or 0)
            )


def test_a_limit_that_is_worse_only_in_the_worst_case_is_worse_and_not_refused() -> None:
    result = consumers(QUARTER, 248_000, UNSTATED_CONSUMERS)
    assert result.after is not None
    assert result.worst is not None
    assert (result.after.throttled_ms, result.verdict) == (0, ImpactVerdict.WORSE)
    assert result.worst.throttled_ms > 60_000
    assert breaches(row(result, QuotaType.FETCH), Tolerance(new_throttled_ms_per_day=0)) == ()


def test_requests_beyond_the_bound_are_replaced_by_the_closed_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complete = consumers(QUARTER, 200_000, stated(20_000))
    monkeypatch.setattr(request_replay, "MOST_STEPS", 300)
    result = consumers(QUARTER, 200_000, stated(20_000))
    assert result.reason == TOO_MANY_REQUESTS
    assert result.after is not None
    assert complete.after is not None
    assert result.after.throttled_ms == pytest.approx(complete.after.throttled_ms, rel=0.2)


def test_a_higher_limit_for_the_same_consumers_is_never_worse() -> None:
    samples = of_rates(*[90_000] * 60, *[40_000] * 180)
    part = OldBucket(samples=samples, limit=70_000, clients=UNSTATED_CONSUMERS)
    result = impact(
        QuotaType.FETCH,
        Identifiability.EXACT,
        [part],
        75_000,
        max_gap_ms=50_000,
        clients=UNSTATED_CONSUMERS,
    )
    assert result.verdict in {ImpactVerdict.BETTER, ImpactVerdict.SAME}
