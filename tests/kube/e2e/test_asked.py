"""Requests to the operator besides limits: reconcile now; clusters that are not its own."""

import json
import subprocess

import pytest

from tests.kube.e2e.seeing import cluster_events, orphans
from tests.kube.e2e.world import KQUOTA, World, eventually
from tests.servers import raw_quotas
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

MIB = 1048576.0


def _reconcile(world: World, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(KQUOTA), "reconcile", *arguments, "--kubeconfig", str(world.kube.kubeconfig)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


def test_a_requested_reconciliation_starts_immediately_and_the_command_prints_its_result(
    world: World,
) -> None:
    world.cluster(interval="1h")
    operator = world.start()
    world.quota("alice")
    world.quota("loser", user="alice", limits={"producerByteRate": "2Mi"})
    world.quota("paused", suspend=True)
    world.becomes("alice", "Synced")
    world.becomes("loser", "Conflict")
    world.becomes("paused", "Suspended")
    options = ("--namespace", world.team, "--wait")

    completed = _reconcile(world, "alice", *options, "--format", "json")
    assert completed.returncode == 0, completed.stderr
    assert json.loads(completed.stdout)["handled"] is True
    assert world.get("alice")["status"]["lastHandledReconcileAt"]
    assert _reconcile(world, "loser", *options).returncode == 1
    assert _reconcile(world, "paused", *options).returncode == 1
    assert _reconcile(world, "nobody", *options).returncode == 1

    # Between two intervals there is no reconciliation, unless one is requested; drift needs two.
    raw_quotas.set_quotas(
        world.kafka.port(), {raw_quotas.entity(user="alice"): {"producer_byte_rate": 3 * MIB}}
    )
    assert _reconcile(world, "prod", "--cluster", "--wait").returncode == 0
    completed = _reconcile(world, "alice", *options, "--detailed-exitcode")
    assert (completed.returncode, world.reason("alice")) == (2, "Drifted"), (
        completed.stdout + completed.stderr
    )

    world.kube.kubectl(
        "annotate",
        "clientquota",
        "alice",
        "-n",
        world.team,
        "--overwrite",
        "kafka-quotas.io/requestedAt=by hand",
    )
    eventually(lambda: world.get("alice")["status"]["lastHandledReconcileAt"] == "by hand")
    assert operator.metric("kquota_passes_total", cluster="prod") < 20


def test_a_cluster_with_an_unexpected_id_is_never_written(world: World) -> None:
    world.cluster()
    world.start("--deletion-timeout=6s")
    world.quota("alice", deletionPolicy="Delete")
    world.quota("bob", deletionPolicy="Delete")
    world.quota("carol", deletionPolicy="Delete")
    for name in ("alice", "bob", "carol"):
        world.becomes(name, "Synced")
    world.cluster(expectedClusterId="AAAAAAAAAAAAAAAAAAAAAA")
    world.becomes("prod", "WrongCluster", kind="quotacluster")
    world.quota("alice", limits={"producerByteRate": "2Mi"}, deletionPolicy="Delete")
    world.becomes("alice", "WrongCluster")
    world.delete("bob")
    eventually(lambda: not world.get("bob"), what="the deletion to give up")
    assert {name: values["producer_byte_rate"] for name, values in world.live().items()} == {
        "alice": MIB,
        "bob": MIB,
        "carol": MIB,
    }
    assert cluster_events(world, "WrongCluster")

    # The orphaned quota of bob's document is recorded for the cluster in which it was applied.
    assert orphans(world) == {"user=bob producer_byte_rate"}
    world.cluster()
    world.becomes("alice", "Synced")
    counts = world.becomes("prod", "Synced", kind="quotacluster")["status"]["counts"]
    assert (counts["orphaned"], counts["unmanaged"]) == (1, 0)
    assert world.live()["alice"] == {"producer_byte_rate": 2 * MIB}


def test_only_one_quotacluster_manages_a_kafka_cluster_and_classes_are_separate(
    world: World,
) -> None:
    world.cluster()
    world.start()
    world.quota("alice")
    world.becomes("alice", "Synced")
    world.cluster("twin")
    world.cluster("foreign", operatorClass="blue")
    world.quota("bob", cluster="twin")
    world.quota("carol", cluster="foreign")
    world.becomes("twin", "OtherQuotaCluster", kind="quotacluster")
    world.becomes("bob", "OtherQuotaCluster")
    assert world.reason("prod", kind="quotacluster") == "Synced"
    assert cluster_events(world, "OtherQuotaCluster", "twin")
    # After the first one is deleted, the other one takes over.
    world.kube.kubectl("delete", "quotacluster", "prod")
    world.becomes("bob", "Synced")
    world.becomes("alice", "ClusterNotFound")
    assert set(world.live()) == {"alice", "bob"}
    for name, kind in (("foreign", "quotacluster"), ("carol", "clientquota")):
        assert "status" not in world.get(name, kind=kind), "it belongs to another operator"
    world.kube.kubectl("delete", "quotacluster", "twin")
    world.becomes("bob", "ClusterNotFound")
    world.start("--operator-class=blue", "--no-leader-elect")
    world.becomes("carol", "Synced")
