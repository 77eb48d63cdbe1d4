"""Validation of an admission request by the embedded broker: validate-only, rights, caches, other users."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reconciler.errors import ClientError, ConfigError, KubernetesUnavailable
from reconciler.kube.admission.broker_validation import KEPT_SECONDS, LiveBrokerValidator
from reconciler.kube.api.custom_resources import Resource
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


class World:
    """A broker, an API server with a QuotaCluster, and the tested object."""

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


def story(
    test: Callable[[World], Awaitable[None]], settings: SandboxSettings | None = None
) -> None:
    async def run() -> None:
        async with Sandbox(settings) as sandbox:
            world = World(sandbox)
            async with world.sessions:
                await test(world)

    asyncio.run(run())


async def verdict_on(world: World, alterations: list[Alteration]) -> Any:
    cluster = await world.consultant.cluster("prod")
    assert cluster is not None
    return await world.consultant.ask(cluster, alterations)


def test_the_broker_validates_and_nothing_is_changed() -> None:
    async def test(world: World) -> None:
        verdict = await verdict_on(world, GOOD)
        assert (verdict.source, dict(verdict.rejections), verdict.reason) == ("broker", {}, "")
        verdict = await verdict_on(world, BAD)
        assert isinstance(verdict.rejections[ALICE], Rejected)
        assert world.sandbox.values() == {}

    story(test)


def test_without_the_right_the_rules_of_the_version_line_are_used() -> None:
    async def test(world: World) -> None:
        data = {"password": base64.b64encode(b"r").decode()}
        metadata = {
            "name": "login",
            "namespace": "kafka",
            "annotations": {"kafka-quotas.io/quota-cluster": "prod"},
        }
        world.api.put(SECRETS, {"metadata": metadata, "data": data})
        verdict = await verdict_on(world, BAD)
        assert verdict.source.startswith("sandbox ")
        assert "AlterConfigs" in verdict.reason
        assert ALICE in verdict.rejections
        assert (await verdict_on(world, GOOD)).rejections == {}

    story(
        test,
        SandboxSettings(
            users={"reader": "r"},
            authorizer=Authorizer(grants={"reader": READER}),
            listeners=(Listener(protocol=ListenerProtocol.SASL_PLAINTEXT),),
        ),
    )


def test_an_unexpected_cluster_id_gives_no_verdict() -> None:
    async def test(world: World) -> None:
        world.put(expectedClusterId="x" * 22)
        verdict = await verdict_on(world, BAD)
        assert (verdict.source, dict(verdict.rejections)) == ("none", {})
        assert "Kafka cluster id is not the expected one" in verdict.reason

    story(test)


def test_a_hundred_requests_read_the_quota_cluster_once() -> None:
    async def test(world: World) -> None:
        for _ in range(100):
            await verdict_on(world, GOOD)
        assert [call for call in world.api.calls if call[0] == "get"] == [
            ("get", "quotaclusters", "", "prod")
        ]
        world.clock.advance(KEPT_SECONDS)
        await verdict_on(world, GOOD)
        assert len(world.api.calls) == 2

    story(test)


def test_names_of_unknown_clusters_are_not_cached_forever() -> None:
    async def test(world: World) -> None:
        for number in range(50):
            assert await world.consultant.cluster(f"nobody-{number}") is None
            world.clock.advance(1)
        assert len(world.consultant._clusters) <= KEPT_SECONDS + 1

    story(test)


def test_a_cluster_of_another_operator_or_with_an_invalid_spec_is_not_contacted() -> None:
    async def test(world: World) -> None:
        world.put("theirs", operatorClass="other")
        with pytest.raises(ConfigError, match="another operator"):
            await world.consultant.cluster("theirs")
        world.put("sly", properties={"ssl.truststore.location": "/etc/shadow"})
        with pytest.raises(ConfigError, match="file paths are refused"):
            await world.consultant.cluster("sly")

    story(test)


def test_an_unreachable_broker_raises_a_client_error() -> None:
    async def test(world: World) -> None:
        cluster = await world.consultant.cluster("prod")
        assert cluster is not None
        await world.sandbox.stop(1)
        with pytest.raises(ClientError):
            await world.consultant.ask(cluster, GOOD)

    story(test)


async def searched(world: World, times: int) -> None:
    """Search for deleted QuotaClusters this many times, then three times without an API server."""
    listings: list[str] = []
    ended = asyncio.Event()

    def before(verb: str, *_: str) -> None:
        listings.append(verb)
        if len(listings) == times + 3:
            ended.set()
        if len(listings) > times:
            raise KubernetesUnavailable("away")

    world.api.before = before
    searching = asyncio.ensure_future(world.consultant.close_sessions())
    await ended.wait()
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    assert set(listings) == {"list"}


def test_the_session_of_a_deleted_cluster_is_closed_by_the_second_search() -> None:
    async def test(world: World) -> None:
        world.put("other")
        for name in ("prod", "other"):
            cluster = await world.consultant.cluster(name)
            assert cluster is not None
            _ = await world.consultant.ask(cluster, GOOD)
        await world.api.delete(QUOTA_CLUSTERS, None, "prod")
        await searched(world, 1)
        assert world.sessions.current("prod") is not None
        await searched(world, 2)
        assert world.sessions.current("prod") is None
        assert world.sessions.current("other") is not None

    story(test)


def test_a_session_stays_while_the_api_server_does_not_answer() -> None:
    async def test(world: World) -> None:
        await verdict_on(world, GOOD)
        await searched(world, 0)
        assert world.sessions.current("prod") is not None

    story(test)


def test_a_client_that_the_operator_closed_is_not_used_again() -> None:
    async def test(world: World) -> None:
        await verdict_on(world, GOOD)
        closed = world.sessions.current("prod")
        await world.sessions.forget("prod")
        await verdict_on(world, GOOD)
        assert world.sessions.current("prod") not in {None, closed}

    story(test)


def test_clusters_of_a_file_need_no_api_server() -> None:
    async def test(world: World) -> None:
        validator = LiveBrokerValidator(
            world.api,
            world.sessions,
            clock=world.clock,
            from_file={"prod": Resource(name="prod", spec={"bootstrapServers": "b:1"})},
        )
        assert await validator.cluster("prod") is not None
        assert await validator.cluster("other") is None
        assert world.api.calls == []

    story(test)
