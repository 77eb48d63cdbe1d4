"""Changes, findings and plans as values."""

from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, ProjectNamed, Recorded
from reconciler.quota.planner.plan import (
    RESTRICTABLE,
    Finding,
    Plan,
    PlanRemainder,
    QuotaChange,
)
from reconciler.quota.policy import Action, Cause

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


def test_the_base_of_a_change_is_the_value_without_a_temporary_limit():
    assert (change().base, replace(change(), returning=None).base) == (1.0, None)


def test_findings_are_listed_by_their_meaning():
    everything = tuple(finding(cause) for cause in Cause)
    plan = Plan(cluster_id="c", findings=everything)
    assert [entry.cause for entry in plan.restricted] == [c for c in Cause if c in RESTRICTABLE]
    assert [entry.cause for entry in plan.drift] == [Cause.DRIFT]
    assert [entry.cause for entry in plan.unmanaged] == [Cause.UNMANAGED]
    assert plan.findings_for(Cause.GONE, Cause.ADOPT) == (finding(Cause.ADOPT), finding(Cause.GONE))
    assert plan.orphans == ()
    assert not any(finding.ignored for finding in plan.findings)


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


def test_records_to_update_are_those_of_other_limits_than_adopted_ones_and_of_no_project():
    owner, bob = Owner(document="team/a"), entity(user="bob")
    changes = [Recorded(entity=who, key=RATE, value=2.0, owner=owner) for who in (ALICE, bob)]
    plan = Plan(
        cluster_id="c",
        findings=(finding(Cause.ADOPT, Action.RECORD),),
        bookkeeping=(*changes, ProjectNamed(project="p")),
    )
    assert plan.records_to_update == 1
