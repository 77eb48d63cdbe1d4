"""Changes, findings and plans as values."""

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.plan import RESTRICTABLE, Finding, Plan
from reconciler.quota.policy import Action, Cause

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
ALICE = entity(user="alice")


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


def test_findings_are_listed_by_their_meaning():
    everything = tuple(finding(cause) for cause in Cause)
    plan = Plan(cluster_id="c", findings=everything)
    assert [entry.cause for entry in plan.restricted] == [c for c in Cause if c in RESTRICTABLE]
    assert [entry.cause for entry in plan.drift] == [Cause.DRIFT]
    assert [entry.cause for entry in plan.unmanaged] == [Cause.UNMANAGED]
    assert plan.findings_for(Cause.GONE, Cause.ADOPT) == (finding(Cause.ADOPT), finding(Cause.GONE))
    assert (plan.orphans, plan.ignored) == ((), ())
