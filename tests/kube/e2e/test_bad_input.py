"""Bad values in a resource: each causes one clear condition and an event, and affects nothing else."""

import json
import time

import pytest

from tests.kube.e2e.seeing import cluster_events
from tests.kube.e2e.world import Operator, World, eventually

pytestmark = pytest.mark.integration

INTERVAL = 1.0


WRITING = ("apply", "patch", "create", "update", "delete")


def _stays_quiet(operator: Operator, *clusters: str, seconds: float = 3.0) -> None:
    """No more reconciliations than the interval requires, and no write of the operator except for the Lease."""

    def passes() -> dict[str, float]:
        return {
            cluster: operator.metric("kquota_passes_total", cluster=cluster) for cluster in clusters
        }

    def writes() -> float:
        """Writes from one metrics page, because the Lease is renewed meanwhile."""
        name = "kquota_kubernetes_requests_total"
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in operator.get("/metrics")[1].splitlines()
            if line.startswith(f"{name}{{")
            and any(f'verb="{verb}"' in line for verb in WRITING)
            and 'resource="leases"' not in line
        )

    before, written, started = passes(), writes(), time.monotonic()
    eventually(lambda: time.monotonic() - started >= seconds)
    most = (time.monotonic() - started) / (INTERVAL * 0.9) + 2
    assert writes() == written
    for cluster, count in passes().items():
        assert count - before[cluster] <= most, cluster


def test_a_quotacluster_that_refers_to_files_reads_none_and_does_not_block_others(
    world: World,
) -> None:
    secret = world.folder / "secret.properties"
    secret.write_text("password=hunter2-the-planted\n", encoding="utf-8")
    world.cluster()
    world.cluster(
        "bad",
        properties={
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"${{file:{secret}:password}}",
        },
    )
    world.cluster("worse", properties={"request.timeout.ms": "soon"})
    operator = world.start()
    world.quota("alice")
    world.quota("bob", cluster="bad")
    world.quota("carol", cluster="worse")
    world.becomes("alice", "Synced")
    bad = world.becomes("bad", "ReferenceRefused", kind="quotacluster")
    worse = world.becomes("worse", "Invalid", kind="quotacluster")
    assert world.condition("bad", "Stalled", kind="quotacluster")["status"] == "True"
    assert "sasl.jaas.config" in world.condition("bad", "Ready", kind="quotacluster")["message"]
    assert "request.timeout.ms" in world.condition("worse", "Ready", kind="quotacluster")["message"]
    for name in ("bob", "carol"):
        world.becomes(name, "ClusterInvalid")
    assert set(cluster_events(world, "ReferenceRefused", "bad")) == {"ReferenceRefused"}
    assert set(cluster_events(world, "Invalid", "worse")) == {"Invalid"}
    assert set(world.live()) == {"alice"}
    _stays_quiet(operator, "prod", "bad", "worse")
    everything = operator.log.read_text(encoding="utf-8") + json.dumps([bad, worse])
    everything += json.dumps(world.events("default")) + operator.get("/metrics")[1]
    assert "hunter2" not in everything

    # After the correction it is evaluated: here another QuotaCluster has the Kafka cluster already.
    world.cluster("bad", properties=None)
    world.kube.kubectl(
        "patch",
        "quotacluster",
        "bad",
        "--type=json",
        "-p",
        '[{"op": "remove", "path": "/spec/properties"}]',
        check=False,
    )
    world.becomes("bad", "OtherQuotaCluster", kind="quotacluster")
