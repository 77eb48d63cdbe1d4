"""Rows made into tenants and into what is shown: the worst broker, the worst tenant first, and what the policy refuses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import entity
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.usage.demand_bounds import FigureBound
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactQuery
from reconciler.usage.impact.result_rows import (
    BLIND,
    EvidenceNote,
    ImpactRow,
    Simulation,
    verdicts_of,
)
from reconciler.usage.impact.tier_policy import (
    USUAL,
    ElasticHandling,
    TierRule,
    WhatIfPolicy,
)
from reconciler.usage.impact.verdict import ImpactVerdict, Tolerance
from reconciler.usage.impact.what_if import portions, summarize, tenants, unread
from reconciler.usage.recommendation.limit_sizes import GOLD
from reconciler.usage.samples import DAY_MS, QuotaType
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle_models import ThrottleModel
from tests.usage.recorded import judged
from tests.usage.whatif_cases import CADENCE, case

MINUTE = 60_000
STRICT = Tolerance(new_throttled_ms_per_day=10 * MINUTE, max_delay_ms=MINUTE)
POLICY = WhatIfPolicy(usual=replace(USUAL[1], tolerance=STRICT))


def row(
    user="alice", broker="1", verdict=ImpactVerdict.WORSE, after=20 * MINUTE, **more
) -> ImpactRow:
    made = ImpactRow(
        cluster_id="c1",
        quota_type=QuotaType.PRODUCE,
        bucket=bucket_of(user),
        any_name=False,
        broker_id=broker,
        before_units=100,
        after_units=50,
        source_entity="",
        answer=Identifiability.EXACT,
        verdict=verdict,
        bound=FigureBound.EXACT,
        model=ThrottleModel.BACKLOG,
        before_throttled_ms=0,
        before_max_delay_ms=0,
        observed_throttled_ms=0,
        after_throttled_ms=after,
        after_max_delay_ms=5_000,
        after_over_timeout_ms=0,
        delayed_units=1,
        unfinished=0,
        covered_ms=DAY_MS,
        censored_ms=0,
        why="",
    )
    return replace(made, **more)


EVIDENCE = EvidenceNote(cluster_id="c1")


def shown(rows, policy=POLICY, **more):
    return summarize(rows, [EVIDENCE], policy, **more)


def test_a_tenant_is_its_worst_broker_and_how_many():
    found = tenants(
        [
            row(broker="1"),
            row(broker="3", after=50 * MINUTE),
            row(broker="2", after=0),
            row("bob", "", ImpactVerdict.NO_DATA, None),
        ]
    )
    assert [(one.worst.broker_id, one.brokers, one.throttled) for one in found] == [
        ("3", 3, 2),
        ("", 0, 0),
    ]


@given(st.integers(0, 100_000))
def test_a_tenant_is_its_worst_broker_and_how_many_there_are(number):
    one = case(number)
    rows = judged(one.question, one.series, CADENCE)
    for found in tenants(rows):
        group = [
            each
            for each in rows
            if (each.quota_type, each.bucket, each.any_name)
            == (found.worst.quota_type, found.worst.bucket, found.worst.any_name)
        ]
        ranks = {
            each.broker_id: (
                each.severity,
                each.after_throttled_ms or 0,
                each.after_max_delay_ms or 0,
            )
            for each in group
        }
        worst = max(ranks.values())
        assert found.worst.broker_id == min(name for name in ranks if ranks[name] == worst)
        assert found.brokers == sum(bool(name) for name in ranks)
        assert found.throttled == sum((each.after_throttled_ms or 0) > 0 for each in group)


@given(st.integers(0, 100_000), st.integers(1, 12))
def test_no_row_vanishes_and_a_tenant_is_never_cut(number, most):
    one = case(number)
    rows = judged(one.question, one.series, CADENCE)
    found = shown(rows, questions=[one.question], max_rows=most)
    assert len(found.rows) + found.left_out == len(rows)
    whole = {each.worst: each for each in tenants(rows)}
    assert all(whole[each.worst] == each for each in tenants(found.rows))
    assert found.enough == all(each.judged for each in rows)
    assert found.verdicts == verdicts_of(rows)
    assert found.blind == sum(not each.judged for each in rows)
    assert found.may_be_worse == sum(each.may_be_worse for each in rows)


def test_what_the_policy_refuses_is_shown_first_and_once_for_each_figure():
    calm = [row(f"u{n}", after=60 * MINUTE, before_throttled_ms=55 * MINUTE) for n in range(9)]
    found = shown([*calm, row(broker="1"), row(broker="2", after=21 * MINUTE)], max_rows=2)
    assert [one.bucket.user for one in found.rows] == ["alice", "alice"]
    (breach,) = found.breaches
    assert (breach.row.broker_id, breach.tier, breach.breach.found_ms) == (
        "2",
        "silver",
        21 * MINUTE,
    )
    assert found.left_out == 9


HELD_BACK = {
    "verdict": ImpactVerdict.SAME,
    "bound": FigureBound.AT_LEAST,
    "after": 0,
    "observed_throttled_ms": 20 * 60 * MINUTE,
    "censored_ms": 20 * 60 * MINUTE,
}


def test_the_same_of_a_client_that_was_held_back_is_no_verdict_on_a_tighter_limit():
    held = row(broker="2", **HELD_BACK)
    assert held.may_be_worse
    assert not held.judged
    for more in (
        {"after_units": 100},  # the same limit does what it does
        {"after_units": 200},
        {"after_units": None},
        {"bound": FigureBound.EXACT},
        {"verdict": ImpactVerdict.WORSE},
        {"observed_throttled_ms": 0, "censored_ms": MINUTE},  # a minute a day is nothing
    ):
        assert not replace(held, **more).may_be_worse, more
    assert replace(held, before_units=None).may_be_worse
    assert replace(held, observed_throttled_ms=None, censored_ms=MINUTE + 1).may_be_worse


def test_of_the_brokers_of_a_tenant_the_one_that_may_be_worse_speaks_and_asks_for_a_look():
    calm, better = (
        row(verdict=ImpactVerdict.SAME, after=0),
        row("bob", verdict=ImpactVerdict.BETTER, after=0),
    )
    held = row(broker="2", **HELD_BACK)
    found = shown([better, calm, held])
    assert [one.worst.broker_id for one in tenants(found.rows)] == ["2", "1"]
    assert (found.blind, found.may_be_worse, found.enough) == (1, 1, False)
    cut = shown([row("bob"), calm, held], max_rows=1)
    assert (cut.left_out, cut.left_blind, cut.may_be_worse, cut.enough) == (2, 1, 1, False)


def test_counts_that_contradict_the_rows_cannot_be_built():
    for more in (
        {"left_out": 1},
        {"verdicts": {ImpactVerdict.WORSE: 2}},
        {"left_out": 1, "verdicts": {ImpactVerdict.SAME: 2}},
        {"left_out": 1, "left_blind": 1, "verdicts": {ImpactVerdict.WORSE: 2}},
        {"left_out": 1, "verdicts": {ImpactVerdict.WORSE: 1, ImpactVerdict.NO_DATA: 1}},
    ):
        with pytest.raises(QuotaValueError):
            Simulation(evidence=(), rows=(row(),), **more)


def test_a_tier_decides_what_is_refused():
    gold = TierRule(
        name="gold",
        tolerance=Tolerance(max_delay_ms=1_000),
        tier=GOLD,
        entities=(EntityPattern(user=NamePattern(exact="alice")),),
    )
    policy = WhatIfPolicy(rules=(gold, *USUAL[1:]))
    found = shown([row(), row("bob")], policy)
    assert [(one.tier, one.breach.what, one.breach.allowed_ms) for one in found.breaches] == [
        ("gold", "worst delay", 1_000)
    ]


def test_consumers_are_shown_and_never_refused_or_only_counted():
    fetch = row(quota_type=QuotaType.FETCH)
    found = shown([fetch])
    assert (found.rows, found.breaches) == ((fetch,), ())
    found = shown([fetch, row("bob")], replace(POLICY, elastic=ElasticHandling.IGNORE))
    assert [one.bucket.user for one in found.rows] == ["bob"]
    assert found.notes == (
        "1 tenants are consumers, whose use follows their limit, and are not shown",
    )


def test_request_time_is_never_refused():
    assert not shown([row(quota_type=QuotaType.REQUEST, model=ThrottleModel.APPROXIMATE)]).breaches


def test_stale_evidence_is_not_enough_whatever_the_rows_say():
    found = summarize([row()], [replace(EVIDENCE, stale="it is 3 d old")], POLICY)
    assert not found.enough
    assert shown([row()]).enough
    assert not shown([row(), row("bob", "", ImpactVerdict.NO_DATA, None)], max_rows=1).enough


def test_what_questions_noticed_is_passed_on():
    flip = ("c1", QuotaType.PRODUCE, bucket_of("x"))
    asked = ImpactQuery(
        cluster_id="c1", requests=(), flipped=(flip,), unexplained=(flip,), notes=("n",)
    )
    found = shown([], questions=[asked], notes=["first"])
    assert (found.flipped, found.unexplained, found.notes[:2]) == ((flip,), (flip,), ("first", "n"))
    assert [note.split()[0] for note in found.notes[2:]] == ["1", "1"]
    many = replace(asked, flipped=(flip,) * 70)
    found = shown([], questions=[many])
    assert (len(found.flipped), found.notes[1][:2]) == (50, "70")


@given(st.integers(0, 100_000), st.integers(1, 5), st.integers(0, 20))
def test_portions_hold_every_row_once_and_read_no_more_than_allowed(number, at_once, most):
    question = case(number).question
    parts, beyond = portions(question, at_once=at_once, max_buckets=most)
    held = [one for each in parts for one in each.requests]
    assert sorted(map(repr, [*held, *beyond.requests])) == sorted(map(repr, question.requests))
    assert sum(len(one.parts) for one in held) <= most
    for each in parts:
        sizes = [len(one.parts) for one in each.requests]
        assert sum(sizes) <= at_once or sum(map(bool, sizes)) == 1
    assert all(one.parts for one in beyond.requests)


def test_what_is_not_read_says_why_and_what_cannot_be_told_anyway_keeps_its_reason():
    one = case(7)
    rows = unread(one.question, "too much")
    for asked_, found in zip(one.question.requests, rows, strict=True):
        assert found.why == ("too much" if asked_.parts else asked_.reason)
        assert found.verdict in BLIND
        assert found.covered_ms == 0


def test_an_entity_without_a_tier_is_usual():
    assert POLICY.tier_of("c", entity(user="alice")).tolerance == STRICT
