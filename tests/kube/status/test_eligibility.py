"""What a custom resource may declare: one reason per document, and the effect of all of them on the plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.configuration.cluster_references import MOST_PROBLEMS, shortened
from reconciler.kube.status.eligibility import (
    Eligibility,
    assess_eligibility,
    resolve_desired_state,
)
from reconciler.kube.status.reasons import Reason
from reconciler.manifest.project.cluster import from_spec
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.planner.comparison import compare
from reconciler.quota.policy import Cause, DeletionPolicy, Policy, Rules
from reconciler.quota.state import QuotaState, limits_of
from tests.kube.worlds import resource, seen
from tests.reconcile.scenarios import ALICE, BOB, CONSUME, RATE, SHARE

NOBODY = OwnershipRecords(cluster_id="x")


def cluster(**spec):
    return {"prod": from_spec("prod", {"bootstrapServers": "b:1", **spec})}


def tenants(*allow: str, priority: int = 0, **entities):
    names = entities or {"user": {"exact": "alice"}}
    return [
        {
            "namespaces": ["team"],
            "entities": [names],
            "allow": list(allow),
            "priority": priority,
            "bounds": {"producerByteRate": {"max": "10Mi"}},
        }
    ]


def terminating(obj):
    obj["metadata"]["deletionTimestamp"] = "2024-01-02T00:00:00Z"
    return obj


A = resource("a", ALICE, {RATE: 4096})

KINDS = {
    "accepted": (A, cluster(), None),
    "suspended": (resource("a", ALICE, {RATE: 1}, suspend=True), cluster(), Reason.SUSPENDED),
    "suspend is granted": (
        resource("a", ALICE, {RATE: 1}, suspend=True),
        cluster(tenants=tenants("Suspend")),
        Reason.SUSPENDED,
    ),
    "suspend is not granted": (
        resource("a", ALICE, {RATE: 1}, suspend=True),
        cluster(tenants=tenants()),
        None,
    ),
    "no such number": (resource("a", ALICE, {RATE: 0}), cluster(), Reason.INVALID),
    "no canonical address": (
        resource("a", entity(ip="010.0.0.1"), {RATE: 1}),
        cluster(),
        Reason.INVALID,
    ),
    "invalid before its cluster is looked for": (
        resource("a", ALICE, {RATE: 0}),
        {},
        Reason.INVALID,
    ),
    "another namespace": (
        resource("a", ALICE, {RATE: 1}, namespace="other"),
        cluster(tenants=tenants()),
        Reason.NOT_GRANTED,
    ),
    "another entity": (
        resource("a", BOB, {RATE: 1}),
        cluster(tenants=tenants()),
        Reason.NOT_GRANTED,
    ),
    "a form that reaches others": (
        resource("a", entity(client_id="shop"), {RATE: 1}),
        cluster(tenants=tenants()),
        Reason.NOT_GRANTED,
    ),
    "beyond its bounds": (
        resource("a", ALICE, {RATE: "11Mi"}),
        cluster(tenants=tenants()),
        Reason.NOT_GRANTED,
    ),
    "outside the scope": (A, cluster(scope=[{"user": {"exact": "bob"}}]), Reason.OUT_OF_SCOPE),
    "no cluster": (A, {}, Reason.CLUSTER_NOT_FOUND),
    "a suspended cluster": (A, cluster(suspend=True), Reason.CLUSTER_SUSPENDED),
    "on its way out": (terminating(resource("a", ALICE, {RATE: 1})), cluster(), Reason.DELETING),
    "on its way out and invalid": (
        terminating(resource("a", ALICE, {RATE: 0})),
        cluster(),
        Reason.DELETING,
    ),
    "on its way out and suspended": (
        terminating(resource("a", ALICE, {RATE: 1}, suspend=True)),
        cluster(),
        Reason.DELETING,
    ),
}


@pytest.mark.parametrize("case", KINDS)
def test_each_document_has_exactly_one_eligibility(case):
    obj, clusters, reason = KINDS[case]
    standing = assess_eligibility(seen(obj), clusters)
    assert standing.reason is reason
    assert (standing.claim is not None) == (reason in {None, Reason.CLUSTER_SUSPENDED})
    assert standing.freezes == (reason not in {None, Reason.CLUSTER_SUSPENDED, Reason.DELETING})
    if reason in {
        Reason.INVALID,
        Reason.NOT_GRANTED,
        Reason.OUT_OF_SCOPE,
        Reason.CLUSTER_NOT_FOUND,
    }:
        assert standing.messages


def test_an_invalid_cluster_is_distinguished_from_a_missing_one():
    standing = assess_eligibility(seen(A), {}, unusable={"prod"})
    assert standing.reason is Reason.CLUSTER_INVALID
    assert "is invalid; see its status" in standing.messages[0]


def test_without_allow_delete_acts_as_retain_and_suspend_is_ignored_and_both_are_reported():
    obj = resource("a", ALICE, {RATE: 4096}, deletionPolicy="Delete", suspend=True)
    standing = assess_eligibility(seen(obj), cluster(tenants=tenants()))
    assert standing.claim is not None
    assert standing.claim.declaration.deletion_policy is DeletionPolicy.RETAIN
    assert not standing.claim.declaration.suspended
    assert "acts as Retain" in standing.messages[0]
    assert "suspend is not granted" in standing.messages[1]


def test_with_allow_delete_and_suspend_apply():
    obj = resource("a", ALICE, {RATE: 4096}, deletionPolicy="Delete")
    claim = assess_eligibility(seen(obj), cluster(tenants=tenants("Delete"))).claim
    assert claim.declaration.deletion_policy is DeletionPolicy.DELETE


def test_a_claim_has_the_priority_of_its_grant_and_the_age_of_its_object():
    obj = resource("a", ALICE, {RATE: 4096}, created="2024-01-01T00:00:05Z")
    claim = assess_eligibility(seen(obj), cluster(tenants=tenants(priority=7))).claim
    assert (claim.priority, claim.created) == (7, 1_704_067_205.0)


def test_metadata_of_the_api_server_makes_no_document_invalid():
    obj = resource("a", ALICE, {RATE: 4096})
    obj["metadata"] |= {
        "generateName": "a-",
        "annotations": {f"example.org/{number}": "x" for number in range(300)},
        "labels": {"x": "y" * 63},
        "somethingNew": {},
    }
    standing = assess_eligibility(seen(obj), cluster())
    assert standing.reason is None


@pytest.mark.parametrize("name", ["x" * 512, "é" * 256])
def test_a_name_of_512_bytes_may_be_declared(name):
    assert (
        assess_eligibility(seen(resource("a", entity(user=name), {RATE: 4096})), cluster()).reason
        is None
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [("x" * 513, "512 characters"), ("é" * 257, "512 bytes"), ("x" * 32_767, "512")],
)
def test_a_longer_name_from_before_the_bound_is_reported_as_too_long(name, says):
    standing = assess_eligibility(seen(resource("a", entity(user=name), {RATE: 4096})), cluster())
    assert standing.reason is Reason.INVALID
    assert standing.freezes
    (message,) = standing.messages
    assert says in message
    assert len(message) < 200


def test_a_claim_that_contradicts_the_eligibility_is_rejected():
    with pytest.raises(ValueError, match="does not fit"):
        Eligibility(obj={}, reason=None)


def test_long_lists_of_errors_are_shortened_with_a_count():
    assert shortened(["same", "same"]) == ("same",)
    many = shortened([f"fault {number}" for number in range(20)])
    assert len(many) == MOST_PROBLEMS + 1
    assert many[-1] == "and 12 more"


# ---- gathering ---------------------------------------------------------------------------------


def records(*pairs, policy=None):
    return NOBODY.with_changes(
        Recorded(
            entity=subject,
            key=key,
            value=value,
            owner=Owner(document=document, deletion_policy=policy, since=1.0),
        )
        for document, subject, key, value in pairs
    )


def gathered(*objects, owned=NOBODY, **spec):
    return resolve_desired_state(
        [assess_eligibility(seen(obj), cluster(**spec)) for obj in objects], owned
    )


def test_a_losing_document_claims_and_freezes_nothing_and_keeps_its_other_keys():
    older = resource("a", ALICE, {RATE: 1000})
    younger = resource("b", ALICE, {RATE: 2000, SHARE: 50}, created="2025-01-01T00:00:00Z")
    settled = gathered(younger, older)
    assert settled.desired.limits[ALICE] == limits_of({RATE: 1000.0, SHARE: 50.0})
    assert settled.losses == {"team/b": {(ALICE, RATE): "team/a"}}
    assert settled.desired.frozen == frozenset()
    assert settled.desired.conflicts == ()


def test_the_current_owner_takes_precedence_over_age():
    older = resource("a", ALICE, {RATE: 1000})
    younger = resource("b", ALICE, {RATE: 2000}, created="2025-01-01T00:00:00Z")
    owned = records(("team/b", ALICE, RATE, 2000.0))
    assert gathered(older, younger, owned=owned).losses == {"team/a": {(ALICE, RATE): "team/b"}}


FROZEN = {
    "invalid": (resource("a", ALICE, {RATE: 0}), {}),
    "ungranted": (A, {"tenants": tenants(user={"exact": "bob"})}),
    "suspended": (resource("a", ALICE, {RATE: 4096}, suspend=True), {}),
    "out of scope": (A, {"scope": [{"user": {"exact": "bob"}}]}),
}


@pytest.mark.parametrize("case", FROZEN)
def test_an_unusable_document_freezes_only_the_pairs_recorded_as_its_own(case):
    obj, spec = FROZEN[case]
    owned = records(
        ("team/a", ALICE, RATE, 4096.0),
        ("team/gone", ALICE, CONSUME, 5.0),
        policy=DeletionPolicy.DELETE,
    )
    live = QuotaState(limits={ALICE: limits_of({RATE: 4096.0, CONSUME: 5.0})})
    settled = gathered(obj, owned=owned, **spec)
    plan = compare(desired=settled.desired, owned=owned, live=live, rules=Rules())
    assert [finding.key for finding in plan.findings_for(Cause.FROZEN)] == [RATE]
    assert [(change.key, change.after) for change in plan.changes] == [(CONSUME, None)]


def test_a_document_without_a_grant_changes_nothing_for_others():
    document = resource("a", ALICE, {RATE: 4096})
    stranger = resource("b", ALICE, {RATE: 1}, namespace="stranger")
    settled = gathered(document, stranger, tenants=tenants())
    assert settled.desired.limits == {ALICE: limits_of({RATE: 4096.0})}
    assert settled.losses == {}
    assert settled.desired.halted == frozenset()


@pytest.mark.parametrize(
    ("policy", "in_force", "cause", "removed"),
    [
        (DeletionPolicy.DELETE, Policy.UPSERT, Cause.PRUNE, True),
        (DeletionPolicy.RETAIN, Policy.SYNC, Cause.PRUNE, False),
        (None, Policy.UPSERT, Cause.PRUNE, False),
        (None, Policy.SYNC, Cause.PRUNE, True),
    ],
)
def test_a_deleted_document_is_handled_by_the_deletion_policy_recorded_last(
    policy, in_force, cause, removed
):
    obj = terminating(resource("a", ALICE, {RATE: 4096}, deletionPolicy="Delete"))
    owned = records(("team/a", ALICE, RATE, 4096.0), policy=policy)
    settled = gathered(obj, owned=owned)
    plan = compare(
        desired=settled.desired,
        owned=owned,
        live=QuotaState(limits={ALICE: limits_of({RATE: 4096.0})}),
        rules=Rules(policy=in_force, sync_confirmed=True),
    )
    assert "team/a" not in settled.desired.documents
    assert bool(plan.changes) == removed
    assert {entry.cause for entry in (*plan.changes, *plan.findings)} == {cause}


def test_pairs_of_a_suspended_document_are_halted():
    obj = resource("a", ALICE, {RATE: 4096}, suspend=True)
    settled = gathered(obj)
    assert settled.desired.halted == {(ALICE, RATE)}


@given(st.permutations(range(6)))
def test_the_result_does_not_depend_on_the_order_of_documents(order):
    objects = [
        resource("a", ALICE, {RATE: 1000}),
        resource("b", ALICE, {RATE: 2000, SHARE: 50}),
        resource("c", BOB, {RATE: 0}),
        resource("d", entity(user=DEFAULT), {RATE: 5000}, suspend=True),
        resource("e", ALICE, {SHARE: 60}),
        terminating(resource("f", BOB, {RATE: 3000})),
    ]
    assert gathered(*(objects[place] for place in order)) == gathered(*objects)
