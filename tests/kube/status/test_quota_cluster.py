"""The status of a QuotaCluster: counts, drift, errors; errors of a tenant are not errors of the cluster."""

import pytest

from reconciler.errors import ConnectError
from reconciler.kube.api.custom_resources import condition_of
from reconciler.kube.status.conditions import unchanged
from reconciler.kube.status.quota_cluster import MOST_NAMED
from reconciler.quota.entity import entity
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import NewOverride
from tests.kube.crd_schema import faults
from tests.kube.scenarios import CREATED, NOW, cluster_status_of, kube_world, meddle, ran
from tests.kube.worlds import KubeWorld, resource
from tests.reconcile.scenarios import ALICE, BOB, RATE, SHARE


def ready(world):
    return condition_of(world.obj["status"], "Ready")


def test_documents_pairs_and_drift_are_counted():
    stranger = entity(user="stranger")
    world = kube_world(
        {stranger: {RATE: 5.0, SHARE: 5.0}},
        CREATED,
        resource("b", ALICE, {RATE: 1}, created="2025-01-01T00:00:00Z"),
        resource("c", BOB, {RATE: 5000}),
        resource("d", entity(user="gone"), {RATE: 5000}, deletionPolicy="Retain"),
    )
    ran(world)
    world.put(resource("c", BOB, {RATE: 5000}, suspend=True))
    world.delete("team/d", finalizer=False)
    meddle(world)
    night = NewOverride(
        entity=ALICE, key=SHARE, value=9.0, until=NOW + 9000, principal="me", reason="x"
    )
    ran(world, overrides=(night,))
    assert world.obj["status"]["counts"] == {
        "documents": 3,
        "declared": 1,
        "owned": 3,
        "drifted": 1,
        "unmanaged": 2,
        "orphaned": 1,
        "conflicts": 1,
        "frozen": 1,
        "overridden": 1,
        "withheld": 0,
        "rejected": 0,
        "held": 0,
        "foreign": 0,
    }
    assert world.obj["status"]["policyInForce"] == "Upsert"


def test_named_drift_is_bounded_and_counted_completely():
    subjects = [entity(user=f"user-{number:02}") for number in range(MOST_NAMED + 20)]
    world = kube_world(
        None, *(resource(f"d{n}", subject, {RATE: 4096}) for n, subject in enumerate(subjects))
    )
    ran(world)
    for subject in subjects:
        world.kafka.write(subject, RATE, None)
    ran(world)
    status = world.obj["status"]
    assert status["counts"]["drifted"] == MOST_NAMED + 20
    drifted = condition_of(status, "Drifted")
    assert drifted["status"] == "True"
    first = "user=user-00 producer_byte_rate: 4096 was applied, nothing is live"
    assert drifted["message"].startswith(first)
    assert drifted["message"].endswith("and 20 more")
    assert faults("QuotaCluster", status) == []
    for subject in subjects:
        world.kafka.write(subject, RATE, 4096.0)
    ran(world)
    assert world.obj["status"]["counts"]["drifted"] == 0


def test_withheld_removals_are_shown_in_the_status_of_an_existing_object():
    world = kube_world(
        None,
        *(
            resource(f"d{n}", entity(user=f"u{n}"), {RATE: 4096}, deletionPolicy="Delete")
            for n in range(15)
        ),
        guards=None,
    )
    ran(world)
    for number in range(12):
        world.delete(f"team/d{number}", finalizer=False)
    ran(world)
    condition = ready(world)
    assert (condition["reason"], condition["status"]) == ("GuardRefused", "False")
    assert (
        "12 removals are not made: namespace team: 12 removals are more than the 10 that are allowed"
        in condition["message"]
    )
    assert (
        "(the owner of the QuotaCluster allows it with spec.guards.maxRemovals)"
        in condition["message"]
    )
    assert "--" not in condition["message"]
    assert len(world.kafka.truth.limits) == 15


def test_a_failed_reconciliation_keeps_facts_of_the_previous_status():
    world = kube_world()
    ran(world)
    before = world.obj["status"]
    report = Reconciliation(cluster="prod", error=ConnectError("b1:9092 refuses"))
    status = cluster_status_of(world.obj, report, now=NOW + 900)
    assert condition_of(status, "Ready")["message"] == "b1:9092 refuses"
    for name in ("counts", "clusterId", "policyInForce", "lastSuccessfulSyncTime"):
        assert status[name] == before[name]
    assert condition_of(status, "Drifted") == condition_of(before, "Drifted")


@pytest.mark.parametrize("seconds", [0, 100, 599])
def test_a_reconciliation_without_news_writes_no_status(seconds):
    world = kube_world()
    ran(world)
    before = world.obj["status"]
    world.writes.clear()
    world.clock.advance(seconds - 100)
    ran(world)
    assert world.writes == []
    assert unchanged(before, world.obj["status"])


def test_the_time_of_the_last_sync_is_refreshed_when_it_is_old():
    world = kube_world()
    ran(world)
    world.writes.clear()
    world.clock.advance(600)
    ran(world)
    assert world.writes == ["cluster"]


def test_under_observe_a_live_limit_equal_to_the_declared_one_is_synced():
    world = kube_world(
        {ALICE: {RATE: 5000.0}}, resource("a", ALICE, {RATE: 5000}), policy="Observe"
    )
    ran(world)
    assert ready(world)["reason"] == "Synced"
    document = world.objects["team/a"]["status"]
    assert condition_of(document, "Ready")["reason"] == "Synced"
    world.put(resource("a", ALICE, {RATE: 6000}))
    ran(world)
    assert ready(world)["reason"] == "ObserveOnly"
    assert condition_of(world.objects["team/a"]["status"], "Ready")["reason"] == "ObserveOnly"


def test_an_unknown_client_property_is_a_doubt_until_it_is_corrected():
    world = KubeWorld(properties={"client.idd": "x", "client.id": "y"})
    world.run()
    doubt = condition_of(world.obj["status"], "Doubtful")
    assert doubt["reason"] == "UnknownProperty"
    assert doubt["message"] == (
        "spec.properties: unknown key 'client.idd' is ignored; did you mean client.id?"
    )
    assert ready(world)["status"] == "True"
    assert [event.reason for name, event in world.happened if name == "prod"] == ["UnknownProperty"]
    world.obj["spec"]["properties"] = {"client.id": "y"}
    world.obj["metadata"] |= {"generation": 2, "resourceVersion": world.api.next_version()}
    world.run()
    assert condition_of(world.obj["status"], "Doubtful") == {}


def test_a_budget_that_is_exceeded_is_a_condition_and_withholds_the_largest_raise():
    world = kube_world(
        None,
        resource("small", ALICE, {RATE: 4096}),
        resource("large", BOB, {RATE: 90_000}),
        guards=None,
        budgets=[{"name": "broker", "limits": {"producerByteRate": 50_000}, "mode": "Refuse"}],
    )
    ran(world)
    over = condition_of(world.obj["status"], "OverBudget")
    assert over["reason"] == "BudgetExceeded"
    assert over["message"].startswith("budget broker allows 50 kB/s of producer_byte_rate")
    assert "91.9 KiB/s would be promised, 0 B/s before" in over["message"]
    reasons = {
        name: condition_of(world.objects[name]["status"], "Ready")["reason"]
        for name in ("team/small", "team/large")
    }
    assert reasons == {"team/small": "Synced", "team/large": "GuardRefused"}
    world.put(resource("large", BOB, {RATE: 9_000}))
    ran(world)
    assert condition_of(world.obj["status"], "OverBudget") == {}
