"""Calls against a scripted broker: retries, deadlines, other brokers, throttling, cancellation."""

import asyncio
import re
import time

import pytest

from reconciler.client.client_config import REFUSED_SECONDS
from reconciler.errors import (
    AuthorizationError,
    BrokerError,
    ClientError,
    ConnectError,
    ConnectionRefused,
    ControllerUnavailable,
    DecodeError,
    FrameTooLarge,
    ProtocolError,
    RequestTimeout,
    UnsupportedVersion,
    WrongCluster,
)
from reconciler.quota.filters import exactly
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS, API_VERSIONS, DESCRIBE_CLIENT_QUOTAS, METADATA
from reconciler.wire.messages import api_versions
from tests.client.support import ALICE, RATE, Recorder, client, on_loop, setting
from tests.fakes import scripted_broker as acts
from tests.fakes.clock import FakeClock
from tests.fakes.manual_clock import TurnedClock
from tests.fakes.scripted_broker import ScriptedBroker


@on_loop
async def test_altered_values_are_described() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.alter([setting(ALICE, 5.0)])
        assert (await our.describe()).limits == {ALICE: (5.0, None, None, None, None)}


@on_loop
async def test_one_connection_serves_all_calls() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        for _ in range(3):
            await our.describe()
        assert broker.connections == 1
        assert broker.count(API_VERSIONS) == broker.count(METADATA) == 1


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
async def test_a_describe_is_retried_after_the_broker_closed_the_connection() -> None:
    recorder = Recorder()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.close, acts.reset)
        await our.describe()
        assert broker.count(DESCRIBE_CLIENT_QUOTAS) == 3
        assert broker.connections == 3
        assert [event.attempt for event in recorder.of("retry")] == [1, 2]


@on_loop
async def test_after_a_failure_the_other_broker_is_next() -> None:
    async with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.other_brokers, second.other_brokers = [second], [first]
        async with client(first) as our:
            first.on(DESCRIBE_CLIENT_QUOTAS, *[acts.close] * 9)
            await our.describe()
            assert first.count(DESCRIBE_CLIENT_QUOTAS) == second.count(DESCRIBE_CLIENT_QUOTAS) == 1


@on_loop
async def test_a_working_connection_is_reused() -> None:
    async with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.other_brokers, second.other_brokers = [second], [first]
        async with client(first, second) as our:
            for _ in range(5):
                await our.describe()
            counts = {first.count(DESCRIBE_CLIENT_QUOTAS), second.count(DESCRIBE_CLIENT_QUOTAS)}
            assert counts == {0, 5}


@on_loop
async def test_a_request_to_a_given_broker_is_sent_to_no_other() -> None:
    async with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.other_brokers, second.other_brokers = [second], [first]
        async with client(first) as our:
            await our.describe(node=2)
            await our.describe(node=2)
            assert (first.count(DESCRIBE_CLIENT_QUOTAS), second.count(DESCRIBE_CLIENT_QUOTAS)) == (
                0,
                2,
            )
            assert second.connections == 1


@on_loop
async def test_an_unknown_broker_id_is_an_error_that_lists_the_known_ones() -> None:
    async with ScriptedBroker(node_id=7) as broker, client(broker) as our:
        with pytest.raises(ClientError, match="no live broker with the id 9, only 7"):
            await our.describe(node=9)


@pytest.mark.parametrize(("code", "tries"), [(7, 3), (41, 3), (-1, 3)])
@on_loop
async def test_transient_error_codes_are_retried(code: int, tries: int) -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, *[acts.code(code)] * (tries - 1))
        await our.describe()
        assert broker.count(DESCRIBE_CLIENT_QUOTAS) == tries


@on_loop
async def test_an_unknown_server_error_is_retried_twice_and_then_raised() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, *[acts.code(-1)] * 9)
        with pytest.raises(BrokerError) as caught:
            await our.describe()
        assert (caught.value.code, caught.value.attempt) == (-1, 3)


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


@pytest.mark.parametrize(
    ("call", "right"),
    [("describe", "DescribeConfigs"), ("alter", "AlterConfigs"), ("scram_users", "Describe")],
)
@on_loop
async def test_a_missing_right_is_named(call: str, right: str) -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        for api in acts.APIS:
            if api.key in {48, 49, 50}:
                broker.on(api, acts.code(31, "Cluster authorization failed."))
        arguments = ([setting(ALICE)],) if call == "alter" else ()
        with pytest.raises(AuthorizationError, match=f"lacks {right} on the cluster") as caught:
            await getattr(our, call)(*arguments)
        assert right in caught.value.hint
        assert broker.quotas == {}


@on_loop
async def test_a_request_that_times_out_closes_its_connection() -> None:
    recorder = Recorder()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder) as our:
        await our.describe()
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.silence)
        with pytest.raises(RequestTimeout, match="did not answer DescribeClientQuotas") as caught:
            await our.describe(timeout=1)
        assert caught.value.phase == "request"
        assert len(recorder.of("disconnected")) == 1
        await our.describe()
        assert broker.connections == 2


@on_loop
async def test_a_short_request_timeout_is_retried_within_the_deadline() -> None:
    settings = {"request_timeout_ms": 100}
    async with ScriptedBroker() as broker, client(broker, **settings) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.silence)
        await our.describe(timeout=60)
        assert broker.count(DESCRIBE_CLIENT_QUOTAS) >= 2


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
async def test_throttling_applies_to_one_connection() -> None:
    clock = FakeClock()
    async with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.other_brokers, second.other_brokers = [second], [first]
        async with client(first, clock=clock) as our:
            first.on(DESCRIBE_CLIENT_QUOTAS, acts.throttled(60_000))
            await our.describe(node=1)
            await our.describe(node=2)
            assert clock.slept == []


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
async def test_a_negative_throttle_time_is_ignored() -> None:
    recorder, clock = Recorder(), FakeClock()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder, clock=clock) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.throttled(-5))
        await our.describe()
        await our.describe()
        assert clock.slept == []
        assert recorder.of("throttled") == []


@on_loop
async def test_if_no_broker_answers_every_address_is_reported_with_its_reason() -> None:
    clock = FakeClock()
    async with ScriptedBroker() as broker:
        pass
    async with client(broker, clock=clock) as our:
        with pytest.raises(ConnectError, match=f"{broker.address}: Connection refused") as caught:
            await our.describe(timeout=5)
        assert caught.value.attempt > 3
        assert sum(clock.slept) <= 5


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
async def test_a_deadline_without_an_attempt_names_the_last_known_cause() -> None:
    clock = FakeClock()
    async with ScriptedBroker() as broker:
        pass
    pauses = {"reconnect_backoff_ms": 600_000, "reconnect_backoff_max_ms": 600_000}
    async with client(broker, clock=clock, **pauses) as our:
        with pytest.raises(ConnectionRefused):
            await our.describe(timeout=120)
        with pytest.raises(RequestTimeout, match="before a connection was made") as caught:
            await our.describe(timeout=120)
    assert caught.value.message.endswith(
        f"; last known cause: {broker.address}: Connection refused"
    )
    assert clock.slept == []


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
async def test_the_error_has_the_last_cause_of_every_address() -> None:
    async with ScriptedBroker() as refusing:
        pass
    async with ScriptedBroker() as closing:
        closing.on(API_VERSIONS, *[acts.close] * 99)
        async with client(refusing, closing, clock=FakeClock()) as our:
            with pytest.raises(ConnectError) as caught:
                await our.describe(timeout=5)
    assert caught.value.message.count(f"{refusing.address}: Connection refused") == 1
    assert caught.value.message.count(f"{closing.address} closed the connection") == 1


@pytest.mark.parametrize("timeout_name", ["default.api.timeout.ms", "timeout"])
@on_loop
async def test_with_an_explicit_timeout_refused_connections_are_retried_until_it_ends(
    timeout_name: str,
) -> None:
    clock = FakeClock()
    async with ScriptedBroker() as broker:
        pass
    slow = {"reconnect.backoff.ms": 500, "reconnect.backoff.max.ms": 1000}
    settings = slow | (
        {timeout_name: 20_000, "request.timeout.ms": 20_000} if "." in timeout_name else {}
    )
    async with client(broker, clock=clock, **settings) as our:
        with pytest.raises(ConnectionRefused):
            await our.describe(timeout=None if "." in timeout_name else 20)
    assert 15 < sum(clock.slept) <= 20


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
async def test_a_broker_that_starts_before_the_deadline_is_reached() -> None:
    async with ScriptedBroker() as broker:
        pass
    recorder = Recorder()
    async with client(broker, recorder=recorder) as our:
        waiting = asyncio.create_task(our.describe(timeout=60))
        await recorder.until("connecting", 2)  # the first attempt was refused
        async with broker:
            assert (await waiting).limits == {}


@on_loop
async def test_if_every_known_broker_failed_the_bootstrap_addresses_are_used_again() -> None:
    recorder = Recorder()
    async with ScriptedBroker(node_id=1) as dead, ScriptedBroker(node_id=1) as front:
        # The front responds with only the dead broker's address, as a load balancer would.
        front._all = lambda: [dead]
        async with client(front, recorder=recorder) as our:
            await our.describe()
            await dead.stop()
            front.cut()
            await our.describe()
        (event,) = recorder.of("rebootstrap")
        assert event.reason == "every known broker failed"


@on_loop
async def test_without_rebootstrap_only_the_known_addresses_are_used() -> None:
    recorder = Recorder()
    async with ScriptedBroker(node_id=1) as dead, ScriptedBroker(node_id=1) as front:
        front._all = lambda: [dead]
        settings = {"metadata_recovery_strategy": "none"}
        async with client(front, recorder=recorder, clock=FakeClock(), **settings) as our:
            await our.describe()
            await dead.stop()
            front.cut()
            with pytest.raises(ConnectError):
                await our.describe(timeout=2)
        assert recorder.of("rebootstrap") == []


@on_loop
async def test_after_a_long_time_without_a_response_the_bootstrap_addresses_are_used() -> None:
    recorder, clock = Recorder(), FakeClock()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder, clock=clock) as our:
        await our.describe()
        clock.advance(301)
        await our.describe()
        assert [event.reason for event in recorder.of("rebootstrap")] == [
            "no data from the broker for 300 s"
        ]


@on_loop
async def test_a_broker_may_request_a_rebootstrap() -> None:
    recorder = Recorder()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.code(129))
        await our.describe()
        assert [event.reason for event in recorder.of("rebootstrap")] == ["the broker asked for it"]


@on_loop
async def test_an_idle_connection_is_replaced_without_an_error() -> None:
    recorder, clock = Recorder(), FakeClock()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder, clock=clock) as our:
        await our.describe()
        clock.advance(181)
        await our.describe()
        assert broker.connections == 2
        assert recorder.of("retry") == []
        assert [event.reason for event in recorder.of("disconnected")] == [""]


@on_loop
async def test_a_connection_that_closed_while_idle_does_not_count_as_a_try() -> None:
    recorder = Recorder()
    async with ScriptedBroker() as broker, client(broker, recorder=recorder) as our:
        await our.describe()
        broker.cut()
        await recorder.until("disconnected")
        await our.alter([setting(ALICE)])
        assert recorder.of("retry") == []
        assert broker.count(ALTER_CLIENT_QUOTAS) == 1


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
async def test_a_closed_client_reconnects_when_it_is_used_again() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.describe()
        await our.close()
        await our.describe()
        assert broker.connections == 2


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
