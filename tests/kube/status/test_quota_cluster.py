"""The status of a QuotaCluster: counts, drift, errors; errors of a tenant are not errors of the cluster."""

from reconciler.kube.api.custom_resources import condition_of
from reconciler.kube.status.quota_cluster import MOST_DRIFT
from reconciler.quota.entity import entity
from tests.kube.crd_schema import faults
from tests.kube.scenarios import kube_world, ran
from tests.kube.worlds import KubeWorld, resource
from tests.reconcile.scenarios import ALICE, BOB, RATE


def ready(world):
    return condition_of(world.obj["status"], "Ready")


def test_listed_drift_is_bounded_and_counted_completely():
    subjects = [entity(user=f"user-{number:02}") for number in range(MOST_DRIFT + 5)]
    world = kube_world(
        None, *(resource(f"d{n}", subject, {RATE: 4096}) for n, subject in enumerate(subjects))
    )
    ran(world)
    for subject in subjects:
        world.kafka.write(subject, RATE, None)
    ran(world)
    status = world.obj["status"]
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
    for subject in subjects:
        world.kafka.write(subject, RATE, 4096.0)
    ran(world)
    assert "drift" not in world.obj["status"]
    assert world.obj["status"]["counts"]["drifted"] == 0


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
