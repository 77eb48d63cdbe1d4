"""The webhook of running operators: kubectl shows warnings, from leader or standby, and is never hindered."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.kube.e2e.world import Obj, Operator, World, eventually
from tests.servers.ports import free_ports

pytestmark = pytest.mark.integration

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
        lambda: f"nobody-{port} does not exist yet" in kubectl(world, "apply", nowhere)[1],
        what="the API server to ask the webhook",
    )


def kubectl(world: World, verb: str, obj: Obj) -> tuple[int, str]:
    """Exit code and output of `kubectl apply --dry-run=server` or `kubectl diff`."""
    dry = ["--dry-run=server"] if verb == "apply" else []
    completed = world.kube.kubectl(
        verb, *dry, "-n", world.team, "-f", "-", input=json.dumps(obj), check=False
    )
    return completed.returncode, completed.stdout + completed.stderr


def test_kubectl_shows_warnings_from_either_replica(world: World) -> None:
    with called(world):
        world.cluster()
        leader, leading = serving(world)
        world.quota("alice")
        world.becomes("alice", "Synced")
        standby, standing = serving(world)
        assert (leader.metric("kquota_leader"), standby.metric("kquota_leader")) == (1.0, 0.0)
        larger = world.document("alice", limits={"producerByteRate": "2Mi"})
        slip = world.document("alice", limits={"producerByteRate": 10})

        for port in (leading, standing):
            call(world, port)
            code, text = kubectl(world, "apply", larger)
            assert (code, "guard" in text) == (0, False), text
            assert "configured (server dry run)" in text
            code, text = kubectl(world, "apply", slip)
            assert code == 0
            assert "Warning: a guard will refuse it" in text, text
            # A label, a finalizer and a status are not reviewed.
            labelled = world.kube.kubectl("-n", world.team, "label", "ckq", "alice", f"p{port}=1")
            assert "guard" not in labelled.stdout + labelled.stderr

        # The leader is gone: the standby responds without waiting for its Lease.
        leader.kill()
        assert "a guard will refuse it" in kubectl(world, "apply", slip)[1]
        # No webhook is left: every request is accepted, and the API server reports that the call failed.
        standby.kill()
        assert kubectl(world, "apply", larger)[0] == 0
