"""The webhook behind a real API server: the broker's message in `kubectl`, and bounded time."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.base.clock import SystemClock
from reconciler.kube.admission.webhook import serving
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.configuration.client_sessions import SessionKeeper
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.faults import FOREVER, Fault, Refuse
from reconciler.sandbox.server import Sandbox
from tests.kube.reviews import quota
from tests.servers.kube.cluster import KubeCluster
from tests.servers.processes import HANG_SECONDS

pytestmark = pytest.mark.integration

ALTER_CLIENT_QUOTAS = 49
WORDS = "planted words of the broker"


@dataclass(slots=True)
class Running:
    """A webhook and its broker, both in a thread with a separate event loop."""

    port: int
    sandbox: Sandbox
    loop: asyncio.AbstractEventLoop

    def refuse(self) -> None:
        """The broker refuses all alterations from now on."""
        failure = BrokerFailure(code=42, message=WORDS)
        fault = Fault(effect=Refuse(failure=failure), api=ALTER_CLIENT_QUOTAS, times=FOREVER)
        self.loop.call_soon_threadsafe(self.sandbox.fail, fault)

    def stop_broker(self) -> None:
        asyncio.run_coroutine_threadsafe(self.sandbox.stop(1), self.loop).result(HANG_SECONDS)


@pytest.fixture
def webhook(kube: KubeCluster, tmp_path: Path) -> Iterator[Running]:
    identity = kube.authority.server("webhook")
    started: list[Running] = []
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        settings = OperatorSettings(
            identity="pod-1",
            operator_namespace="default",
            webhook_address="127.0.0.1:0",
            webhook_cert=identity.certificate,
            webhook_key=identity.key,
        )
        clock = SystemClock()
        async with (
            Sandbox() as sandbox,
            await KubernetesApi.connect(kube.kubeconfig, clock=clock) as api,
            SessionKeeper(api, settings=settings, clock=clock) as sessions,
            serving(api, settings, sessions) as server,
        ):
            started.append(
                Running(port=server.port, sandbox=sandbox, loop=asyncio.get_running_loop())
            )
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(HANG_SECONDS)
        yield started[0]
    finally:
        stop.set()
        thread.join(HANG_SECONDS)


@pytest.fixture
def configured(
    kube: KubeCluster, kube_namespace: str, webhook: Running
) -> Iterator[tuple[str, Running]]:
    """The webhook configured for one namespace, and a QuotaCluster for its broker."""
    name = f"webhook-{kube_namespace}"
    bundle = base64.b64encode(kube.ca_file.read_bytes()).decode()
    kube.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": "clientquotas.kafka-quotas.io",
                    "clientConfig": {
                        "url": f"https://127.0.0.1:{webhook.port}/validate",
                        "caBundle": bundle,
                    },
                    "rules": [
                        {
                            "apiGroups": ["kafka-quotas.io"],
                            "apiVersions": ["v1alpha1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["clientquotas"],
                        }
                    ],
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": kube_namespace}
                    },
                    "failurePolicy": "Ignore",
                    "sideEffects": "None",
                    "timeoutSeconds": 5,
                    "admissionReviewVersions": ["v1"],
                }
            ],
        },
        {
            "apiVersion": "kafka-quotas.io/v1alpha1",
            "kind": "QuotaCluster",
            "metadata": {"name": kube_namespace},
            "spec": {"bootstrapServers": webhook.sandbox.bootstrap()},
        },
    )
    try:
        # The API server applies a configuration after a moment; a warning shows that it has.
        unknown = document(kube_namespace, cluster="no-such-cluster")
        kube.wait_until(
            lambda: "does not exist yet" in dry_run(kube, unknown)[1], "call the webhook"
        )
        yield kube_namespace, webhook
    finally:
        kube.kubectl("delete", "validatingwebhookconfiguration", name)
        kube.kubectl("delete", "quotacluster", kube_namespace)


def document(namespace: str, *, cluster: str | None = None, user: str = "alice") -> str:
    obj = quota(user, cluster=cluster or namespace)
    obj["metadata"] = {"name": user.strip(":").lower().replace(":", "-"), "namespace": namespace}
    obj["spec"]["entity"] = {"user": {"name": user}}
    return json.dumps(obj)


def dry_run(kube: KubeCluster, text: str) -> tuple[int, str]:
    done = kube.kubectl("apply", "--dry-run=server", "-f", "-", input=text, check=False)
    return done.returncode, done.stderr


def test_kubectl_shows_the_message_of_the_broker(
    kube: KubeCluster, configured: tuple[str, Running]
) -> None:
    namespace, webhook = configured
    code, text = dry_run(kube, document(namespace))
    assert (code, text) == (0, "")
    webhook.refuse()
    code, text = dry_run(kube, document(namespace))
    assert code == 1
    assert f"the broker refuses user=alice: {WORDS} (INVALID_REQUEST)" in text
    differ = kube.kubectl("diff", "-f", "-", input=document(namespace), check=False)
    assert differ.returncode > 0
    assert WORDS in differ.stderr
    assert webhook.sandbox.values() == {}


def test_warnings_are_printed_on_the_terminal(
    kube: KubeCluster, configured: tuple[str, Running]
) -> None:
    namespace, webhook = configured
    code, text = dry_run(kube, document(namespace, user="User:alice"))
    assert code == 0
    assert "Warning: user 'User:alice': quotas name the user without" in text
    webhook.stop_broker()
    code, text = dry_run(kube, document(namespace))
    assert code == 0
    assert "Warning: the broker did not validate this" in text


def test_a_changed_finalizer_status_or_label_is_not_validated_by_the_broker(
    kube: KubeCluster, configured: tuple[str, Running]
) -> None:
    namespace, webhook = configured
    kube.kubectl("apply", "-f", "-", input=document(namespace))
    webhook.refuse()
    done = kube.kubectl("-n", namespace, "label", "clientquota", "alice", "a=b")
    assert "labeled" in done.stdout
    patch = '{"metadata": {"finalizers": ["kafka-quotas.io/release"]}}'
    kube.kubectl("-n", namespace, "patch", "ckq", "alice", "--type=merge", "-p", patch)
    kube.kubectl("-n", namespace, "delete", "ckq", "alice", "--wait=false")
    patch = '{"metadata": {"finalizers": null}}'
    kube.kubectl("-n", namespace, "patch", "ckq", "alice", "--type=merge", "-p", patch)
