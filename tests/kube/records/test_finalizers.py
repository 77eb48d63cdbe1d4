"""The finalizer: only where deletion has an effect, and only until the removal is done."""

import pytest
from msgspec.structs import replace

from reconciler.errors import ConnectError
from reconciler.kube.api.custom_resources import FINALIZER, parsed
from reconciler.kube.records import finalizers
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import (
    NO_RECORD,
    Intent,
    Orphaned,
    OverrideEnded,
    Owner,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.planner.guards import Guard, Violation
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause, DeletionPolicy, DriftMode, Policy
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    Preview,
    Reconciliation,
    ValidationResult,
    WithheldChange,
)
from reconciler.quota.state import Applied, Held
from tests.policies import removes

ALICE = entity(user="alice")
RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
DELETE, RETAIN = DeletionPolicy.DELETE, DeletionPolicy.RETAIN


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("deletion", [DELETE, RETAIN, None])
def test_deletion_has_an_effect_if_a_limit_will_be_removed(policy, deletion):
    assert finalizers.deletion_has_effect(deletion, policy) is removes(policy, deletion)


def obj(*present):
    return parsed({"metadata": {"resourceVersion": "7", "finalizers": [*present]}})


def test_the_patch_that_adds_a_finalizer_tests_the_resource_version():
    assert finalizers.adding(obj())[0] == {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": "7",
    }


def test_only_the_finalizer_of_kquota_is_removed_at_any_position():
    patch = finalizers.removing(obj("other", FINALIZER))
    assert patch == [
        {"op": "test", "path": "/metadata/finalizers/1", "value": FINALIZER},
        {"op": "remove", "path": "/metadata/finalizers/1"},
    ]


def owned(*keys, orphaned=()):
    record = NO_RECORD
    for key in keys:
        record = record.with_pair(key, 1.0, Owner(document="team/a"))
    return OwnershipRecords(
        cluster_id="c",
        records={ALICE: record} if keys else {},
        orphaned=frozenset((ALICE, key) for key in orphaned),
    )


def report(*keys, complete=True, error=None, bookkeeping=()):
    changes = tuple(
        QuotaChange(entity=ALICE, key=key, before=1.0, after=None, cause=Cause.PRUNE)
        for key in keys
    )
    preview = Preview(
        plan=Plan(cluster_id="c", changes=changes, complete=complete, bookkeeping=bookkeeping),
        verdict=ValidationResult(source="none"),
        policy=Policy.SYNC,
        drift_mode=DriftMode.WARN,
        created_at=0.0,
    )
    return Reconciliation(cluster="prod", preview=preview, error=error)


def test_pending_removals_keep_a_document():
    pairs_by_document = finalizers.holds_back(["team/a"], owned(RATE, SHARE), report(RATE))
    assert pairs_by_document == {"team/a": {(ALICE, RATE)}}


@pytest.mark.parametrize(
    "failed",
    [
        Reconciliation(cluster="prod", error=ConnectError("away")),
        report(complete=False),
        report(error=ConnectError("away")),
        # The next one judges what was under an override that ended, of another value or of the same.
        report(bookkeeping=(OverrideEnded(entity=ALICE, key=RATE),)),
    ],
)
def test_an_inconclusive_reconciliation_keeps_every_document(failed):
    assert finalizers.holds_back(["team/a"], owned(RATE), failed) == {"team/a": {(ALICE, RATE)}}


def test_a_write_of_unknown_outcome_keeps_its_document_until_a_describe_decides() -> None:
    intent = Intent(value=1.0, owner=Owner(document="team/a", deletion_policy=DELETE), at=1.0)
    records = replace(owned(), intents={(ALICE, RATE): intent})
    failed = Reconciliation(cluster="prod", error=ConnectError("away"))
    # The cluster may answer before the write of a previous leader takes effect.
    for undecided in (failed, report()):
        assert finalizers.holds_back(["team/a"], records, undecided) == {"team/a": {(ALICE, RATE)}}
    assert finalizers.holds_back(["team/a"], owned(), report()) == {}
    records = records.with_changes(finalizers.given_up([(ALICE, RATE)], records))
    assert records.intents[ALICE, RATE].owner.deletion_policy is DeletionPolicy.RETAIN


@pytest.mark.parametrize("deletion", [DELETE, None])
def test_pairs_of_a_removal_that_timed_out_are_orphaned_and_retained(deletion):
    owner = Owner(document="team/a", since=1.0, deletion_policy=deletion)
    record = NO_RECORD.with_pair(RATE, 5.0, owner)
    changes = tuple(
        finalizers.given_up(
            [(ALICE, RATE)], OwnershipRecords(cluster_id="c", records={ALICE: record})
        )
    )
    new_owner = replace(owner, deletion_policy=RETAIN)
    assert changes == (
        Recorded(entity=ALICE, key=RATE, value=5.0, owner=new_owner),
        Orphaned(entity=ALICE, key=RATE),
    )


@pytest.mark.parametrize(
    ("guard", "expected"), [(Guard.MAX_REMOVED_SHARE, "abc"), (Guard.PROTECTED, "")]
)
def test_removals_held_by_a_withheld_one_wait_with_it(guard, expected):
    """A change that is done, or held by another entity, does not."""
    users = {name: entity(user=name) for name in "abcdef"}
    changes = {
        name: QuotaChange(entity=user, key=RATE, before=1.0, after=None, cause=Cause.PRUNE)
        for name, user in users.items()
    }
    violation = Violation(guard=guard, message="too many")
    results = {
        "c": Held(waits_for=(users["a"], users["b"])),
        "b": Held(waits_for=(users["a"],)),
        "d": Held(waits_for=(users["a"], users["e"])),
        "e": Applied(),
        "f": None,
    }
    pairs = tuple(
        PairOutcome(change=changes[name], result=result) for name, result in results.items()
    )
    reconciliation = Reconciliation(
        cluster="prod",
        withheld=(WithheldChange(change=changes["a"], violations=(violation,)),),
        outcome=Outcome(cluster_id="c", digest="d", pairs=pairs),
    )
    waiting_pairs = finalizers.pairs_withheld(reconciliation)
    assert waiting_pairs == {changes[name].pair for name in expected}
