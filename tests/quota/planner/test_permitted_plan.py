"""A filter only narrows what the filters before it permit, and only what may be written is in a plan."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Intent, Owner, OwnershipRecords
from reconciler.quota.patterns import EVERYTHING, EntityPattern, NamePattern
from reconciler.quota.planner.permitted_plan import FILTERS, Decision, PlanDraft, by_policy, decide
from reconciler.quota.planner.three_way_table import Difference, PairView
from reconciler.quota.policy import (
    Action,
    Cause,
    DeclarationEnd,
    DriftMode,
    IgnoreRule,
    Policy,
    Rules,
)

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
OWNER = Owner(document="team/alice")
NARROWER = (Action.WRITE, Action.RECORD, Action.ORPHAN, Action.REPORT, Action.NOTHING)
"""From the widest action to the narrowest."""

views = st.builds(
    PairView,
    entity=st.just(ALICE),
    key=st.just(RATE),
    declared=st.none() | st.just(5.0),
    applied=st.none() | st.just(4.0),
    live=st.none() | st.just(3.0),
    intent=st.none() | st.just(Intent(value=5.0, owner=OWNER)),
    claim=st.none(),
    owner=st.none() | st.just(OWNER),
    recorded=st.none() | st.just(OWNER),
    is_orphaned=st.booleans(),
    now=st.just(10.0),
)
differences = st.builds(
    Difference,
    view=views,
    cause=st.sampled_from([cause for cause in Cause if cause is not Cause.IN_SYNC]),
    after=st.none() | st.just(7.0),
    end=st.none() | st.sampled_from(DeclarationEnd),
)
BOBS = EntityPattern(user=NamePattern(exact="bob"))
ignores = IgnoreRule(entities=EVERYTHING, reason="agreed")
rule_sets = st.builds(
    Rules,
    policy=st.sampled_from(Policy),
    sync_confirmed=st.booleans(),
    drift=st.sampled_from(DriftMode),
    scope=st.sampled_from([(), (BOBS,), (EVERYTHING,)]),
    ignore=st.sampled_from([(), (ignores,)]),
    complete=st.booleans(),
    configured=st.booleans(),
)


@given(difference=differences, rules=rule_sets)
def test_a_filter_never_widens_what_the_filters_before_it_permit(difference, rules):
    decision = by_policy(difference, Decision(action=Action.REPORT, note=""), rules)
    for narrow in FILTERS[1:]:
        before, decision = decision, narrow(difference, decision, rules)
        assert NARROWER.index(decision.action) >= NARROWER.index(before.action)


@given(difference=differences, rules=rule_sets)
def test_a_plan_has_each_difference_once_or_not_at_all(difference, rules):
    draft = PlanDraft(OwnershipRecords(cluster_id="c"), rules, 10.0)
    draft.take(replace(difference, after=7.0))
    action = decide(replace(difference, after=7.0), rules).action
    assert [len(draft.changes), len(draft.findings)] == {
        Action.WRITE: [1, 0],
        Action.NOTHING: [0, 0],
    }.get(action, [0, 1])
    assert rules.may_record or draft.bookkeeping == []
