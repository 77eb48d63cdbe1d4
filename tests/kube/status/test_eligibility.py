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
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.state import limits_of
from tests.kube.worlds import resource, seen
from tests.reconcile.scenarios import ALICE, BOB, RATE, SHARE

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


def test_a_claim_has_the_priority_of_its_grant_and_the_age_of_its_object():
    obj = resource("a", ALICE, {RATE: 4096}, created="2024-01-01T00:00:05Z")
    claim = assess_eligibility(seen(obj), cluster(tenants=tenants(priority=7))).claim
    assert (claim.priority, claim.created) == (7, 1_704_067_205.0)


def test_a_claim_that_contradicts_the_eligibility_is_rejected():
    with pytest.raises(ValueError, match="does not fit"):
        Eligibility(document="a/b", obj={}, reason=None)


def test_long_lists_of_errors_are_shortened_with_a_count():
    assert shortened(["same", "same"]) == ("same",)
    many = shortened([f"fault {number}" for number in range(20)])
    assert len(many) == MOST_PROBLEMS + 1
    assert many[-1] == "and 12 more"


# ---- gathering ---------------------------------------------------------------------------------


def gathered(*objects, owned=NOBODY, **spec):
    return resolve_desired_state(
        [assess_eligibility(seen(obj), cluster(**spec)) for obj in objects], owned
    )


def test_a_document_without_a_grant_changes_nothing_for_others():
    document = resource("a", ALICE, {RATE: 4096})
    stranger = resource("b", ALICE, {RATE: 1}, namespace="stranger")
    settled = gathered(document, stranger, tenants=tenants())
    assert settled.desired.limits == {ALICE: limits_of({RATE: 4096.0})}
    assert settled.losses == {}
    assert settled.desired.halted == frozenset()


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
