"""Sizing: each broker separately, each rule, insufficient evidence, and proof on an unseen week."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.usage.recommendation.limit_sizes import (
    BATCH,
    GOLD,
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


@pytest.fixture(scope="module")
def advised(usual):
    return recommend(case(usual), SILVER)


def test_the_target_satisfies_the_promise_on_training_and_test_data(advised):
    assert advised.advice is Advice.CHANGE
    assert advised.train_share_ppm <= SILVER.share_ppm
    assert advised.test_share_ppm <= 2 * SILVER.share_ppm
    assert advised.lower_units <= advised.needed_units <= advised.upper_units
    assert advised.worst_week_units >= advised.needed_units * 99 // 100
    assert advised.target_units >= advised.needed_units * 115 // 100
    assert advised.target_units <= advised.needed_units * 116 // 100
    assert (advised.confidence_ppm, advised.samples) == (1_000_000, DAYS * 288)
    assert (advised.evidence_ms, advised.rules, advised.censored_ppm) == (END, (), 0)


def test_the_needed_limit_is_the_smallest_within_a_hundredth(usual, advised):
    train = trial(QuotaType.PRODUCE, [usual], 0, END - WEEK_MS, GAP)
    recent = trial(QuotaType.PRODUCE, [usual], END - 2 * WEEK_MS, END - WEEK_MS, GAP)
    promise = ThrottlePromise(share_ppm=SILVER.share_ppm, max_delay_ms=SILVER.max_delay_ms)
    assert train.keeps(advised.needed_units, promise)
    less = advised.needed_units * 98 // 100
    assert not (train.keeps(less, promise) and recent.keeps(less, promise))


def test_every_broker_is_simulated_separately():
    """Leadership rotates: each broker is busy a third of the time, at different times."""
    rotating = [
        [
            sample._replace(rate_units=sample.rate_units if (k // 12) % 3 == n else 0)
            for k, sample in enumerate(week(5))
        ]
        for n in range(3)
    ]
    together = recommend(case(*rotating), SILVER)
    alone = max(recommend(case(series), SILVER).needed_units for series in rotating)
    assert abs(together.needed_units - alone) <= alone // 100  # each has separate candidates
    merged = recommend(case(week(5)), SILVER)  # the largest of the brokers at each time
    assert together.needed_units < merged.needed_units


def test_the_test_week_is_never_used_for_sizing(usual):
    wild = [
        sample
        if sample.ts_ms < END - WEEK_MS
        else sample._replace(rate_units=20 * sample.rate_units)
        for sample in usual
    ]
    calm, result = recommend(case(usual), SILVER), recommend(case(wild), SILVER)
    assert (result.target_units, result.peak_units) == (calm.target_units, calm.peak_units)
    assert result.advice is Advice.REFUSED
    assert result.test_share_ppm > 2 * SILVER.share_ppm


@pytest.mark.parametrize(("spikes", "advice"), [(20, Advice.CHANGE), (21, Advice.REFUSED)])
def test_a_limit_may_exceed_its_share_twofold_in_the_test_week(usual, advised, spikes, advice):
    """Of 2016 samples of the week, twenty are within twice the half percent of silver."""
    held_out = [sample for sample in usual if sample.ts_ms >= END - WEEK_MS]
    spiked = {sample.ts_ms for sample in held_out[10 : 10 + 3 * spikes : 3]}
    series = [
        sample
        if sample.ts_ms < END - WEEK_MS
        else sample._replace(
            rate_units=advised.target_units * 19 // 10 if sample.ts_ms in spiked else 0
        )
        for sample in usual
    ]
    result = recommend(case(series), SILVER)
    assert result.test_share_ppm == -(-spikes * 1_000_000 // 2016)
    assert result.advice is advice


def test_the_last_week_before_the_test_week_is_sized_separately(usual):
    recent = range(END - 2 * WEEK_MS, END - WEEK_MS)
    rising = [
        sample._replace(rate_units=2 * sample.rate_units) if sample.ts_ms in recent else sample
        for sample in usual
    ]
    result = recommend(case(rising), BATCH)
    promise = ThrottlePromise(share_ppm=BATCH.share_ppm)
    diluted = trial(QuotaType.PRODUCE, [rising], 0, END - WEEK_MS, GAP).smallest(promise)
    assert result.needed_units == result.worst_week_units > diluted


@pytest.mark.parametrize(
    ("series", "to_ms"),
    [
        pytest.param([], END, id="no samples"),
        pytest.param(week(1, days=13), END, id="not a fortnight"),
        pytest.param(week(1)[::70], END, id="not a hundred samples"),
        pytest.param(
            [sample._replace(dt_ms=10_000) for sample in week(1)[::4]],
            END,
            id="four hours in three weeks",
        ),
        pytest.param(
            [sample._replace(rate_units=0) for sample in week(1)], END, id="nothing was used"
        ),
        pytest.param(week(1), END + WEEK_MS, id="no week to prove it"),
    ],
)
def test_insufficient_evidence_is_reported(series, to_ms):
    result = recommend(case(series, to_ms=to_ms), SILVER)
    assert result.advice is Advice.INSUFFICIENT
    assert (result.target_units, result.train_share_ppm, result.test_share_ppm) == (
        None,
        None,
        None,
    )


def test_a_stricter_tier_needs_no_less(usual):
    needs = [recommend(case(usual), tier).needed_units for tier in (BATCH, SILVER, GOLD)]
    assert needs == sorted(needs)


def test_a_pinned_limit_is_only_reported(usual, advised):
    result = recommend(case(usual, pinned=True, current=1), SILVER)
    assert (result.advice, result.target_units) == (Advice.KEEP, advised.target_units)


def test_a_limit_close_to_the_target_is_kept_and_verified(usual, advised):
    current = advised.target_units * 105 // 100
    result = recommend(case(usual, current=current), SILVER)
    assert (result.advice, result.target_units, result.rules) == (
        Advice.KEEP,
        current,
        (SizingRule.IGNORED,),
    )
    assert result.train_share_ppm <= SILVER.share_ppm


# ---- the rules -------------------------------------------------------------------------------

PLAIN = Tier(name="plain", share_ppm=5_000, max_delay_ms=None)
EMPTY = case()


RULES = """
                                     |      |                   |      0 | 1150 |                  | margin
margin_percent=0                     |      |                   |      0 | 1000 |                  | no margin
                                     |      |                   |  5_000 | 1150 |                  | censored, within the share
                                     |      |                   |  5_001 | 1380 | BUMP             | censored
                                     |      | bumped            |  5_001 | 1150 |                  | raised once, not twice
                                     | 1380 | bumped            |  5_001 | 1380 | IGNORED          | a raised limit is kept
                                     | 1380 | bumped            |  5_000 | 1150 |                  | not censored any more
                                     | 9000 | bumped            |  5_001 | 4500 | CUT              | far above the raised limit
                                     | 2000 | bumped            |  5_001 | 1380 |                  | kept up to the maximum raise
                                     |  900 | bumped            |  5_001 | 1150 |                  | raised, and more is needed now
ceiling=1200                         | 1380 | bumped            |  5_001 | 1200 | CEILING          | kept, not above the ceiling
                                     |      | pinned            |  5_001 | 1150 |                  | a pinned number is not raised
bump_percent=0                       |      |                   |  5_001 | 1150 |                  | a tier that is never raised
ceiling=1200                         |      |                   |  5_001 | 1200 | BUMP CEILING     | never above the ceiling
floor=4321                           |      |                   |      0 | 4330 | FLOOR            | floor
                                     |      | budget=1100       |      0 | 1100 | BUDGET           | budget
                                     |      | budget=1105       |      0 | 1100 | BUDGET           | rounded down to keep the budget
floor=1104                           |      | budget=1105       |      0 | 1105 | BUDGET           | not below the floor by rounding
floor=4321                           |      | budget=900        |      0 |  900 | FLOOR BUDGET     | the budget has precedence
                                     | 1046 |                   |      0 | 1046 | IGNORED          | hardly a change
ceiling=1200                         | 1250 |                   |      0 | 1150 |                  | hardly a change, and above the ceiling
                                     | 1210 | budget=1200       |      0 | 1150 |                  | hardly a change, and beyond the budget
ceiling=1200                         | 1200 |                   |      0 | 1200 | IGNORED          | hardly a change, at the ceiling
                                     | 1045 |                   |      0 | 1150 |                  | a tenth is a change
                                     | 10011|                   |      0 | 5010 | CUT              | halved at most
                                     | 10011| budget=100        |      0 | 5010 | BUDGET CUT       | even then
"""
"""Settings of the tier | current limit | marks of the case | censored ppm | target | rules | what it shows."""


def values(text: str) -> dict[str, object]:
    """Settings such as `floor=1` or, for true ones, their names."""
    pairs = (word.partition("=") for word in text.split())
    return {name: int(value) if value else True for name, _, value in pairs}


@pytest.mark.parametrize(
    "row",
    [pytest.param(line, id=line.split("|")[-1].strip()) for line in RULES.strip("\n").split("\n")],
)
def test_a_rule_gives_the_expected_target_for_a_need_of_a_thousand(row):
    tier, current, marks, censored_ppm, value, rules, _ = (cell.strip() for cell in row.split("|"))
    sizing = replace(EMPTY, current=int(current) if current else None, **values(marks))
    expected = int(value), tuple(SizingRule[name] for name in rules.split())
    assert priced(1000, replace(PLAIN, **values(tier)), sizing, int(censored_ppm)) == expected


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


def test_a_raised_limit_is_neither_lowered_nor_raised_again_on_the_next_day():
    """98 are needed, 5 % of the time is censored: merged or not, the next run gives the same number."""
    raised, rules = priced(98, PLAIN, replace(EMPTY, current=100), 50_000)
    assert (raised, rules) == (136, (SizingRule.BUMP,))
    merged = priced(98, PLAIN, replace(EMPTY, current=136, bumped=True), 50_000)
    assert merged == (136, (SizingRule.IGNORED,))
    assert priced(98, PLAIN, replace(EMPTY, current=100), 50_000)[0] == 136


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


def test_without_samples_no_limit_is_sought_and_nothing_is_throttled():
    nothing = trial(QuotaType.PRODUCE, [[]], 0, END, GAP)
    assert (nothing.peak, nothing.smallest(ThrottlePromise(share_ppm=1))) == (0, None)
    assert nothing.proof(1) == (0, None)


def test_a_proof_is_about_the_worst_broker():
    calm = [Sample(n * STEP, STEP, 10, 0, Censored.NO) for n in range(10)]
    hot = [sample._replace(rate_units=20 if n == 3 else 0) for n, sample in enumerate(calm)]
    assert trial(QuotaType.PRODUCE, [calm, hot], 0, END, GAP).proof(10) == (100_000, 300_000)
