"""Changes, findings and plans as values."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.plan import (
    RESTRICTABLE,
    Finding,
    Plan,
    PlanRemainder,
    QuotaChange,
    apply_to,
    effect_digest,
)
from reconciler.quota.policy import Action, Cause
from reconciler.quota.state import QuotaState, limits_of
from tests.quota.strategies import entities, numbers

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
ALICE = entity(user="alice")


def change(subject=ALICE, before=1.0, after=2.0, key=RATE, cause=Cause.SPEC) -> QuotaChange:
    return QuotaChange(entity=subject, key=key, before=before, after=after, cause=cause)


def finding(cause: Cause, action: Action = Action.REPORT, **more: object) -> Finding:
    return Finding(
        entity=ALICE,
        key=RATE,
        desired=1.0,
        applied=None,
        live=2.0,
        cause=cause,
        action=action,
        **more,
    )


changes = st.lists(
    st.builds(
        change,
        entities,
        st.none() | numbers,
        st.none() | numbers,
        st.sampled_from(Key),
        st.sampled_from(Cause),
    ),
    unique_by=lambda change: change.pair,
    max_size=4,
)


def test_a_change_creates_updates_or_removes():
    assert [
        change(before=None).action,
        change().action,
        change(after=None).action,
    ] == ["create", "update", "remove"]
    assert [change().removes, change(after=None).removes] == [False, True]


def test_changes_give_a_new_state():
    live = QuotaState(limits={ALICE: limits_of({RATE: 1.0, SHARE: 3.0})})
    after = apply_to(live, [change(after=None), change(entity(user=DEFAULT), after=9.0)])
    assert dict(after.limits) == {
        ALICE: limits_of({SHARE: 3.0}),
        entity(user=DEFAULT): limits_of({RATE: 9.0}),
    }


@given(changes, st.randoms())
def test_equal_effects_have_equal_digests_for_any_order_and_reasons(plan_changes, random):
    other_changes = [
        replace(change, cause=Cause.DRIFT, before=7.0, note="why") for change in plan_changes
    ]
    random.shuffle(other_changes)
    assert effect_digest("c", plan_changes) == effect_digest("c", other_changes)


@given(changes, changes)
def test_different_effects_have_different_digests(first, second):
    def effects(plan_changes):
        return {(c.entity, c.key, c.after) for c in plan_changes}

    same = effects(first) == effects(second)
    assert (effect_digest("c", first) == effect_digest("c", second)) == same


def test_the_digest_of_a_plan_equals_the_digest_of_its_effect():
    plan = Plan(cluster_id="c", changes=(change(entity(user="alice")),))
    assert plan.digest == plan.digest == effect_digest("c", plan.changes)
    assert replace(plan, changes=()).digest == effect_digest("c", ())


def test_the_digest_depends_on_the_cluster_and_on_all_three_kinds_of_names():
    digests = {
        effect_digest("c", []),
        effect_digest("d", []),
        *(effect_digest("c", [change(entity(user=name))]) for name in (DEFAULT, "<default>", "")),
        effect_digest("c", [change(entity(client_id=DEFAULT))]),
        effect_digest("c", [change(after=None)]),
        effect_digest("c", [change(after=2.0000000000000004)]),
        effect_digest("c", [change()]),
    }
    assert len(digests) == 9
    assert Plan(cluster_id="c", changes=(change(),)).digest == effect_digest("c", [change()])
    assert effect_digest("c", []).startswith("sha256:")


def test_digests_are_stable_between_releases():
    digest = effect_digest("kq", [change(entity(user="zoë"), after=1048576.0), change(after=None)])
    assert digest == DIGEST


DIGEST = "sha256:5babd9e433a4e98c64c918accb7390f645f50236b9db6f0ce0592dc9e241be54"


def test_findings_are_listed_by_their_meaning():
    everything = tuple(finding(cause) for cause in Cause)
    plan = Plan(cluster_id="c", findings=everything)
    assert [entry.cause for entry in plan.restricted] == [c for c in Cause if c in RESTRICTABLE]
    assert [entry.cause for entry in plan.drift] == [Cause.DRIFT]
    assert [entry.cause for entry in plan.unmanaged] == [Cause.UNMANAGED]
    assert plan.findings_for(Cause.GONE, Cause.ADOPT) == (finding(Cause.ADOPT), finding(Cause.GONE))
    assert (plan.orphans, plan.ignored) == ((), ())


def test_recorded_orphaned_and_ignored_pairs_do_not_count_as_restricted():
    orphan = finding(Cause.PRUNE, Action.ORPHAN)
    ignored = finding(Cause.DRIFT, ignored=True)
    skipped = finding(Cause.SPEC, ignored=True)
    in_force = finding(Cause.OVERRIDE, Action.NOTHING)
    plan = Plan(cluster_id="c", findings=(orphan, ignored, skipped, in_force))
    assert plan.restricted == ()
    assert plan.orphans == (orphan,)
    assert plan.ignored == (ignored, skipped)
    assert plan.drift == ()


def test_corrected_drift_is_listed_after_reported_drift():
    corrected = change(cause=Cause.DRIFT)
    plan = Plan(cluster_id="c", findings=(finding(Cause.DRIFT),), changes=(corrected, change()))
    assert plan.drift == (finding(Cause.DRIFT), corrected)


def test_live_limits_equal_to_the_declared_ones_are_adopted():
    adopted, converged = finding(Cause.ADOPT), finding(Cause.CONVERGED)
    plan = Plan(cluster_id="c", findings=(adopted, finding(Cause.GONE), converged))
    assert plan.adopted == (adopted, converged)


def test_a_remainder_adds_findings_and_counts_and_keeps_the_changes():
    part = Plan(
        cluster_id="c",
        changes=(change(),),
        findings=(finding(Cause.DRIFT),),
        documents=1,
        desired_pairs=2,
        in_sync=1,
    )
    remainder = PlanRemainder(
        documents=10, desired_pairs=20, in_sync=19, findings=(finding(Cause.UNMANAGED),)
    )
    plan = remainder.added_to(part)
    assert plan.changes == part.changes
    assert [item.cause for item in plan.findings] == [Cause.DRIFT, Cause.UNMANAGED]
    assert (plan.documents, plan.desired_pairs, plan.in_sync) == (11, 22, 20)
    assert PlanRemainder().added_to(part) == part
