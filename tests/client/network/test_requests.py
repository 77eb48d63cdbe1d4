"""Calls against a scripted broker: retries, deadlines, other brokers, throttling, cancellation."""

import asyncio
import re
import time

import pytest

from reconciler.client.client_config import REFUSED_SECONDS
from reconciler.errors import (
    BrokerError,
    ClientError,
    ConnectionRefused,
    ControllerUnavailable,
    DecodeError,
    FrameTooLarge,
    ProtocolError,
    RequestTimeout,
    UnsupportedVersion,
    WrongCluster,
)
from reconciler.quota.state import exactly
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS, API_VERSIONS, DESCRIBE_CLIENT_QUOTAS
from reconciler.wire.messages import api_versions
from tests.client.support import ALICE, RATE, Recorder, client, on_loop, setting
from tests.fakes import scripted_broker as acts
from tests.fakes.clock import FakeClock
from tests.fakes.manual_clock import TurnedClock
from tests.fakes.scripted_broker import ScriptedBroker


@on_loop
async def test_concurrent_callers_receive_their_own_responses() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.alter([setting(ALICE)])
        answers = await asyncio.gather(
            *(our.describe(exactly(ALICE)) if n % 2 else our.cluster() for n in range(20))
        )
        assert all(hasattr(answer, "limits") == bool(n % 2) for n, answer in enumerate(answers))
        assert broker.connections == 1


@on_loop
async def test_after_a_failure_the_other_broker_is_next() -> None:
    async with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.other_brokers, second.other_brokers = [second], [first]
        async with client(first) as our:
            first.on(DESCRIBE_CLIENT_QUOTAS, *[acts.close] * 9)
            await our.describe()
            assert first.count(DESCRIBE_CLIENT_QUOTAS) == second.count(DESCRIBE_CLIENT_QUOTAS) == 1


@on_loop
async def test_an_unknown_broker_id_is_an_error_that_lists_the_known_ones() -> None:
    async with ScriptedBroker(node_id=7) as broker, client(broker) as our:
        with pytest.raises(ClientError, match="no live broker with the id 9, only 7"):
            await our.describe(node=9)


@pytest.mark.parametrize("code", [33, 35, 42, 44, 58, 89, 999])
@on_loop
async def test_final_error_codes_are_raised_immediately_with_the_message_of_the_broker(
    code: int,
) -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.code(code, "its own words"))
        with pytest.raises(BrokerError, match="its own words") as caught:
            await our.describe()
        assert caught.value.code == code
        assert broker.count(DESCRIBE_CLIENT_QUOTAS) == 1


@on_loop
async def test_a_cancelled_caller_does_not_break_the_order_of_responses() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.alter([setting(ALICE)])
        gate = asyncio.Event()
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.after(gate))
        lost = asyncio.create_task(our.describe())
        await broker.until(DESCRIBE_CLIENT_QUOTAS, 1)
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        gate.set()
        cluster = await our.cluster()
        assert cluster.id == "test-cluster"
        assert (await our.describe()).limits.keys() == {ALICE}
        assert broker.connections == 1


@on_loop
async def test_a_response_with_a_wrong_correlation_id_ends_the_connection_and_is_not_used() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.wrong_id)
        with pytest.raises(ProtocolError, match="expected the response"):
            await our.describe()
        assert broker.count(DESCRIBE_CLIENT_QUOTAS) == 1
        await our.describe()
        assert broker.connections == 2


@on_loop
async def test_a_truncated_response_is_never_an_empty_cluster() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.alter([setting(ALICE)])
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.truncated(3))
        with pytest.raises(DecodeError) as caught:
            await our.describe()
        assert caught.value.api == "DescribeClientQuotas"
        assert caught.value.node == broker.address


@on_loop
async def test_a_frame_above_the_limit_is_refused_before_it_is_read() -> None:
    async with ScriptedBroker() as broker, client(broker, receive_message_max_bytes=1000) as our:
        await our.describe()
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.raw(b"\x00\x00\x10\x00" + b"x" * 8))
        with pytest.raises(FrameTooLarge) as caught:
            await our.describe()
        assert (caught.value.size, caught.value.limit) == (4096, 1000)
        assert "receive.message.max.bytes" in caught.value.hint


@on_loop
async def test_a_throttled_connection_is_not_used_until_the_throttle_time_has_passed() -> None:
    recorder, clock = Recorder(), FakeClock()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder, clock=clock) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.throttled(5000))
        await our.describe()
        assert clock.slept == []
        await our.describe()
        assert clock.slept == [pytest.approx(5.0)]
        (event,) = recorder.of("throttled")
        assert (event.seconds, event.api, event.node) == (
            5.0,
            "DescribeClientQuotas",
            broker.address,
        )


@on_loop
async def test_throttling_beyond_the_deadline_fails_immediately_as_throttled() -> None:
    clock = FakeClock()
    async with ScriptedBroker() as broker, client(broker, clock=clock) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.throttled(60_000))
        await our.describe()
        with pytest.raises(RequestTimeout, match="throttles this client") as caught:
            await our.describe(timeout=10)
        assert caught.value.phase == "throttled"
        assert broker.count(DESCRIBE_CLIENT_QUOTAS) == 1


@on_loop
async def test_refused_connections_end_a_call_after_four_seconds_and_every_attempt_is_an_event() -> (
    None
):
    recorder, clock = Recorder(), FakeClock()
    async with ScriptedBroker() as broker, ScriptedBroker() as second_broker:
        pass
    settings = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 1000}
    async with client(broker, second_broker, recorder=recorder, clock=clock, **settings) as our:
        with pytest.raises(ConnectionRefused) as caught:
            await our.describe()
    assert 2 < sum(clock.slept) <= REFUSED_SECONDS
    tries = [event.attempt for event in recorder.of("connecting")]
    assert tries == list(range(1, len(tries) + 1))
    assert f"({len(tries)} attempts in {sum(clock.slept):.1f} s)" in caught.value.message
    for address in (broker.address, second_broker.address):
        assert caught.value.message.count(f"{address}: Connection refused") == 1
    assert str(caught.value) == caught.value.message


@on_loop
async def test_a_call_that_waits_for_another_one_to_connect_names_the_last_known_cause() -> None:
    recorder, clock = Recorder(), TurnedClock()
    async with ScriptedBroker() as broker:
        pass
    async with client(broker, recorder=recorder, clock=clock) as our:
        connecting = asyncio.create_task(our.describe())
        await recorder.until("retry")  # it waits before its second attempt
        with pytest.raises(RequestTimeout, match="while another call was connecting") as caught:
            await our.describe(timeout=0)
        connecting.cancel()
    assert caught.value.message.endswith(
        f"; last known cause: {broker.address}: Connection refused"
    )


@on_loop
async def test_a_broker_that_never_answers_is_reported_at_the_time_in_the_message() -> None:
    recorder = Recorder()
    async with ScriptedBroker() as broker:
        broker.on(API_VERSIONS, *[acts.silence] * 99)
        settings = {
            "socket_connection_setup_timeout_ms": 100,
            "socket_connection_setup_timeout_max_ms": 200,
        }
        async with client(broker, recorder=recorder, **settings) as our:
            began = time.monotonic()
            with pytest.raises(RequestTimeout) as caught:
                await our.describe()
            spent = time.monotonic() - began
    named = re.search(r"within ([0-9.]+) s \(([0-9]+) attempts\)", caught.value.message)
    assert named is not None, caught.value.message
    assert spent / 2 < float(named[1]) < spent + 0.1
    assert int(named[2]) == len(recorder.of("connecting"))


@on_loop
async def test_a_broker_may_request_a_rebootstrap() -> None:
    recorder = Recorder()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.code(129))
        await our.describe()
        assert [event.reason for event in recorder.of("rebootstrap")] == ["the broker asked for it"]


@on_loop
async def test_another_cluster_behind_the_same_address_is_refused() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.describe()
        broker.cluster_id = "impostor"
        broker.cut()
        with pytest.raises(WrongCluster) as caught:
            await our.describe()
        assert (caught.value.expected, caught.value.found) == ("test-cluster", "impostor")
        assert broker.count(DESCRIBE_CLIENT_QUOTAS) == 1


@on_loop
async def test_an_unsupported_broker_version_is_reported() -> None:
    ranges = {18: (0, 2), 3: (0, 9)}
    async with ScriptedBroker(ranges=ranges) as broker, client(broker) as our:
        with pytest.raises(UnsupportedVersion, match=r"needs Kafka 2\.6") as caught:
            await our.describe()
        assert caught.value.node == broker.address
        assert broker.count(API_VERSIONS) == 2


@on_loop
async def test_brokers_between_2_6_and_2_8_receive_requests_in_their_own_versions() -> None:
    ranges = {18: (0, 3), 3: (0, 9), 48: (0, 0), 49: (0, 0)}
    async with ScriptedBroker(ranges=ranges) as broker, client(broker) as our:
        await our.alter([setting(ALICE)])
        assert (await our.describe()).value(ALICE, RATE) == 1024
        cluster = await our.cluster()
        assert (cluster.rights, cluster.version_hint, cluster.behaves_as) == (None, "2.6+", "3.4")
        assert {
            request.version for request in broker.requests if request.api.endswith("ClientQuotas")
        } == {0}


@on_loop
async def test_an_unavailable_controller_is_awaited() -> None:
    recorder, clock = Recorder(), FakeClock()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder, clock=clock) as our:
        kraft = api_versions.Feature(name="metadata.version", lowest=1, highest=20)
        answer = api_versions.encode_response(
            3,
            api_versions.ApiVersionsResponse(
                error_code=0,
                apis=tuple(
                    api_versions.ApiRange(api_key=api.key, lowest=api.lowest, highest=api.highest)
                    for api in acts.APIS
                    if api is not ALTER_CLIENT_QUOTAS
                ),
                finalized=(kraft,),
                finalized_epoch=1,
            ),
        )
        broker.on(API_VERSIONS, acts.body(answer))
        await our.alter([setting(ALICE)])
        assert broker.count(API_VERSIONS) == 2
        broker.cut()
        await recorder.until("disconnected", 2)
        broker.on(API_VERSIONS, *[acts.body(answer)] * 10000)
        with pytest.raises(ControllerUnavailable):
            await our.alter([setting(ALICE)], timeout=1)


@on_loop
async def test_closing_fails_pending_requests() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.describe()
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.silence)
        lost = asyncio.create_task(our.describe(timeout=30))
        await broker.until(DESCRIBE_CLIENT_QUOTAS, 2)
        await our.close()
        # The call still has time, so it connects again.
        await lost
        assert broker.connections == 2
