"""Sizing: each broker separately, each rule, insufficient evidence, and proof on an unseen week."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.recommendation.limit_sizes import (
    SILVER,
    WEEK_MS,
    Advice,
    SizingRule,
    Tier,
    priced,
)
from reconciler.usage.recommendation.trial import ThrottlePromise
from reconciler.usage.samples import DAY_MS, Censored, QuotaType
from tests.hypothesis_profiles import count_examples
from tests.usage.recorded import SizingCase, recommend, trial
from tests.usage.reference import Sample

STEP = 300_000
GAP = 300_000
DAYS = 21
END = DAYS * DAY_MS


def week(
    seed: int, *, days: int = DAYS, scale: int = 1_000_000, censored=Censored.NO, begin: int = 0
):
    """Rates with a daily cycle and noise, five minutes apart."""
    chance = random.Random(seed)
    samples = []
    for n in range(days * DAY_MS // STEP):
        day = 1 + 0.5 * ((n * STEP % DAY_MS) / DAY_MS > 0.5)
        rate = int(scale * day * chance.lognormvariate(0, 0.3))
        samples.append(Sample(begin + (n + 1) * STEP - 1, STEP, rate, 0, censored))
    return samples


def case(*series, **more) -> SizingCase:
    arguments = {"from_ms": 0, "to_ms": END, "max_gap_ms": GAP, **more}
    return SizingCase(
        kind=QuotaType.PRODUCE,
        series={str(n): samples for n, samples in enumerate(series)},
        **arguments,
    )


@pytest.fixture(scope="module")
def usual():
    return week(1)


def test_the_test_week_is_never_used_for_sizing(usual):
    wild = [
        sample
        if sample.ts_ms < END - WEEK_MS
        else sample._replace(rate_units=20 * sample.rate_units)
        for sample in usual
    ]
    calm, result = recommend(case(usual), SILVER), recommend(case(wild), SILVER)
    assert (result.target, result.peak) == (calm.target, calm.peak)
    assert result.advice is Advice.REFUSED
    assert result.test.share_ppm > 2 * SILVER.share_ppm


# ---- the rules -------------------------------------------------------------------------------

PLAIN = Tier(name="plain", share_ppm=5_000, max_delay_ms=None)
EMPTY = case()


@given(
    st.integers(1, 10**12),
    st.integers(1, 10**12),
    st.one_of(st.none(), st.integers(1, 10**12)),
    st.integers(0, 10**6),
)
def test_a_raised_limit_is_not_raised_again_for_the_same_window(
    needed, current, budget, censored_ppm
):
    """A limit that was raised for a window is not raised again for the same window."""
    once, _ = priced(needed, PLAIN, replace(EMPTY, current=current, budget=budget), censored_ppm)
    again, rules = priced(
        needed, PLAIN, replace(EMPTY, current=once, budget=budget, bumped=True), censored_ppm
    )
    assert again <= once or SizingRule.BUMP not in rules


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_a_kept_limit_is_within_budget_and_ceiling(needed, current):
    tier = replace(PLAIN, ceiling=10**11)
    target, rules = priced(needed, tier, replace(EMPTY, current=current, budget=10**11), 0)
    assert target <= 10**11 or SizingRule.CUT in rules


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_no_target_exceeds_the_budget_unless_a_cut_is_limited_to_steps(needed, budget):
    target, rules = priced(needed, PLAIN, replace(EMPTY, budget=budget), 0)
    assert target <= budget
    assert SizingRule.CUT not in rules


@pytest.mark.parametrize(
    "wrong",
    [
        {"share_ppm": 0},
        {"share_ppm": 1_000_001},
        {"max_delay_ms": -1},
        {"margin_percent": -1},
        {"cut_percent": 0},
        {"cut_percent": 101},
        {"floor": 0},
        {"floor": 5, "ceiling": 4},
    ],
)
def test_a_tier_with_an_invalid_promise_is_rejected(wrong):
    with pytest.raises(QuotaValueError, match="tier plain"):
        replace(PLAIN, **wrong)


@settings(max_examples=count_examples(40))
@given(
    st.lists(st.integers(0, 1000), min_size=30, max_size=30),
    st.integers(1, 1200),
    st.integers(1, 10**6),
)
def test_a_promise_that_a_limit_keeps_is_kept_by_a_higher_one(rates, limit, share):
    samples = [Sample(n * STEP, STEP, rate, 0, Censored.NO) for n, rate in enumerate(rates)]
    tried = trial(QuotaType.PRODUCE, [samples, samples[:7]], 0, END, GAP)
    promise = ThrottlePromise(share_ppm=share, parts=2, max_delay_ms=60_000)
    if tried.keeps(limit, promise):
        assert tried.keeps(limit + 1, promise)
        assert tried.keeps(2 * limit, promise)


def test_a_trial_without_samples_has_no_result():
    nothing = trial(QuotaType.PRODUCE, [[]], 0, END, GAP)
    assert (nothing.peak, nothing.smallest(ThrottlePromise(share_ppm=1)), nothing.proof(1)) == (
        0,
        None,
        None,
    )
