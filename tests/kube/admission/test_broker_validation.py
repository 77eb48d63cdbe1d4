"""Asking a broker for an admission request, against the embedded one: validate-only, rights, caches, strangers."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reconciler.errors import ClientError, ConfigError
from reconciler.kube.admission.broker_validation import (
    KEPT_SECONDS,
    LiveBrokerValidator,
)
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS, SECRETS
from reconciler.kube.configuration.client_sessions import SessionKeeper
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.quota.entity import entity
from reconciler.quota.outcome import Alteration, Rejected
from reconciler.sandbox.authorizer import READER, Authorizer
from reconciler.sandbox.server import Sandbox
from reconciler.sandbox.settings import Listener, ListenerProtocol, SandboxSettings
from tests.fakes.clock import FakeClock
from tests.fakes.kube_api import FakeKubeApi

ALICE = entity(user="alice")
GOOD = [Alteration(ALICE, (("producer_byte_rate", 1024.0),))]
BAD = [Alteration(ALICE, (("connection_creation_rate", 5.0),))]


class Here:
    """A broker, an API server with a QuotaCluster, and a consultant."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.api = FakeKubeApi()
        self.clock = FakeClock()
        settings = OperatorSettings(identity="pod-1", operator_namespace="kafka")
        self.sessions = SessionKeeper(self.api, settings=settings, clock=self.clock)
        self.consultant = LiveBrokerValidator(self.api, self.sessions, clock=self.clock)
        self.put()

    def put(self, name: str = "prod", **spec: Any) -> None:
        properties: dict[str, str] = {}
        if self.sandbox.settings.users:
            properties = {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "reader",
            }
            spec.setdefault("secretRef", {"name": "login"})
        self.api.put(
            QUOTA_CLUSTERS,
            {
                "metadata": {"name": name},
                "spec": {
                    "bootstrapServers": self.sandbox.bootstrap(),
                    "properties": properties,
                    **spec,
                },
            },
        )


def story(test: Callable[[Here], Awaitable[None]], settings: SandboxSettings | None = None) -> None:
    async def run() -> None:
        async with Sandbox(settings) as sandbox:
            here = Here(sandbox)
            async with here.sessions:
                await test(here)

    asyncio.run(run())


async def asked(here: Here, alterations: list[Alteration]) -> Any:
    cluster = await here.consultant.cluster("prod")
    assert cluster is not None
    return await here.consultant.ask(cluster, alterations)


def test_the_broker_is_asked_and_nothing_is_changed() -> None:
    async def test(here: Here) -> None:
        verdict = await asked(here, GOOD)
        assert (verdict.source, dict(verdict.rejections), verdict.reason) == ("broker", {}, "")
        verdict = await asked(here, BAD)
        assert isinstance(verdict.rejections[ALICE], Rejected)
        assert here.sandbox.values() == {}

    story(test)


def test_without_the_right_the_rules_of_its_line_are_asked() -> None:
    async def test(here: Here) -> None:
        data = {"password": base64.b64encode(b"r").decode()}
        metadata = {
            "name": "login",
            "namespace": "kafka",
            "annotations": {"kafka-quotas.io/quota-cluster": "prod"},
        }
        here.api.put(SECRETS, {"metadata": metadata, "data": data})
        verdict = await asked(here, BAD)
        assert verdict.source.startswith("sandbox ")
        assert "AlterConfigs" in verdict.reason
        assert ALICE in verdict.rejections
        assert (await asked(here, GOOD)).rejections == {}

    story(
        test,
        SandboxSettings(
            users={"reader": "r"},
            authorizer=Authorizer(grants={"reader": READER}),
            listeners=(Listener(protocol=ListenerProtocol.SASL_PLAINTEXT),),
        ),
    )


def test_another_cluster_than_expected_gives_no_verdict() -> None:
    async def test(here: Here) -> None:
        here.put(expectedClusterId="x" * 22)
        verdict = await asked(here, BAD)
        assert (verdict.source, dict(verdict.rejections)) == ("none", {})
        assert "Kafka cluster id is not the expected one" in verdict.reason

    story(test)


def test_a_hundred_requests_read_the_cluster_once() -> None:
    async def test(here: Here) -> None:
        for _ in range(100):
            await asked(here, GOOD)
        assert [call for call in here.api.calls if call[0] == "get"] == [
            ("get", "quotaclusters", "", "prod")
        ]
        here.clock.advance(KEPT_SECONDS)
        await asked(here, GOOD)
        assert len(here.api.calls) == 2

    story(test)


def test_names_of_strangers_are_not_kept_for_ever() -> None:
    async def test(here: Here) -> None:
        for number in range(50):
            assert await here.consultant.cluster(f"nobody-{number}") is None
            here.clock.advance(1)
        assert len(here.consultant._clusters) <= KEPT_SECONDS + 1

    story(test)


def test_a_cluster_of_another_operator_or_with_faults_is_not_asked() -> None:
    async def test(here: Here) -> None:
        here.put("theirs", operatorClass="other")
        with pytest.raises(ConfigError, match="another operator"):
            await here.consultant.cluster("theirs")
        here.put("sly", properties={"ssl.truststore.location": "/etc/shadow"})
        with pytest.raises(ConfigError, match="file paths are refused"):
            await here.consultant.cluster("sly")

    story(test)


def test_a_broker_that_is_away_is_an_error_for_the_caller_to_tell() -> None:
    async def test(here: Here) -> None:
        cluster = await here.consultant.cluster("prod")
        assert cluster is not None
        await here.sandbox.stop(1)
        with pytest.raises(ClientError):
            await here.consultant.ask(cluster, GOOD)

    story(test)


def test_clusters_of_a_file_need_no_api_server() -> None:
    async def test(here: Here) -> None:
        found = LiveBrokerValidator(
            here.api,
            here.sessions,
            clock=here.clock,
            from_file={"prod": {"spec": {"bootstrapServers": "b:1"}, "metadata": {"name": "prod"}}},
        )
        assert await found.cluster("prod") is not None
        assert await found.cluster("other") is None
        assert here.api.calls == []

    story(test)
