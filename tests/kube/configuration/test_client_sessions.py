"""Sessions during the life of their credentials, against the embedded broker: rotated, wrong, missing, restored."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable

import pytest

from reconciler.errors import (
    AuthenticationError,
    CredentialsError,
    KubernetesUnavailable,
    WrongCluster,
)
from reconciler.kube.api.resource_paths import SECRETS
from reconciler.kube.configuration.client_sessions import REFUSED_AGAIN_SECONDS, SessionKeeper
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.manifest.project.cluster import QuotaCluster, from_spec
from reconciler.sandbox.server import Sandbox
from reconciler.sandbox.settings import Listener, ListenerProtocol, SandboxSettings
from tests.fakes.clock import FakeClock
from tests.fakes.kube_api import FakeKubeApi
from tests.servers.processes import HANG_SECONDS

USERS = {"alice": "first-planted", "bob": "second-planted"}
SETTINGS = OperatorSettings(identity="pod-1", operator_namespace="kafka")


class World:
    """A broker, an API server with one Secret, and the sessions between them."""

    def __init__(self, sandbox: Sandbox, clock: FakeClock) -> None:
        self.sandbox = sandbox
        self.api = FakeKubeApi()
        self.clock = clock
        self.requests: list[tuple[str, str]] = []
        self.keeper = SessionKeeper(self.api, settings=SETTINGS, clock=clock, metrics=self)

    def kafka(self, cluster: str, api: str, seconds: float) -> None:
        self.requests.append((cluster, api))

    def write(self, username: str = "", word: str = "", **more: str) -> None:
        values = {"username": username, "password": word}
        values = {key: text for key, text in values.items() if text} | more
        data = {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}
        metadata = {
            "name": "login",
            "namespace": "kafka",
            "annotations": {"kafka-quotas.io/quota-cluster": "test, prod"},
        }
        self.api.put(SECRETS, {"metadata": metadata, "data": data})

    def cluster(self, **properties: str) -> QuotaCluster:
        spec = {
            "bootstrapServers": self.sandbox.bootstrap(),
            "secretRef": {"name": "login"},
            "properties": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                **properties,
            },
        }
        return from_spec("prod", spec)

    def connections(self) -> set[asyncio.Task[object]]:
        """Open connections of the broker."""
        return {task for doors in self.sandbox._listeners.values() for task in doors.tasks}

    async def answering(self) -> str:
        client = await self.keeper.for_(self.cluster())
        return (await client.cluster()).id


def away(*_: str) -> None:
    """The API server does not answer."""
    raise KubernetesUnavailable("away")


def story(test: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        settings = SandboxSettings(
            users=USERS,
            listeners=(Listener(protocol=ListenerProtocol.SASL_PLAINTEXT),),
            failed_authentication_delay=0.0,
        )
        async with Sandbox(settings) as sandbox:
            world = World(sandbox, FakeClock())
            async with world.keeper:
                await test(world)

    asyncio.run(run())


def test_rotated_credentials_are_used_from_the_next_call_on() -> None:
    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        first = await world.keeper.for_(world.cluster())
        await first.cluster()
        world.write("bob", "second-planted")
        second = await world.keeper.for_(world.cluster())
        assert second is not first
        await second.cluster()

    story(test)


def test_a_wrong_password_keeps_the_old_session_and_is_not_retried_immediately() -> None:
    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        first = await world.keeper.for_(world.cluster())
        await first.cluster()
        good = world.keeper.state("prod").version
        world.write("alice", "wrong-planted")
        for _ in range(5):
            assert await world.keeper.for_(world.cluster()) is first
            world.clock.advance(60)
        tries = world.requests.count(("prod", "ApiVersions"))
        state = world.keeper.state("prod")
        assert state.version == good
        assert state.rejected_version not in {"", good}
        assert isinstance(state.problem, AuthenticationError)
        await world.keeper.for_(world.cluster())
        assert world.requests.count(("prod", "ApiVersions")) == tries
        world.write("bob", "second-planted")
        assert await world.keeper.for_(world.cluster()) is not first
        after = world.keeper.state("prod")
        assert (after.rejected_version, after.problem) == ("", None)

    story(test)


def test_refused_credentials_are_retried_after_ten_minutes() -> None:
    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        await (await world.keeper.for_(world.cluster())).cluster()
        world.write("carol", "third-planted")
        await world.keeper.for_(world.cluster())
        world.sandbox.settings.users["carol"] = "third-planted"
        await world.keeper.for_(world.cluster())
        assert world.keeper.state("prod").problem is not None
        world.clock.advance(REFUSED_AGAIN_SECONDS)
        await world.keeper.for_(world.cluster())
        assert world.keeper.state("prod").problem is None
        del world.sandbox.settings.users["carol"]

    story(test)


def test_a_refused_first_login_is_reported_not_retried_immediately_and_recovers() -> None:
    async def test(world: World) -> None:
        world.write("alice", "wrong-planted")
        client = await world.keeper.for_(world.cluster())
        with pytest.raises(AuthenticationError):
            await client.cluster()
        tries = len(world.requests)
        for _ in range(3):
            with pytest.raises(AuthenticationError):
                await world.keeper.for_(world.cluster())
        assert len(world.requests) == tries
        world.write("alice", "first-planted")
        assert await world.answering() == world.sandbox.cluster_id

    story(test)


def test_a_refused_first_login_is_retried_after_ten_minutes() -> None:
    async def test(world: World) -> None:
        world.write("alice", "wrong-planted")
        client = await world.keeper.for_(world.cluster())
        with pytest.raises(AuthenticationError):
            await client.cluster()
        with pytest.raises(AuthenticationError):
            await world.keeper.for_(world.cluster())
        world.clock.advance(REFUSED_AGAIN_SECONDS)
        again = await world.keeper.for_(world.cluster())
        assert again is not client
        with pytest.raises(AuthenticationError):
            await again.cluster()

    story(test)


def test_a_missing_secret_is_named_and_one_that_is_deleted_later_keeps_the_session() -> None:
    async def test(world: World) -> None:
        with pytest.raises(CredentialsError, match="there is no Secret kafka/login"):
            await world.keeper.for_(world.cluster())
        world.write("alice", "first-planted")
        client = await world.keeper.for_(world.cluster())
        world.api.objects.clear()
        assert await world.keeper.for_(world.cluster()) is client
        problem = world.keeper.state("prod").problem
        assert isinstance(problem, CredentialsError)
        world.write("alice", "first-planted")
        assert await world.keeper.for_(world.cluster()) is client
        assert world.keeper.state("prod").problem is None

    story(test)


def test_an_incomplete_secret_keeps_the_session_and_names_the_key() -> None:
    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        client = await world.keeper.for_(world.cluster())
        world.write("alice")
        assert await world.keeper.for_(world.cluster()) is client
        problem = world.keeper.state("prod").problem
        assert isinstance(problem, CredentialsError)
        assert "password" in problem.keys

    story(test)


def test_a_secret_that_no_longer_names_the_cluster_ends_its_session() -> None:
    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        replaced = await world.keeper.for_(world.cluster())
        await replaced.cluster()
        world.write("bob", "second-planted")
        current = await world.keeper.for_(world.cluster())
        await current.cluster()
        connections = world.connections()
        secret = world.api.find(SECRETS, "kafka", "login")
        secret["metadata"]["annotations"]["kafka-quotas.io/quota-cluster"] = "test"
        world.api.put(SECRETS, secret)
        for _ in range(2):
            with pytest.raises(CredentialsError, match="does not allow QuotaCluster prod"):
                await world.keeper.for_(world.cluster())
        assert world.keeper.state("prod").version == ""
        _, still_open = await asyncio.wait(connections, timeout=HANG_SECONDS)
        assert still_open == set()
        world.write("bob", "second-planted")
        assert await world.answering() == world.sandbox.cluster_id

    story(test)


def test_unreachable_brokers_do_not_reject_new_credentials() -> None:
    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        client = await world.keeper.for_(world.cluster())
        await client.cluster()
        cluster = world.cluster()
        await world.sandbox.stop(1)
        world.write("bob", "second-planted")
        assert await world.keeper.for_(cluster) is client
        assert world.keeper.state("prod").rejected_version == ""
        await world.sandbox.start(1)
        assert await world.keeper.for_(cluster) is not client

    story(test)


def test_an_unreachable_api_server_does_not_affect_a_running_session() -> None:
    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        client = await world.keeper.for_(world.cluster())

        world.api.before = away
        assert await world.keeper.for_(world.cluster()) is client
        assert world.keeper.state("prod").problem is None

    story(test)


def test_a_client_that_met_another_cluster_is_replaced() -> None:
    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        own, world.sandbox._cluster.cluster_id = world.sandbox.cluster_id, "A" * 22
        first = await world.keeper.for_(world.cluster())
        assert (await first.cluster()).id == "A" * 22
        world.sandbox._cluster.cluster_id = own
        with pytest.raises(WrongCluster):
            await first.cluster()
        assert first.other_cluster is not None
        assert await world.answering() == own

    story(test)


def test_no_log_and_no_status_contains_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    texts: list[str] = []

    async def test(world: World) -> None:
        world.write("alice", "first-planted")
        await world.answering()
        for values in (
            ("alice", "wrong-planted", {}),
            ("alice", "", {}),
            ("", "", {"sasl.jaas.config": "not a module first-planted"}),
            ("bob", "second-planted", {}),
        ):
            world.write(values[0], values[1], **values[2])
            await world.answering()
            state = world.keeper.state("prod")
            texts.extend([repr(state), str(state.problem), repr(world.keeper.__dict__)])
            texts.append(repr(world.keeper._sessions))

    with caplog.at_level(logging.DEBUG):
        story(test)
    assert "new credentials" in caplog.text
    everything = caplog.text + "".join(texts)
    for planted in ("first-planted", "wrong-planted", "second-planted"):
        assert planted not in everything
        assert base64.b64encode(planted.encode()).decode() not in everything
