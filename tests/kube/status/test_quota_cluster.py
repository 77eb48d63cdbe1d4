"""The status of a QuotaCluster: counts, drift, trouble; and that the trouble of a tenant is not the cluster's."""

import pytest

from reconciler.errors import ConnectError
from reconciler.kube.api.custom_resources import REQUESTED_AT
from reconciler.kube.status.comparison import unchanged
from reconciler.kube.status.conditions import condition_of
from reconciler.kube.status.quota_cluster import (
    MOST_DRIFT,
    SecretUse,
    cluster_status,
)
from reconciler.quota.entity import entity
from reconciler.quota.results.report import Reconciliation
from reconciler.quota.state import QuotaState
from reconciler.reconcile import NewOverride
from tests.kube.crd_schema import faults
from tests.kube.scenarios import CREATED, NOW, meddle, ran, world
from tests.kube.worlds import KubeWorld, quota_cluster, resource
from tests.reconcile.scenarios import ALICE, BOB, CONSUME, RATE, SHARE


def ready(made):
    return condition_of(made.obj["status"], "Ready")


def test_everything_is_counted():
    stranger = entity(user="stranger")
    made = world(
        {stranger: {RATE: 5.0, SHARE: 5.0}},
        CREATED,
        resource("b", ALICE, {RATE: 1}, created="2025-01-01T00:00:00Z"),
        resource("c", BOB, {RATE: 5000}),
        resource("d", entity(user="gone"), {RATE: 5000}, deletionPolicy="Retain"),
    )
    ran(made)
    made.put(resource("c", BOB, {RATE: 5000}, suspend=True))
    made.delete("team/d", finalizer=False)
    meddle(made)
    night = NewOverride(
        entity=ALICE, key=SHARE, value=9.0, until=NOW + 9000, principal="me", reason="x"
    )
    ran(made, overrides=(night,))
    assert made.obj["status"]["counts"] == {
        "documents": 3,
        "declared": 1,
        "owned": 4,
        "drifted": 1,
        "unmanaged": 2,
        "orphaned": 1,
        "conflicts": 1,
        "frozen": 1,
        "overridden": 1,
        "foreign": 0,
    }
    assert made.obj["status"]["policyInForce"] == "Upsert"


def test_foreign_entities_and_keys_are_counted():
    live = QuotaState(
        foreign_values={ALICE: (("x", 1.0), ("y", 2.0))},
        foreign_entities=(((("client-id-prefix", "a"),), (("producer_byte_rate", 1.0),)),),
    )
    made = world()
    report = made.run()
    status = cluster_status(
        made.obj,
        report=type(report)(cluster="prod", preview=report.preview, live=live),
        owned=made.owned,
        previous={},
        now=NOW,
    )
    assert status["counts"]["foreign"] == 3


def test_drift_is_listed_as_far_as_it_goes_and_counted_whole():
    subjects = [entity(user=f"user-{number:02}") for number in range(MOST_DRIFT + 5)]
    made = world(None, *(resource(f"d{n}", one, {RATE: 4096}) for n, one in enumerate(subjects)))
    ran(made)
    for one in subjects:
        made.kafka.write(one, RATE, None)
    ran(made)
    status = made.obj["status"]
    assert len(status["drift"]) == MOST_DRIFT
    assert status["counts"]["drifted"] == MOST_DRIFT + 5
    assert status["drift"][0] == {
        "entity": "user=user-00",
        "key": "producer_byte_rate",
        "firstSeen": "2023-11-14T22:15:00Z",
        "expected": 4096,
    }
    drifted = condition_of(status, "Drifted")
    assert drifted["status"] == "True"
    assert drifted["message"].endswith("and 20 more")
    assert faults("QuotaCluster", status) == []
    for one in subjects:
        made.kafka.write(one, RATE, 4096.0)
    ran(made)
    assert "drift" not in made.obj["status"]
    assert made.obj["status"]["counts"]["drifted"] == 0


def test_trouble_of_a_document_is_not_the_clusters():
    made = world(
        None,
        CREATED,
        resource("b", ALICE, {RATE: 1}, created="2025-01-01T00:00:00Z"),
        resource("c", BOB, {RATE: 5000}),
        resource("d", BOB, {CONSUME: -1}),
    )
    made.kafka.faults.rejected[BOB] = (42, "INVALID_REQUEST", "no")
    ran(made)
    assert ready(made)["reason"] == "Synced"
    conflict = condition_of(made.obj["status"], "Conflict")
    assert conflict["message"] == "1 limit is declared twice; not effective: team/b"
    assert "lastSuccessfulSyncTime" not in made.obj["status"]


def test_removals_that_a_guard_withholds_are_told_where_an_object_is_left_to_tell():
    made = world(
        None,
        *(
            resource(f"d{n}", entity(user=f"u{n}"), {RATE: 4096}, deletionPolicy="Delete")
            for n in range(15)
        ),
        guards=None,
    )
    ran(made)
    for number in range(12):
        made.delete(f"team/d{number}", finalizer=False)
    ran(made)
    found = ready(made)
    assert (found["reason"], found["status"]) == ("GuardRefused", "False")
    assert (
        "2 removals are withheld: 10 of 10 removals of namespace team are used within 1h; 2 wait; the next is made at"
        in found["message"]
    )
    assert "(allowed with spec.guards.maxRemovals)" in found["message"]
    assert "--" not in found["message"]
    assert len(made.kafka.truth.limits) == 5


def test_a_failed_pass_leaves_facts_as_they_were_found():
    made = world()
    ran(made)
    before = made.obj["status"]
    report = Reconciliation(cluster="prod", error=ConnectError("b1:9092 refuses"))
    status = cluster_status(made.obj, report=report, previous=before, now=NOW + 900)
    assert condition_of(status, "Ready")["message"] == "b1:9092 refuses"
    for name in ("counts", "clusterId", "policyInForce", "lastSuccessfulSyncTime"):
        assert status[name] == before[name]
    assert condition_of(status, "Drifted") == condition_of(before, "Drifted")


def test_a_failure_after_sending_is_told():
    made = world()
    made.kafka.faults.lag = dict.fromkeys((1, 2, 3), 1e9)
    ran(made)
    assert made.reason("team/a") == "VerifyTimeout"
    assert "lastSuccessfulSyncTime" not in made.obj["status"]


def test_the_digest_is_that_of_the_last_plan_that_did_something():
    made = world()
    ran(made)
    digest = made.obj["status"]["planDigest"]
    made.writes.clear()
    ran(made)
    assert made.obj["status"]["planDigest"] == digest
    assert made.writes == []
    made.put(resource("a", ALICE, {RATE: 8192}))
    ran(made)
    assert made.obj["status"]["planDigest"] != digest


def test_credentials_are_told_by_version():
    use = SecretUse(version="7", rotated_at=NOW, rejected_version="8", reason="wrong password")
    status = cluster_status(quota_cluster(), report=None, previous={}, now=NOW, secret=use)
    assert status["secret"] == {
        "resourceVersion": "7",
        "rotatedAt": "2023-11-14T22:13:20Z",
        "rejectedVersion": "8",
    }
    again = cluster_status(quota_cluster(), report=None, previous=status, now=NOW)
    assert again["secret"] == status["secret"]


def test_a_rejected_secret_does_not_hide_a_worse_thing():
    use = SecretUse(version="7", rotated_at=NOW, rejected_version="8")
    status = cluster_status(
        quota_cluster(suspend=True), report=None, previous={}, now=NOW, secret=use
    )
    assert condition_of(status, "Ready")["reason"] == "Suspended"


def test_what_the_rim_knows_is_told():
    status = cluster_status(
        quota_cluster(),
        report=None,
        previous={},
        now=NOW,
        behaves_as="4.x",
        next_sync=NOW + 60,
    )
    assert status["behavesAs"] == "4.x"
    assert status["nextSyncTime"] == "2023-11-14T22:14:20Z"
    assert faults("QuotaCluster", status) == []


def test_a_request_is_answered_by_the_pass_that_saw_it():
    made = KubeWorld()
    made.obj["metadata"]["annotations"] = {REQUESTED_AT: "now"}
    assert "lastHandledReconcileAt" not in cluster_status(
        made.obj, report=None, previous={}, now=NOW
    )
    made.run()
    assert made.obj["status"]["lastHandledReconcileAt"] == "now"


@pytest.mark.parametrize("seconds", [0, 100, 599])
def test_a_pass_that_found_nothing_new_writes_nothing(seconds):
    made = world()
    ran(made)
    before = made.obj["status"]
    made.writes.clear()
    made.clock.advance(seconds - 100)
    ran(made)
    assert made.writes == []
    assert unchanged(before, made.obj["status"])


def test_the_last_sync_is_told_again_when_it_has_grown_old():
    made = world()
    ran(made)
    made.writes.clear()
    made.clock.advance(600)
    ran(made)
    assert made.writes == ["cluster"]


def test_under_observe_a_limit_that_is_live_as_declared_is_no_difference():
    made = world({ALICE: {RATE: 5000.0}}, resource("a", ALICE, {RATE: 5000}), policy="Observe")
    ran(made)
    assert ready(made)["reason"] == "Synced"
    document = made.objects["team/a"]["status"]
    assert condition_of(document, "Ready")["reason"] == "Synced"
    made.put(resource("a", ALICE, {RATE: 6000}))
    ran(made)
    assert ready(made)["reason"] == "ObserveOnly"
    assert condition_of(made.objects["team/a"]["status"], "Ready")["reason"] == "ObserveOnly"
