"""The webhook of running operators: kubectl shows the broker's message, from leader or standby, in bounded time."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.faults import FOREVER, Fault, Refuse
from tests.cli.brokers import SandboxThread
from tests.kube.e2e.world import Obj, Operator, World, eventually
from tests.servers.ports import free_ports

pytestmark = pytest.mark.integration

ALTER_CLIENT_QUOTAS = 49
WORDS = "planted words of the broker"
NAME = "webhook-of-operators"


def serving(world: World) -> tuple[Operator, int]:
    """An operator that serves admission, and its address."""
    identity = world.kube.authority.server("webhook-of-operators")
    port = free_ports(1)[0]
    operator = world.start(
        f"--webhook-address=127.0.0.1:{port}",
        f"--webhook-cert={identity.certificate}",
        f"--webhook-key={identity.key}",
    )
    return operator, port


@contextmanager
def called(world: World) -> Iterator[None]:
    """The configuration is deleted with the test, because without a server every request would get a warning."""
    try:
        yield
    finally:
        world.kube.kubectl("delete", "validatingwebhookconfiguration", NAME, "--ignore-not-found")


def call(world: World, port: int) -> None:
    """Configure the API server to call only this webhook; return when it does."""
    bundle = base64.b64encode(world.kube.ca_file.read_bytes()).decode()
    rule = {
        "apiGroups": ["kafka-quotas.io"],
        "apiVersions": ["v1alpha1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["clientquotas"],
    }
    hook = {
        "name": f"port-{port}.kafka-quotas.io",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/validate", "caBundle": bundle},
        "rules": [rule],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }
    world.kube.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": NAME},
            "webhooks": [hook],
        }
    )
    nowhere = world.document("probe", cluster=f"nobody-{port}")
    eventually(
        lambda: (
            f'no QuotaCluster "nobody-{port}"' in kubectl(world, "apply", nowhere)[1]
            or f"nobody-{port}" in kubectl(world, "apply", nowhere)[1]
        ),
        what="the API server to ask the webhook",
    )


def kubectl(world: World, verb: str, obj: Obj) -> tuple[int, str]:
    """Exit code and output of `kubectl apply --dry-run=server` or `kubectl diff`."""
    dry = ["--dry-run=server"] if verb == "apply" else []
    completed = world.kube.kubectl(
        verb, *dry, "-n", world.team, "-f", "-", input=json.dumps(obj), check=False
    )
    return completed.returncode, completed.stdout + completed.stderr


def test_kubectl_shows_the_message_of_the_broker_from_either_replica(world: World) -> None:
    with SandboxThread() as broker, called(world):
        world.cluster(bootstrapServers=broker.bootstrap)
        leader, leading = serving(world)
        world.quota("alice")
        world.becomes("alice", "Synced")
        standby, standing = serving(world)
        assert (leader.metric("kquota_leader"), standby.metric("kquota_leader")) == (1.0, 0.0)
        larger = world.document("alice", limits={"producerByteRate": "2Mi"})

        for port in (leading, standing):
            call(world, port)
            code, text = kubectl(world, "apply", larger)
            assert code == 0, text
            assert "configured (server dry run)" in text
            assert kubectl(world, "diff", larger)[0] == 1, "there is a difference, and no error"

        failure = BrokerFailure(code=42, message=WORDS)
        broker.fail(Fault(effect=Refuse(failure=failure), api=ALTER_CLIENT_QUOTAS, times=FOREVER))
        for port in (leading, standing):
            call(world, port)
            for verb in ("apply", "diff"):
                code, text = kubectl(world, verb, larger)
                assert code != 0
                assert WORDS in text, text
        assert {str(owner): n for owner, n in broker.values().items()} != {}
        assert [values["producer_byte_rate"] for values in broker.values().values()] == [1048576.0]

        # The leader is gone: the standby responds without waiting for its Lease.
        leader.kill()
        code, text = kubectl(world, "diff", larger)
        assert WORDS in text, text
        # No webhook is left: every request is accepted, and the API server reports that the call failed.
        standby.kill()
        assert kubectl(world, "apply", larger)[0] == 0
