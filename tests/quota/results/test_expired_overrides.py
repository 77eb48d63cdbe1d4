"""Overrides that have ended, with a value that is still live."""

from dataclasses import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Override, Owner, OwnershipRecords
from reconciler.quota.planner.plan import Finding, Plan, QuotaChange
from reconciler.quota.policy import Action, Cause
from reconciler.quota.results.report import expired_overrides

ALICE, RATE = entity(user="alice"), Key.PRODUCER_BYTE_RATE
OVERRIDE = Override(
    entity=ALICE,
    key=RATE,
    value=50.0,
    until=100.0,
    author="eve",
    reason="INC-1",
    before=7.0,
    declared=5.0,
)
OWNED = OwnershipRecords(cluster_id="id", overrides={(ALICE, RATE): OVERRIDE})
REPORTED = Finding(
    entity=ALICE,
    key=RATE,
    desired=5.0,
    applied=50.0,
    live=50.0,
    cause=Cause.OVERRIDE_EXPIRED,
    action=Action.REPORT,
    owner=Owner(document="team/one"),
)
PLANNED = QuotaChange(entity=ALICE, key=RATE, before=50.0, after=5.0, cause=Cause.OVERRIDE_EXPIRED)


def plan(*, findings=(), changes=()) -> Plan:
    return Plan(cluster_id="id", findings=findings, changes=changes)


def test_a_reported_expired_override_has_the_declared_value_and_its_document():
    (override,) = expired_overrides(plan(findings=(REPORTED,)), OWNED)
    assert (override.override, override.expected, override.live) == (OVERRIDE, 5.0, 50.0)
    assert (override.document, override.pair) == ("team/one", (ALICE, RATE))


def test_without_a_declaring_document_the_value_from_before_is_expected():
    (override,) = expired_overrides(
        plan(findings=(replace(REPORTED, desired=None, owner=None),)), OWNED
    )
    assert (override.expected, override.document) == (7.0, "")


def test_a_planned_expired_override_counts_until_it_is_reverted():
    planned = plan(changes=(PLANNED, replace(PLANNED, cause=Cause.SPEC)))
    (override,) = expired_overrides(planned, OWNED)
    assert (override.expected, override.live) == (5.0, 50.0)
    assert expired_overrides(planned, OWNED, reverted={(ALICE, RATE)}) == ()


def test_ignored_overrides_and_other_causes_do_not_count():
    findings = (replace(REPORTED, ignored=True), replace(REPORTED, cause=Cause.DRIFT))
    assert expired_overrides(plan(findings=findings), OWNED) == ()
