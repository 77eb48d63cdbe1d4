"""A plan needs four round trips: the connection, ApiVersions, the pipelined reading requests, and the validation."""

import pytest

from reconciler.base.clock import SystemClock
from reconciler.client import ClientConfig, QuotaClient
from reconciler.errors import ClientError, RequestTimeout
from reconciler.inventory.memory import MemoryInventory
from reconciler.reconcile import PreparedPlan, ReconcileOptions, ReconcilePorts, prepare
from reconciler.sandbox import Sandbox, SandboxSettings
from reconciler.wire.apis import (
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
)
from tests.client.support import client, on_loop
from tests.fakes import scripted_broker as acts
from tests.fakes.relay import Relay
from tests.fakes.scripted_broker import ScriptedBroker
from tests.reconcile.scenarios import ALICE, RATE, documents

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
LINE_SECONDS = 0.01


async def planned(expected: str | None, *, locks_records: bool) -> tuple[PreparedPlan, int]:
    """A plan of a sandbox behind a slow connection, and the number of its round trips."""
    settings = SandboxSettings(cluster_id=CLUSTER_ID)
    async with (
        Sandbox(settings) as sandbox,
        Relay(int(sandbox.bootstrap().rpartition(":")[2]), delay=LINE_SECONDS) as relay,
        QuotaClient(
            ClientConfig.from_mapping({"bootstrap.servers": f"127.0.0.1:{relay.port}"})
        ) as store,
    ):
        ports = ReconcilePorts(
            store=store,
            inventory=MemoryInventory(),
            clock=SystemClock(),
            locks_records=locks_records,
        )
        options = ReconcileOptions(expected_cluster_id=expected)
        return await prepare(ports, options, documents({ALICE: {RATE: 2048.0}})), relay.round_trips


@on_loop
async def test_a_plan_needs_four_round_trips() -> None:
    prepared, round_trips = await planned(CLUSTER_ID, locks_records=True)
    assert prepared.plan.changes
    assert prepared.preview.verdict.source == "broker"
    assert round_trips == 4


@on_loop
async def test_a_new_connection_sends_each_request_once() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.scram = {"alice": ()}
        description = await our.observe(scram_users=True)
        assert description.cluster.id == "test-cluster"
        assert description.scram_users == {"alice"}
        for api in (
            METADATA,
            DESCRIBE_CLUSTER,
            DESCRIBE_CLIENT_QUOTAS,
            DESCRIBE_USER_SCRAM_CREDENTIALS,
        ):
            assert broker.count(api) == 1


@on_loop
async def test_a_broker_that_refuses_scram_users_is_observed_without_them() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_USER_SCRAM_CREDENTIALS, acts.code(31))
        assert (await our.observe(scram_users=True)).scram_users == frozenset()


@on_loop
async def test_a_describe_that_is_never_answered_ends_with_the_deadline() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.silence)
        with pytest.raises(RequestTimeout, match="DescribeClientQuotas"):
            await our.observe(timeout=5)


@on_loop
async def test_a_failed_observation_leaves_no_request_for_the_next_connection() -> None:
    async with ScriptedBroker() as broker:
        port = broker.port
        our = client(broker)
    async with our:
        with pytest.raises(ClientError):
            await our.observe(scram_users=True, timeout=0.5)
        async with ScriptedBroker(port=port) as again:
            await our.describe()
            assert again.count(DESCRIBE_USER_SCRAM_CREDENTIALS) == 0
            assert again.count(DESCRIBE_CLIENT_QUOTAS) == 1
