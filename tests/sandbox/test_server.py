"""The sandbox over TCP: one image, many brokers, faults on demand."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reconciler.errors import ConfigError
from reconciler.sandbox import PROFILES, Listener, Sandbox, SandboxSettings
from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.faults import (
    FOREVER,
    CutAfter,
    Delay,
    Effect,
    Fault,
    Hold,
    Refuse,
    Slow,
    Stale,
    Truncate,
    WrongCorrelation,
)
from reconciler.wire.apis import (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
)
from reconciler.wire.messages import (
    api_versions,
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    metadata,
)
from tests.contract.raw import Closed, RawConnection
from tests.contract.targets import running
from tests.leaked_sockets import STEPS, leaks
from tests.servers.processes import HANG_SECONDS

PRODUCER = "producer_byte_rate"
ALICE, BOB = (("user", "alice"),), (("user", "bob"),)
SET = (ALICE, ((PRODUCER, 5.0),))
KEPT = {ALICE: {PRODUCER: 5.0}}
ALTER, DESCRIBE = 49, 48


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with running(Sandbox(SandboxSettings(nodes=(1, 2, 3)))) as three:
        yield three


def connect(sandbox: Sandbox, node: int = 1) -> RawConnection:
    return RawConnection(sandbox.port(node), seconds=60)


def plan(sandbox: Sandbox, effect: Effect, api: int | None = None, times: int = 1) -> None:
    sandbox.fail(Fault(effect=effect, api=api, times=times))


def loop_of(sandbox: Sandbox) -> asyncio.AbstractEventLoop:
    return sandbox._listeners[1].servers[0].get_loop()


def test_a_held_broker_shows_old_values_until_it_is_released(sandbox: Sandbox) -> None:
    sandbox.hold(3)
    with connect(sandbox) as connection, connect(sandbox, 3) as behind:
        connection.verdicts(SET)
        assert connection.quotas() == KEPT
        assert behind.quotas() == {}
        sandbox.release(3)
        assert behind.quotas() == KEPT


def test_a_lagging_broker_shows_values_after_its_lag() -> None:
    settings = SandboxSettings(nodes=(1, 2, 3), lag={2: 0.05, 3: 3600.0})
    with (
        running(Sandbox(settings)) as sandbox,
        connect(sandbox) as connection,
        connect(sandbox, 2) as behind,
        connect(sandbox, 3) as far_behind,
    ):
        connection.verdicts(SET)
        assert connection.quotas() == KEPT
        behind.settled(KEPT)
        assert far_behind.quotas() == {}


# ---- faults -----------------------------------------------------------------------------------------


def test_a_request_cut_after_execution_is_executed(sandbox: Sandbox) -> None:
    plan(sandbox, CutAfter(), ALTER)
    with connect(sandbox) as connection, pytest.raises(Closed):
        connection.verdicts(SET)
    assert sandbox.values() == KEPT


def test_a_response_is_cut_at_the_configured_byte(sandbox: Sandbox) -> None:
    plan(sandbox, Truncate(keep=9))
    with connect(sandbox) as connection, pytest.raises(Closed):
        connection.offered()
    with connect(sandbox) as connection:
        assert connection.offered()


def test_a_delayed_request_is_answered_later(sandbox: Sandbox) -> None:
    plan(sandbox, Delay(seconds=0.05), ALTER)
    with connect(sandbox) as connection:
        started = time.monotonic()
        assert connection.verdicts(SET) == {ALICE: (0, None)}
        assert time.monotonic() - started >= 0.05


@pytest.mark.parametrize("executed", [True, False])
def test_a_held_request_waits_for_an_event(sandbox: Sandbox, *, executed: bool) -> None:
    until = asyncio.Event()
    plan(sandbox, Hold(until=until, executed=executed), ALTER)
    with connect(sandbox) as connection, ThreadPoolExecutor(1) as pool:
        verdicts = pool.submit(connection.verdicts, SET)
        while sandbox.faults._armed or (executed and not sandbox.values()):
            time.sleep(0.001)  # the sandbox runs in another thread
        assert not verdicts.done()
        assert sandbox.values() == (KEPT if executed else {})
        loop_of(sandbox).call_soon_threadsafe(until.set)
        assert verdicts.result(HANG_SECONDS) == {ALICE: (0, None)}
    assert sandbox.values() == KEPT


def test_a_slow_response_arrives_completely(sandbox: Sandbox) -> None:
    plan(sandbox, Slow(size=7, seconds=0.001), DESCRIBE)
    with connect(sandbox) as connection:
        connection.verdicts(SET)
        assert connection.quotas() == KEPT


def test_a_wrong_correlation_id_has_the_configured_offset(sandbox: Sandbox) -> None:
    plan(sandbox, WrongCorrelation(by=4))
    with connect(sandbox) as connection, pytest.raises(AssertionError):
        connection.offered()


@pytest.mark.parametrize("applied", [True, False])
def test_one_entity_is_rejected_beside_others(sandbox: Sandbox, *, applied: bool) -> None:
    failure = BrokerFailure(code=41, message=None)
    plan(sandbox, Refuse(failure=failure, names=ALICE, applied=applied), ALTER)
    with connect(sandbox) as connection:
        verdicts = connection.verdicts(SET, (BOB, ((PRODUCER, 6.0),)))
    assert verdicts == {ALICE: (41, None), BOB: (0, None)}
    bob_values = {BOB: {PRODUCER: 6.0}}
    assert sandbox.values() == (KEPT | bob_values if applied else bob_values)


def test_every_api_can_be_rejected(sandbox: Sandbox) -> None:
    plan(sandbox, Refuse(failure=BrokerFailure(code=-1, message="why")), times=FOREVER)
    with connect(sandbox) as connection:
        assert connection.describe().verdict == (-1, "why")
        assert connection.verdicts(SET) == {ALICE: (-1, "why")}
        assert connection.api_versions(0, api_versions.ApiVersionsRequest()).error_code == -1
        body = metadata.encode_request(13, metadata.MetadataRequest(topics=()))
        assert metadata.decode_response(13, connection.ask(METADATA, 13, body)).error_code == -1
        body = describe_cluster.encode_request(2, describe_cluster.DescribeClusterRequest())
        cluster = describe_cluster.decode_response(2, connection.ask(DESCRIBE_CLUSTER, 2, body))
        assert (cluster.error_code, cluster.error_message) == (-1, "why")
        body = describe_user_scram_credentials.encode_request(
            0, describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=("a",))
        )
        answer = connection.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, body)
        assert describe_user_scram_credentials.decode_response(0, answer).error_code == -1
        resource = describe_configs.ConfigResource(resource_type=4, name="1")
        body = describe_configs.encode_request(
            4, describe_configs.DescribeConfigsRequest(resources=(resource,))
        )
        configs = describe_configs.decode_response(4, connection.ask(DESCRIBE_CONFIGS, 4, body))
        assert [result.error_code for result in configs.results] == [-1]
    assert sandbox.values() == {}


def test_a_stale_describe_shows_the_earlier_values(sandbox: Sandbox) -> None:
    with connect(sandbox) as connection:
        connection.verdicts(SET)
        connection.verdicts((ALICE, ((PRODUCER, 6.0),)))
        plan(sandbox, Stale(), DESCRIBE)
        assert connection.quotas() == KEPT
        assert connection.quotas() == {ALICE: {PRODUCER: 6.0}}


# ---- life -------------------------------------------------------------------------------------------


def test_a_port_in_use_is_reported(sandbox: Sandbox) -> None:
    settings = SandboxSettings(listeners=(Listener(port=sandbox.port()),))
    with pytest.raises(ConfigError, match="cannot listen"), running(Sandbox(settings)):
        raise AssertionError("the port was free")


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_ten_thousand_entities_are_described_in_one_response(profile: object) -> None:
    with running(Sandbox(SandboxSettings(profile=profile))) as sandbox:
        seeded = {(("user", f"u{number}"),): {PRODUCER: 1.0} for number in range(10_000)}
        sandbox.seed(seeded)
        with connect(sandbox) as connection:
            assert connection.quotas() == seeded


@pytest.mark.parametrize("steps", STEPS)
def test_a_connection_in_any_step_of_being_accepted_is_closed_with_the_sandbox(steps: int) -> None:
    assert leaks(Sandbox(), Sandbox.port, steps=steps) == []
