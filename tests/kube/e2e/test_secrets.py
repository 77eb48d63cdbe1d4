"""Credentials by secretRef: SCRAM over TLS with the documented ACLs, rotation, invalid Secrets, and no leak."""

import json
from collections.abc import Iterator

import pytest

from tests.kube.e2e.world import Operator, World
from tests.servers import raw_quotas
from tests.servers.kafka import KafkaCluster, StartKafka

pytestmark = pytest.mark.integration

MIB = 1048576.0
PASSWORDS = {
    "admin": "planted-admin-word",
    "planner": "planted-planner-word",
    "applier": "planted-applier-word",
}
WRONG = "planted-wrong-word"
SECRETS = "secretsoftest"


@pytest.fixture
def secured(world: World, kafka: StartKafka) -> Iterator[World]:
    """A world whose broker requires SCRAM over TLS, with the ACLs of docs/security.md."""
    broker = kafka("4.4.0", listeners=("PLAINTEXT", "SASL_SSL"), users=PASSWORDS, acls=True)
    raw_quotas.clear(broker.port())
    world.kafka = broker
    try:
        yield world
    finally:
        world.kube.kubectl("delete", "secrets", "-n", world.place.namespace, "-l", SECRETS)


def authority(broker: KafkaCluster) -> str:
    assert broker.authority is not None
    return broker.authority.certificate_file.read_text(encoding="ascii")


def secret(world: World, name: str = "kafka", **texts: str | None) -> str:
    """Create or change a Secret of the operator's namespace; return its resource version."""
    present = {key.replace("_", "."): text for key, text in texts.items() if text is not None}
    world.kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "labels": {SECRETS: "yes"},
                "annotations": {"kafka-quotas.io/quota-cluster": f"prod,{name}"},
            },
            "stringData": present,
        },
        namespace=world.place.namespace,
    )
    completed = world.kube.kubectl("get", "secret", name, "-n", world.place.namespace, "-o", "json")
    return str(json.loads(completed.stdout)["metadata"]["resourceVersion"])


def cluster(world: World, name: str = "prod", *, of: str = "kafka") -> None:
    """A QuotaCluster that logs in with a Secret."""
    world.cluster(
        name,
        bootstrapServers=world.kafka.bootstrap("SASL_SSL"),
        properties={"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
        secretRef={"name": of},
    )


def all_visible_text(world: World, operator: Operator) -> str:
    """All visible output of the operator: log, metrics, every object that it writes."""
    kinds = "clientquotas,quotaclusters,configmaps,leases,events.events.k8s.io"
    objects = world.kube.kubectl("get", kinds, "-A", "-o", "yaml").stdout
    log = operator.log.read_text(encoding="utf-8")
    return "\n".join((log, operator.get("/metrics")[1], objects))


def leaked(world: World, operator: Operator, *more: str) -> set[str]:
    text = all_visible_text(world, operator)
    return {word for word in (*PASSWORDS.values(), WRONG, *more) if word in text}


def test_a_rotated_secret_is_used_without_a_restart_and_a_wrong_one_is_not(secured: World) -> None:
    world = secured
    ca = authority(world.kafka)
    secret(world, ca_crt=ca, username="planner", password=PASSWORDS["planner"])
    cluster(world)
    operator = world.start("--log-level=debug")
    world.quota("alice")
    # A user who may only read gets a message with the missing right.
    world.becomes("alice", "AuthorizationFailed")
    world.becomes("prod", "AuthorizationFailed", kind="quotacluster")
    assert world.live() == {}

    _ = secret(world, ca_crt=ca, username="applier", password=PASSWORDS["applier"])
    world.becomes("alice", "Synced")
    world.becomes("prod", "Synced", kind="quotacluster")
    assert world.live() == {"alice": {"producer_byte_rate": MIB}}

    wrong = secret(world, ca_crt=ca, username="applier", password=WRONG)
    status = world.becomes("prod", "SecretRejected", kind="quotacluster")["status"]
    assert wrong in status["conditions"][0]["message"]
    world.quota("alice", limits={"producerByteRate": "2Mi"})
    world.becomes("alice", "Synced")
    assert world.live() == {"alice": {"producer_byte_rate": 2 * MIB}}, "the old session still works"
    events = [event for event in world.events("default") if event["reason"] == "SecretRejected"]
    assert len(events) == 1

    # A Secret that lost a key, or was deleted, does not end a working session.
    world.kube.kubectl("delete", "secret", "kafka", "-n", world.place.namespace)
    world.quota("alice", limits={"producerByteRate": "3Mi"})
    world.becomes("alice", "Synced")

    _ = secret(world, ca_crt=ca, username="applier", password=PASSWORDS["applier"])
    world.becomes("prod", "Synced", kind="quotacluster")
    assert leaked(world, operator) == set()
    assert operator.stop() == 0
