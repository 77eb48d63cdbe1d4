"""Rows become tenants and texts: the worst broker, the worst tenant first, and refusals of the policy."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import entity
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.usage.impact.bucket_mapping import Identifiability
from reconciler.usage.impact.query import ImpactQuery
from reconciler.usage.impact.result_rows import (
    BLIND,
    EvidenceNote,
    ImpactRow,
    Simulation,
    verdicts_of,
)
from reconciler.usage.impact.tier_policy import USUAL, ElasticHandling, TierRule, WhatIfPolicy
from reconciler.usage.impact.verdict import ImpactVerdict, Tolerance
from reconciler.usage.impact.what_if import portions, summarize, tenants, unread
from reconciler.usage.recommendation.limit_sizes import GOLD
from reconciler.usage.samples import DAY_MS, QuotaType, ThrottleModel
from reconciler.usage.tags import bucket_of
from reconciler.usage.throttle_models import FigureBound
from tests.usage.recorded import judged
from tests.usage.whatif_cases import CADENCE, case

MINUTE = 60_000
STRICT = Tolerance(new_throttled_ms_per_day=10 * MINUTE, max_delay_ms=MINUTE)
POLICY = WhatIfPolicy(usual=replace(USUAL[1], tolerance=STRICT))


def row(
    user="alice", broker="1", verdict=ImpactVerdict.WORSE, after=20 * MINUTE, **more
) -> ImpactRow:
    impact_row = ImpactRow(
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
    return replace(impact_row, **more)


EVIDENCE = EvidenceNote(cluster_id="c1")


def summary_of(rows, policy=POLICY, **more):
    return summarize(rows, [EVIDENCE], policy, **more)


def test_a_tenant_has_its_worst_broker_and_the_number_of_brokers():
    tenant_rows = tenants(
        [
            row(broker="1"),
            row(broker="3", after=50 * MINUTE),
            row(broker="2", after=0),
            row("bob", "", ImpactVerdict.NO_DATA, None),
        ]
    )
    assert [
        (tenant.worst.broker_id, tenant.brokers, tenant.throttled) for tenant in tenant_rows
    ] == [("3", 3, 2), ("", 0, 0)]


@given(st.integers(0, 100_000))
def test_the_worst_broker_and_the_number_of_brokers_are_those_of_the_rows_of_a_tenant(number):
    fleet = case(number)
    rows = judged(fleet.question, fleet.series, CADENCE)
    for tenant in tenants(rows):
        group = [
            each
            for each in rows
            if (each.quota_type, each.bucket, each.any_name)
            == (tenant.worst.quota_type, tenant.worst.bucket, tenant.worst.any_name)
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
        assert tenant.worst.broker_id == min(name for name in ranks if ranks[name] == worst)
        assert tenant.brokers == sum(bool(name) for name in ranks)
        assert tenant.throttled == sum((each.after_throttled_ms or 0) > 0 for each in group)


@given(st.integers(0, 100_000), st.integers(1, 12))
def test_no_row_is_lost_and_the_rows_of_a_tenant_are_never_split(number, most):
    fleet = case(number)
    rows = judged(fleet.question, fleet.series, CADENCE)
    summary = summary_of(rows, questions=[fleet.question], max_rows=most)
    assert len(summary.rows) + summary.left_out == len(rows)
    tenants_by_row = {each.worst: each for each in tenants(rows)}
    assert all(tenants_by_row[each.worst] == each for each in tenants(summary.rows))
    assert summary.enough == all(each.judged for each in rows)
    assert summary.verdicts == verdicts_of(rows)
    assert summary.blind == sum(not each.judged for each in rows)
    assert summary.may_be_worse == sum(each.may_be_worse for each in rows)


def test_refusals_of_the_policy_are_shown_first_and_once_for_each_figure():
    calm = [row(f"u{n}", after=60 * MINUTE, before_throttled_ms=55 * MINUTE) for n in range(9)]
    summary = summary_of([*calm, row(broker="1"), row(broker="2", after=21 * MINUTE)], max_rows=2)
    assert [impact_row.bucket.user for impact_row in summary.rows] == ["alice", "alice"]
    (breach,) = summary.breaches
    assert (breach.row.broker_id, breach.tier, breach.breach.found_ms) == (
        "2",
        "silver",
        21 * MINUTE,
    )
    assert summary.left_out == 9


HELD_BACK = {
    "verdict": ImpactVerdict.SAME,
    "bound": FigureBound.AT_LEAST,
    "after": 0,
    "observed_throttled_ms": 20 * 60 * MINUTE,
    "censored_ms": 20 * 60 * MINUTE,
}


def test_an_unchanged_figure_of_a_throttled_client_is_no_verdict_on_a_lower_limit():
    throttled_row = row(broker="2", **HELD_BACK)
    assert throttled_row.may_be_worse
    assert not throttled_row.judged
    for more in (
        {"after_units": 100},  # the same limit has the same effect
        {"after_units": 200},
        {"after_units": None},
        {"bound": FigureBound.EXACT},
        {"verdict": ImpactVerdict.WORSE},
        {"observed_throttled_ms": 0, "censored_ms": MINUTE},  # a minute per day is negligible
    ):
        assert not replace(throttled_row, **more).may_be_worse, more
    assert replace(throttled_row, before_units=None).may_be_worse
    assert replace(throttled_row, observed_throttled_ms=None, censored_ms=MINUTE + 1).may_be_worse


def test_the_broker_of_a_tenant_that_may_get_worse_is_shown_and_the_result_is_not_enough():
    calm, better = (
        row(verdict=ImpactVerdict.SAME, after=0),
        row("bob", verdict=ImpactVerdict.BETTER, after=0),
    )
    throttled_row = row(broker="2", **HELD_BACK)
    summary = summary_of([better, calm, throttled_row])
    assert [tenant.worst.broker_id for tenant in tenants(summary.rows)] == ["2", "1"]
    assert (summary.blind, summary.may_be_worse, summary.enough) == (1, 1, False)
    cut = summary_of([row("bob"), calm, throttled_row], max_rows=1)
    assert (cut.left_out, cut.left_blind, cut.may_be_worse, cut.enough) == (2, 1, 1, False)


def test_counts_that_contradict_the_rows_are_rejected():
    for more in (
        {"left_out": 1},
        {"verdicts": {ImpactVerdict.WORSE: 2}},
        {"left_out": 1, "verdicts": {ImpactVerdict.SAME: 2}},
        {"left_out": 1, "left_blind": 1, "verdicts": {ImpactVerdict.WORSE: 2}},
        {"left_out": 1, "verdicts": {ImpactVerdict.WORSE: 1, ImpactVerdict.NO_DATA: 1}},
    ):
        with pytest.raises(QuotaValueError):
            Simulation(evidence=(), rows=(row(),), **more)


def test_a_tier_decides_the_refusals():
    gold = TierRule(
        name="gold",
        tolerance=Tolerance(max_delay_ms=1_000),
        tier=GOLD,
        entities=(EntityPattern(user=NamePattern(exact="alice")),),
    )
    policy = WhatIfPolicy(rules=(gold, *USUAL[1:]))
    summary = summary_of([row(), row("bob")], policy)
    assert [
        (breach.tier, breach.breach.what, breach.breach.allowed_ms) for breach in summary.breaches
    ] == [("gold", "worst delay", 1_000)]


def test_consumers_are_shown_and_never_refused_or_are_only_counted():
    fetch = row(quota_type=QuotaType.FETCH)
    summary = summary_of([fetch])
    assert (summary.rows, summary.breaches) == ((fetch,), ())
    summary = summary_of([fetch, row("bob")], replace(POLICY, elastic=ElasticHandling.IGNORE))
    assert [impact_row.bucket.user for impact_row in summary.rows] == ["bob"]
    assert summary.notes == (
        "1 tenants are consumers, whose use follows their limit, and are not shown",
    )


def test_request_time_is_never_refused():
    assert not summary_of(
        [row(quota_type=QuotaType.REQUEST, model=ThrottleModel.APPROXIMATE)]
    ).breaches


def test_stale_evidence_is_not_enough_for_any_rows():
    summary = summarize([row()], [replace(EVIDENCE, stale="it is 3 d old")], POLICY)
    assert not summary.enough
    assert summary_of([row()]).enough
    assert not summary_of([row(), row("bob", "", ImpactVerdict.NO_DATA, None)], max_rows=1).enough


def test_notes_and_changed_tags_of_queries_are_in_the_summary():
    query = ImpactQuery(cluster_id="c1", requests=(), flipped=1, unexplained=2, notes=("n",))
    summary = summary_of([], questions=[query, replace(query, flipped=70)], notes=["first"])
    assert summary.notes[:3] == ("first", "n", "n")
    assert [note.split()[0] for note in summary.notes[3:]] == ["71", "4"]


@given(st.integers(0, 100_000), st.integers(1, 5), st.integers(0, 20))
def test_portions_contain_every_row_once_and_read_no_more_than_allowed(number, at_once, most):
    question = case(number).question
    parts, beyond = portions(question, at_once=at_once, max_buckets=most)
    requests = [request for each in parts for request in each.requests]
    assert sorted(map(repr, [*requests, *beyond.requests])) == sorted(map(repr, question.requests))
    assert sum(len(request.parts) for request in requests) <= most
    for each in parts:
        sizes = [len(request.parts) for request in each.requests]
        assert sum(sizes) <= at_once or sum(map(bool, sizes)) == 1
    assert all(request.parts for request in beyond.requests)


def test_an_unread_bucket_has_a_reason_and_an_unidentifiable_one_keeps_its_own():
    fleet = case(7)
    rows = unread(fleet.question, "too much")
    for request, row in zip(fleet.question.requests, rows, strict=True):
        assert row.why == ("too much" if request.parts else request.reason)
        assert row.verdict in BLIND
        assert row.covered_ms == 0


def test_an_entity_without_a_tier_has_the_default_tier():
    assert POLICY.tier_of("c", entity(user="alice")).tolerance == STRICT
