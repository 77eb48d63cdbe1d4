"""Logins on real brokers: every mechanism, wrong secrets, re-authentication."""

import time

import pytest

from reconciler.client import BearerToken, ClientConfig, QuotaClient, Secret
from reconciler.errors import AuthenticationError, ConnectError, KquotaError
from tests.client.support import Recorder, on_loop
from tests.servers.jars import NEWEST
from tests.servers.kafka import KafkaCluster, StartKafka
from tests.servers.properties import Listener

pytestmark = pytest.mark.integration

LISTENERS = tuple(Listener)
AT_ONCE = 30.0  # half the deadline of a call


@pytest.fixture
def cluster(kafka: StartKafka) -> KafkaCluster:
    return kafka(NEWEST, listeners=LISTENERS)


def properties_of(
    cluster: KafkaCluster, listener: Listener, mechanism: str = "PLAIN", **more: str
) -> dict[str, str]:
    return cluster.client_properties(listener, mechanism=mechanism) | more


async def fails(settings: dict[str, str], **how: object) -> tuple[KquotaError, float]:
    started = time.monotonic()
    async with QuotaClient(ClientConfig.from_mapping(settings, **how)) as our:
        with pytest.raises(KquotaError) as caught:
            await our.describe()
    return caught.value, time.monotonic() - started


@on_loop
async def test_a_wrong_client_secret_is_a_final_error(cluster: KafkaCluster) -> None:
    settings = properties_of(cluster, Listener.OAUTHBEARER)
    settings["sasl.jaas.config"] = settings["sasl.jaas.config"].replace("admin-secret", "pl4nted")
    error, seconds = await fails(settings)
    assert isinstance(error, AuthenticationError)
    assert "401" in error.message or "400" in error.message
    assert seconds < AT_ONCE
    assert "pl4nted" not in error.message + error.hint


@pytest.mark.parametrize("fault", ["expired", "wrong audience"])
@on_loop
async def test_a_token_that_the_broker_rejects_is_a_final_error(
    cluster: KafkaCluster, fault: str
) -> None:
    issuer = cluster.issuer
    assert issuer is not None
    bad = (
        issuer.mint("admin", lifetime_seconds=-60)
        if fault == "expired"
        else issuer.mint("admin", audience="x")
    )

    async def source() -> BearerToken:
        return BearerToken(value=Secret(bad))

    settings = {
        "bootstrap.servers": cluster.bootstrap(Listener.OAUTHBEARER),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
    }
    error, seconds = await fails(settings, token=source)
    assert isinstance(error, AuthenticationError)
    assert "OAUTHBEARER failed" in error.message
    assert seconds < AT_ONCE
    assert bad not in error.message + error.hint


@on_loop
async def test_a_session_is_renewed_on_its_connection(kafka: StartKafka) -> None:
    short = kafka(
        NEWEST,
        listeners=(Listener.PLAINTEXT, Listener.SASL_PLAINTEXT),
        extra={"connections.max.reauth.ms": "5000"},
    )
    recorder = Recorder()
    config = ClientConfig.from_mapping(
        properties_of(short, Listener.SASL_PLAINTEXT, "SCRAM-SHA-256")
    )
    async with QuotaClient(config, events=recorder.events()) as our:
        until = time.monotonic() + 60
        while len(recorder.of("authenticated")) < 2 and time.monotonic() < until:
            await our.describe()
        await our.describe()
    assert [(event.again, event.lifetime) for event in recorder.of("authenticated")] == [
        (False, 5.0),
        (True, 5.0),
    ]
    assert len(recorder.of("connected")) == 1
    assert recorder.of("retry") == []


@on_loop
async def test_a_listener_that_expects_sasl_is_recognised(cluster: KafkaCluster) -> None:
    error, seconds = await fails({"bootstrap.servers": cluster.bootstrap(Listener.SASL_PLAINTEXT)})
    assert isinstance(error, ConnectError)
    assert "may require SASL" in error.hint
    assert seconds < AT_ONCE


@on_loop
async def test_a_listener_without_sasl_is_recognised(cluster: KafkaCluster) -> None:
    settings = properties_of(cluster, Listener.SASL_PLAINTEXT)
    error, seconds = await fails(settings | {"bootstrap.servers": cluster.bootstrap()})
    assert isinstance(error, AuthenticationError)
    assert "does not use SASL" in error.message
    assert seconds < AT_ONCE
