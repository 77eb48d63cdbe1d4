"""Impacts: the possible verdicts on a new limit for each evidence, and what a policy refuses."""

from dataclasses import replace

import pytest

from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.fetches import UNSTATED, FetchSize
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactRequest
from reconciler.usage.impact.verdict import ImpactVerdict, Tolerance, ToleranceBreach, compared
from reconciler.usage.impact.what_if import breaches, row_of
from reconciler.usage.samples import DAY_MS, Censored, QuotaType
from reconciler.usage.tags import bucket_of
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


@pytest.mark.parametrize(
    ("answer", "samples", "now", "then", "verdict", "bound", "figure"),
    [
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK),
            300,
            150,
            ImpactVerdict.WORSE,
            FigureBound.EXACT,
            30_000,
            id="tighter",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK),
            None,
            150,
            ImpactVerdict.WORSE,
            FigureBound.EXACT,
            30_000,
            id="newly limited",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK),
            150,
            300,
            ImpactVerdict.BETTER,
            FigureBound.EXACT,
            0,
            id="looser",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK),
            150,
            None,
            ImpactVerdict.BETTER,
            FigureBound.EXACT,
            0,
            id="newly unlimited",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*CALM),
            300,
            150,
            ImpactVerdict.SAME,
            FigureBound.EXACT,
            0,
            id="never near",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK, censored=YES, throttle=9),
            200,
            150,
            ImpactVerdict.WORSE,
            FigureBound.AT_LEAST,
            30_000,
            id="censored and tighter",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK, censored=YES, throttle=9),
            150,
            180,
            ImpactVerdict.BETTER,
            FigureBound.AT_MOST,
            None,
            id="censored and looser: no number",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK, censored=YES, throttle=9),
            150,
            None,
            ImpactVerdict.BETTER,
            FigureBound.EXACT,
            0,
            id="censored and unlimited",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK, censored=YES, throttle=9),
            150,
            150,
            ImpactVerdict.SAME,
            FigureBound.AT_LEAST,
            30_000,
            id="censored and equal",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(*PEAK, censored=UNKNOWN),
            300,
            150,
            ImpactVerdict.WORSE,
            FigureBound.AT_LEAST,
            30_000,
            id="unknown whether censored",
        ),
        pytest.param(
            Identifiability.EXACT,
            series(200, 200, 200),
            300,
            50,
            ImpactVerdict.WORSE,
            FigureBound.AT_LEAST,
            180_000,
            id="a backlog at the end of the evidence",
        ),
        pytest.param(
            Identifiability.BOUND,
            series(*CALM),
            300,
            150,
            ImpactVerdict.SAFE_BY_BOUND,
            FigureBound.AT_MOST,
            0,
            id="bounded",
        ),
        pytest.param(
            Identifiability.BOUND,
            series(*PEAK),
            300,
            150,
            ImpactVerdict.NOT_IDENTIFIABLE,
            FigureBound.AT_MOST,
            None,
            id="over the bound",
        ),
        pytest.param(
            Identifiability.BOUND,
            series(*CALM, censored=UNKNOWN),
            300,
            150,
            ImpactVerdict.NOT_IDENTIFIABLE,
            FigureBound.AT_MOST,
            None,
            id="a bound of censored rates is not a bound",
        ),
        pytest.param(
            Identifiability.BOUND,
            series(*PEAK, censored=YES),
            150,
            None,
            ImpactVerdict.SAFE_BY_BOUND,
            FigureBound.AT_MOST,
            0,
            id="an absent limit is safe for any demand",
        ),
        pytest.param(
            Identifiability.NOT_IDENTIFIABLE,
            series(*CALM),
            300,
            150,
            ImpactVerdict.NOT_IDENTIFIABLE,
            FigureBound.EXACT,
            None,
            id="unknown",
        ),
        pytest.param(
            Identifiability.NO_DATA,
            [],
            300,
            150,
            ImpactVerdict.NO_DATA,
            FigureBound.EXACT,
            None,
            id="unseen",
        ),
        pytest.param(
            Identifiability.EXACT,
            [],
            300,
            150,
            ImpactVerdict.NO_DATA,
            FigureBound.EXACT,
            None,
            id="an empty window",
        ),
    ],
)
def test_evidence_gives_the_expected_verdict_and_bound(
    answer, samples, now, then, *, verdict, bound, figure
):
    result = impact_of(answer, samples, now, then)
    assert (result.verdict, result.bound) == (verdict, bound)
    assert (result.after and result.after.throttled_ms) == figure


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


@pytest.mark.parametrize(
    ("fetch", "limit", "bound", "throttled_ms"),
    [
        (UNSTATED, 500, FigureBound.BETWEEN, (30_000, 70_000)),
        (UNSTATED, 5_000, FigureBound.EXACT, (0, None)),
        (FetchSize(least_bytes=500, most_bytes=500), 500, FigureBound.EXACT, (40_000, None)),
        (None, 500, FigureBound.EXACT, (30_000, None)),
    ],
)
def test_without_a_stated_fetch_size_the_forecast_of_consumers_is_an_interval(
    fetch: FetchSize | None, limit: int, bound: FigureBound, throttled_ms: tuple[int, int | None]
) -> None:
    kind = QuotaType.PRODUCE if fetch is None else QuotaType.FETCH
    rates = [1_000, 1_000, *[0] * 20]
    samples = [
        Sample(
            ts_ms=at * 10_000, dt_ms=10_000, rate_units=rate, throttle_ms=0, censored=Censored.NO
        )
        for at, rate in enumerate(rates, 1)
    ]
    result = impact(
        kind,
        Identifiability.EXACT,
        [OldBucket(samples=samples, limit=None)],
        limit,
        max_gap_ms=50_000,
        fetch=fetch,
    )
    assert result.bound is bound
    assert result.after is not None
    worst = result.worst.throttled_ms if result.worst else None
    assert (result.after.throttled_ms, worst) == throttled_ms


def test_a_limit_that_is_worse_only_in_the_worst_case_is_worse() -> None:
    samples = series(*[100] * 20, 130, *[95] * 60, *[0] * 40)
    part = OldBucket(samples=samples, limit=None, fetch=UNSTATED)
    result = impact(
        QuotaType.FETCH, Identifiability.EXACT, [part], 128, max_gap_ms=150_000, fetch=UNSTATED
    )
    assert result.after is not None
    assert result.worst is not None
    assert (result.after.throttled_ms, result.verdict) == (0, ImpactVerdict.WORSE)
    assert result.worst.throttled_ms > 60 * 30_000


def test_a_higher_limit_for_the_same_consumers_is_never_worse() -> None:
    part = OldBucket(samples=series(*[90] * 20, *[40] * 60), limit=70, fetch=UNSTATED)
    result = impact(
        QuotaType.FETCH, Identifiability.EXACT, [part], 75, max_gap_ms=150_000, fetch=UNSTATED
    )
    assert result.verdict in {ImpactVerdict.BETTER, ImpactVerdict.SAME}
