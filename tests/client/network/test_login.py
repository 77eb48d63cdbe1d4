"""Login, refused login and re-authentication, against a scripted broker."""

import asyncio

import pytest

from reconciler.client import BearerToken, ClientConfig, QuotaClient
from reconciler.errors import AuthenticationError
from reconciler.wire.apis import DESCRIBE_CLIENT_QUOTAS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.client.support import Recorder, client, on_loop
from tests.fakes import scripted_broker as acts
from tests.fakes.clock import FakeClock
from tests.fakes.scripted_broker import ScriptedBroker

LOGIN = "correct horse"


@on_loop
async def test_a_login_precedes_every_other_request() -> None:
    recorder = Recorder()
    async with ScriptedBroker(password=LOGIN) as broker, client(broker, recorder=recorder) as our:
        await our.describe()
        order = [request.api for request in broker.requests]
        assert order[:4] == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata"]
        (event,) = recorder.of("authenticated")
        assert (event.mechanism, event.lifetime, event.again) == ("PLAIN", 0.0, False)


@on_loop
async def test_a_wrong_password_is_a_final_error_and_is_not_retried() -> None:
    clock = FakeClock()
    async with ScriptedBroker(password=LOGIN) as broker:
        settings = {"sasl_password": "wrong"}
        async with client(broker, clock=clock, **settings) as our:
            for _ in range(3):
                with pytest.raises(
                    AuthenticationError, match="Invalid username or password"
                ) as caught:
                    await our.describe()
            assert caught.value.node == broker.address
            assert "login is not retried" in caught.value.hint
        assert broker.count(SASL_AUTHENTICATE) == 1
        assert clock.slept == []


@on_loop
async def test_a_session_is_renewed_before_it_ends_on_the_same_connection() -> None:
    recorder, clock = Recorder(), FakeClock()
    async with (
        ScriptedBroker(password=LOGIN, lifetime_ms=100_000) as broker,
        client(broker, recorder=recorder, clock=clock) as our,
    ):
        await our.describe()
        clock.advance(84)
        await our.describe()
        assert broker.count(SASL_AUTHENTICATE) == 1
        clock.advance(12)
        await our.describe()
        assert broker.count(SASL_HANDSHAKE) == broker.count(SASL_AUTHENTICATE) == 2
        assert broker.connections == 1
        assert [event.again for event in recorder.of("authenticated")] == [False, True]
        assert [event.lifetime for event in recorder.of("authenticated")] == [100.0, 100.0]


@on_loop
async def test_renewal_waits_for_pending_responses_and_holds_new_requests() -> None:
    clock = FakeClock()
    async with (
        ScriptedBroker(password=LOGIN, lifetime_ms=100_000) as broker,
        client(broker, clock=clock) as our,
    ):
        await our.describe()
        gate = asyncio.Event()
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.after(gate))
        first = asyncio.create_task(our.describe())
        await broker.until(DESCRIBE_CLIENT_QUOTAS, 2)
        clock.advance(96)
        later_calls = [asyncio.create_task(our.describe()) for _ in range(3)]
        await asyncio.sleep(0)
        assert broker.count(SASL_HANDSHAKE) == 1
        gate.set()
        await asyncio.gather(first, *later_calls)
        order = [request.api for request in broker.requests][-6:]
        assert (
            order
            == ["DescribeClientQuotas", "SaslHandshake", "SaslAuthenticate"]
            + ["DescribeClientQuotas"] * 3
        )
        assert broker.connections == 1


@on_loop
async def test_a_refused_renewal_closes_the_connection_and_the_next_login_decides() -> None:
    clock = FakeClock()
    async with (
        ScriptedBroker(password=LOGIN, lifetime_ms=100_000) as broker,
        client(broker, clock=clock) as our,
    ):
        await our.describe()
        broker.password = "changed"  # noqa: S105 - the scripted broker's
        clock.advance(96)
        with pytest.raises(AuthenticationError):
            await our.describe()
        assert broker.count(SASL_AUTHENTICATE) == 3


def bearer(broker: ScriptedBroker, source: object) -> ClientConfig:
    return ClientConfig.from_mapping(
        {
            "bootstrap.servers": broker.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
        },
        token=source,
    )


@on_loop
async def test_a_failing_token_source_is_reported_without_its_message() -> None:
    async def source() -> BearerToken:
        raise RuntimeError("planted-secret")

    async with ScriptedBroker(password=LOGIN) as broker, QuotaClient(bearer(broker, source)) as our:
        with pytest.raises(AuthenticationError, match="RuntimeError") as caught:
            await our.describe()
    assert "planted-secret" not in str(caught.value) + caught.value.hint
    assert caught.value.__cause__ is None
