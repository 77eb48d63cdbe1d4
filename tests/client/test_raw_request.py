"""Raw requests by key and bytes: the version is negotiated, and the connection handles throttling and retries."""

import struct

import pytest

from reconciler.client.raw_request import RawRequest
from reconciler.errors import BrokerError, ConnectError, OutcomeUnknown, UnsupportedVersion
from reconciler.wire.apis import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    SASL_HANDSHAKE,
)
from reconciler.wire.messages import describe_cluster
from tests.client.support import Recorder, client, on_loop
from tests.fakes import scripted_broker as acts
from tests.fakes.clock import FakeClock
from tests.fakes.scripted_broker import ScriptedBroker

CLUSTER = RawRequest(
    api_key=60,
    versions=(0, 2),
    body=lambda version: describe_cluster.encode_request(
        version, describe_cluster.DescribeClusterRequest()
    ),
    flexible_from=0,
    is_repeatable=True,
    error_code=lambda _, body: struct.unpack_from(">h", body, 4)[0],
)


@on_loop
async def test_request_bodies_come_from_the_caller_and_the_version_is_negotiated() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        response = await our.send_raw(CLUSTER)
        assert response.version == 2
        answer = describe_cluster.decode_response(response.version, response.body)
        assert answer.cluster_id == "test-cluster"
        older = RawRequest(
            api_key=60, versions=(0, 0), body=b"\x00\x00", flexible_from=0, name="DescribeCluster"
        )
        assert (await our.send_raw(older, node=1)).version == 0


@on_loop
async def test_an_api_that_the_broker_does_not_offer_is_an_error_that_names_it() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        with pytest.raises(UnsupportedVersion, match=r"offers no API 900$"):
            await our.send_raw(
                RawRequest(api_key=900, versions=(0, 0), body=b"", flexible_from=None)
            )
        with pytest.raises(UnsupportedVersion, match="this client supports v7 to v9"):
            await our.send_raw(RawRequest(api_key=60, versions=(7, 9), body=b"", flexible_from=0))


@on_loop
async def test_an_idempotent_request_is_sent_again_after_a_lost_response() -> None:
    recorder = Recorder()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder) as our:
        broker.on(DESCRIBE_CLUSTER, acts.reset)
        assert (await our.send_raw(CLUSTER)).body
    assert recorder.of("retry")


@on_loop
async def test_a_request_that_is_not_idempotent_is_sent_once_and_its_outcome_is_unknown() -> None:
    once = RawRequest(
        api_key=49, versions=(1, 1), body=b"\x01\x00\x00", flexible_from=1, name="AlterClientQuotas"
    )
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(ALTER_CLIENT_QUOTAS, acts.reset)
        with pytest.raises(OutcomeUnknown, match="sent, but no usable response") as caught:
            await our.send_raw(once)
        assert caught.value.api == "AlterClientQuotas"
        assert [request.api for request in broker.requests].count("AlterClientQuotas") == 1


@on_loop
async def test_a_transient_error_code_is_retried_and_any_other_is_raised() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_CLUSTER, acts.code(7, "timed out"), acts.code(42, "no"))
        with pytest.raises(BrokerError) as caught:
            await our.send_raw(CLUSTER)
    assert (caught.value.code, caught.value.attempt) == (42, 2)


@on_loop
async def test_throttling_is_reported_and_awaited() -> None:
    clock, recorder = FakeClock(), Recorder()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder, clock=clock) as our:
        broker.on(DESCRIBE_CLUSTER, acts.throttled(700))
        await our.send_raw(CLUSTER)
        await our.send_raw(CLUSTER)
    assert recorder.of("throttled")[0].seconds == 0.7
    assert clock.slept == [pytest.approx(0.7)]


@on_loop
async def test_without_a_reachable_broker_nothing_is_sent() -> None:
    broker = ScriptedBroker()
    async with broker:
        pass
    async with client(broker, default_api_timeout_ms=300) as our:
        with pytest.raises(ConnectError):
            await our.send_raw(CLUSTER)


@pytest.mark.parametrize("api", [API_VERSIONS, SASL_HANDSHAKE])
def test_requests_of_the_connection_itself_are_refused(api: object) -> None:
    with pytest.raises(ValueError, match="belongs to the connection"):
        RawRequest(api_key=api.key, versions=(0, 1), body=b"", flexible_from=None)


def test_versions_must_be_ascending() -> None:
    with pytest.raises(ValueError, match="must rise"):
        RawRequest(api_key=DESCRIBE_CLIENT_QUOTAS.key, versions=(2, 1), body=b"", flexible_from=1)
