"""Administration of an installation: release without an operator, new CRDs while it runs, two operators by class."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.kube.e2e.seeing import audited, has_finalizer, orphans, sent, through, watched_kafka
from tests.kube.e2e.world import KQUOTA, World, eventually
from tests.servers import raw_quotas
from tests.servers.kube.cluster import CRDS
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

MIB = 1048576.0
ALONE = "--no-leader-elect"


def kquota(world: World, *arguments: str) -> str:
    """The output of the command, run by an administrator."""
    done = subprocess.run(
        [
            str(KQUOTA),
            *arguments,
            f"--operator-namespace={world.place.namespace}",
            f"--kubeconfig={world.kube.kubeconfig}",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_namespace_blocked_by_a_stopped_operator_is_deleted_after_a_release(world: World) -> None:
    world.cluster()
    first = world.start(ALONE)
    namespace_to_go = world.kube.fresh_namespace()
    world.quota("alice", namespace=namespace_to_go, deletionPolicy="Delete")
    world.quota("bob", namespace=namespace_to_go)
    world.quota("carol", deletionPolicy="Delete")
    for name, namespace in (
        ("alice", namespace_to_go),
        ("bob", namespace_to_go),
        ("carol", world.team),
    ):
        world.becomes(name, "Synced", namespace=namespace)
    first.kill()

    world.kube.kubectl("delete", "namespace", namespace_to_go, "--wait=false")
    eventually(
        lambda: not world.get("bob", namespace=namespace_to_go), what="what nobody holds to go"
    )
    assert has_finalizer(world.get("alice", namespace=namespace_to_go))
    result = json.loads(
        kquota(world, "operator", "release", "--namespace", namespace_to_go, "--format=json")
    )
    assert result["documents"] == [f"{namespace_to_go}/alice"]
    eventually(
        lambda: world.kube.api.get(f"/api/v1/namespaces/{namespace_to_go}").status == 404,
        what="the namespace to go",
    )
    assert set(world.live()) == {"alice", "bob", "carol"}, "quotas stay unchanged"
    assert orphans(world) == {"user=alice producer_byte_rate"}
    assert has_finalizer(world.get("carol")), "only one namespace was released"

    # A later operator knows the earlier owner: no document removes the limit, and a new one may adopt it.
    second = world.start(ALONE)
    eventually(lambda: second.metric("kquota_passes_total") >= 3)
    counts = world.get("prod", kind="quotacluster")["status"]["counts"]
    assert (counts["orphaned"], counts["unmanaged"]) == (2, 0)
    assert set(world.live()) == {"alice", "bob", "carol"}
    world.quota("alice", deletionPolicy="Delete")
    world.becomes("alice", "Synced")
    assert audited(second) == [], "an unchanged object is not written"
    for name in ("alice", "carol"):
        world.delete(name)
    eventually(lambda: set(world.live()) == {"bob"}, what="what was adopted to be removed")
    eventually(lambda: orphans(world) == {"user=bob producer_byte_rate"})


def test_new_crds_during_operation_lose_and_rewrite_nothing(world: World, tmp_path: Path) -> None:
    kube = world.kube
    for path in CRDS.glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(
            text.replace("description: '", "description: 'Earlier. ", 1)
        )
    kube.install_crds(tmp_path)
    try:
        with watched_kafka(world) as proxy:
            world.cluster(bootstrapServers=through(proxy))
            operator = world.start()
            for number in range(5):
                world.quota(f"user-{number}", deletionPolicy="Delete")
            before = {}
            for number in range(5):
                before[number] = world.becomes(f"user-{number}", "Synced")
            eventually(lambda: world.reason("prod", kind="quotacluster") == "Synced")
            written = sent(proxy)
            with world.counted() as writes:
                kube.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
                kube.wait_established("-f", str(CRDS))
                passes = operator.metric("kquota_passes_total")
                eventually(lambda: operator.metric("kquota_passes_total") >= passes + 3)
            # Deletions come from the end of other tests' namespaces.
            own_writes = {
                what: n for what, n in writes.items() if "quota" in what and "DELETE" not in what
            }
            assert own_writes == {}, writes
            assert sent(proxy) == written
            for number in range(5):
                assert world.get(f"user-{number}") == before[number]
            world.quota("user-0", limits={"producerByteRate": "2Mi"}, deletionPolicy="Delete")
            world.becomes("user-0", "Synced")
            world.delete("user-1")
            eventually(lambda: "user-1" not in world.live())
            assert operator.child.running
            assert world.live()["user-0"] == {"producer_byte_rate": 2 * MIB}
    finally:
        kube.install_crds()


def test_operators_of_two_classes_do_not_change_each_others_clusters(world: World) -> None:
    plain = world.start()
    blue = world.start("--operator-class=blue", ALONE)
    world.cluster("prod")
    world.quota("alice")
    world.becomes("alice", "Synced")
    world.cluster("other", operatorClass="blue", bootstrapServers="127.0.0.1:1")
    world.quota("bob", cluster="other")
    eventually(lambda: blue.metric("kquota_passes_total", cluster="other") >= 1)
    assert plain.metric("kquota_passes_total", cluster="other") == 0
    assert blue.metric("kquota_passes_total", cluster="prod") == 0
    assert audited(blue) == []
    assert len(audited(plain)) == 1
    # The cluster changes the operator: one releases it, the other continues without writing.
    with watched_kafka(world) as proxy:
        world.cluster("prod", operatorClass="blue", bootstrapServers=through(proxy))
        eventually(lambda: blue.metric("kquota_passes_total", cluster="prod") >= 2)
        eventually(lambda: plain.metric("kquota_passes_total", cluster="prod") == 0)
        assert sent(proxy) == 0
        world.quota("alice", limits={"producerByteRate": "2Mi"})
        world.becomes("alice", "Synced")
        assert (len(audited(plain)), len(audited(blue))) == (1, 1)
        assert sent(proxy) == 1
    assert raw_quotas.describe(world.kafka.port()) != {}
