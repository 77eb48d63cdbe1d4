"""The rest of the client's API: visibility, SCRAM users, the callback, missing rights."""

import asyncio

import pytest

from reconciler.errors import AuthorizationError, RequestTimeout
from reconciler.quota.state import ANY, Alteration, Component, Filter
from reconciler.wire.apis import (
    API_VERSIONS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CLUSTER,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    METADATA,
)
from reconciler.wire.messages.describe_user_scram_credentials import CredentialInfo
from tests.client.support import ALICE, BOB, RATE, client, on_loop, setting
from tests.fakes import scripted_broker as acts
from tests.fakes.clock import FakeClock
from tests.fakes.scripted_broker import ScriptedBroker


@pytest.mark.parametrize(
    ("operations", "rights"), [(0, None), (-(2**31), None), (1 << 10, {"DescribeConfigs"})]
)
@on_loop
async def test_rights_that_a_broker_does_not_report_are_unknown(
    operations: int, rights: object
) -> None:
    async with ScriptedBroker(operations=operations) as broker, client(broker) as our:
        assert (await our.cluster()).rights == rights


@on_loop
async def test_metadata_without_a_cluster_id_is_refused() -> None:
    async with ScriptedBroker(cluster_id="") as broker, client(broker) as our:
        with pytest.raises(Exception, match="names no cluster id"):
            await our.cluster()


@on_loop
async def test_foreign_keys_and_entities_are_reported_separately() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.quotas = {
            (("user", "alice"),): {RATE: 1.0, "strange_rate": 2.0},
            (("client-id-prefix", "app-"),): {RATE: 3.0},
            (("ip", "10.0.0.1"), ("user", "alice")): {RATE: 4.0, "strange_rate": 5.0},
        }
        state = await our.describe()
    assert state.limits == {ALICE: (1.0, None, None, None, None)}
    assert state.foreign_values == {ALICE: (("strange_rate", 2.0),)}
    assert state.foreign_entities == (
        ((("client-id-prefix", "app-"),), ((RATE, 3.0),)),
        ((("ip", "10.0.0.1"), ("user", "alice")), ((RATE, 4.0), ("strange_rate", 5.0))),
    )


@on_loop
async def test_entities_outside_the_filter_are_dropped_if_a_broker_lists_them() -> None:
    user_filter = Filter(components=(Component(entity_type="user", match=ANY),), strict=True)
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.quotas = {
            (("user", "alice"),): {RATE: 1.0},
            (("client-id", None), ("user", "bob")): {RATE: 2.0, "strange": 1.0},
        }
        broker._entries = lambda _: [
            (parts, tuple(values.items())) for parts, values in broker.quotas.items()
        ]
        state = await our.describe(user_filter)
        assert set(state.limits) == {ALICE}
        assert state.foreign_values == {}
        assert set((await our.describe()).limits) == {ALICE, BOB}


@on_loop
async def test_a_large_response_does_not_block_the_event_loop() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.quotas = {(("user", f"user-{n:06}"),): {RATE: float(n)} for n in range(30_000)}
        steps = 0

        async def tick() -> None:
            nonlocal steps
            while True:
                await asyncio.sleep(0)
                steps += 1

        ticking = asyncio.create_task(tick())
        state = await our.describe()
        ticking.cancel()
        assert len(state.limits) == 30_000
        assert steps > 10


@on_loop
async def test_a_broker_that_left_the_cluster_is_not_awaited() -> None:
    clock = FakeClock()
    async with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.other_brokers = [second]
        first.quotas = {(("user", "alice"),): {RATE: 1024.0}}
        await second.stop()
        async with client(first, clock=clock) as our:

            async def leaves(turn: acts.Turn) -> None:
                await acts.answer(turn)
                first.other_brokers = []

            first.on(METADATA, acts.answer, leaves)
            visibility = await our.wait_visible([setting(ALICE)], timeout=3600)
    assert visibility.visible == (1,)
    assert list(visibility.unreachable) == [2]
    assert sum(clock.slept) < 60


@on_loop
async def test_a_hung_broker_does_not_delay_calls_to_the_others_and_is_named_at_the_deadline() -> (
    None
):
    clock = FakeClock()
    deadline_passes = asyncio.Event()

    async def hangs(turn: acts.Turn) -> None:
        await deadline_passes.wait()
        clock.advance(3600)
        await acts.close(turn)

    async with ScriptedBroker(node_id=1) as first, ScriptedBroker(node_id=2) as second:
        first.other_brokers = [second]
        first.quotas = {(("user", "alice"),): {RATE: 1024.0}}
        second.on(API_VERSIONS, *[hangs] * 99)
        async with client(first, clock=clock) as our:
            waiting = asyncio.create_task(our.wait_visible([setting(ALICE)], timeout=60))
            await second.until(API_VERSIONS, 1)
            await our.describe()
            await our.describe(node=1)
            await first.until(DESCRIBE_CLIENT_QUOTAS, 3)
            assert not waiting.done()
            deadline_passes.set()
            visibility = await waiting
    assert visibility.visible == (1,)
    assert "closed the connection (1 attempt in 3600.0 s)" in visibility.unreachable[2]


@on_loop
async def test_without_expected_changes_every_reachable_broker_is_visible() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        assert (await our.wait_visible([])).visible == (1,)


@on_loop
async def test_values_within_kafkas_rounding_are_equal() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.quotas = {(("user", "alice"),): {RATE: 1024.0000005, "foreign": 2.0}}
        expected = Alteration(entity=ALICE, operations=((RATE, 1024.0), ("foreign", 2.0)))
        assert (await our.wait_visible([expected])).everywhere


@on_loop
async def test_scram_users_are_listed_with_their_mechanisms() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.scram = {
            "bob": (CredentialInfo(mechanism=2, iterations=8192),),
            "alice": (
                CredentialInfo(mechanism=1, iterations=4096),
                CredentialInfo(mechanism=9, iterations=1),
            ),
        }
        users = await our.scram_users()
        assert list(users) == ["alice", "bob"]
        assert [(credential.mechanism, credential.iterations) for credential in users["alice"]] == [
            ("SCRAM-SHA-256", 4096),
            ("UNKNOWN(9)", 1),
        ]
        assert (await our.scram_users(["bob", "nobody", "bob"])).keys() == {"bob"}
        before = broker.count(DESCRIBE_USER_SCRAM_CREDENTIALS)
        assert await our.scram_users([]) == {}
        assert broker.count(DESCRIBE_USER_SCRAM_CREDENTIALS) == before


@on_loop
async def test_the_hint_of_a_missing_right_is_a_command() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        broker.on(DESCRIBE_CLIENT_QUOTAS, acts.code(31))
        with pytest.raises(AuthorizationError) as caught:
            await our.describe()
        assert "kafka-acls --add" in caught.value.hint
        assert "--operation DescribeConfigs" in caught.value.hint


@on_loop
async def test_each_call_accepts_its_own_timeout() -> None:
    async with ScriptedBroker() as broker, client(broker) as our:
        await our.describe()
        for call, api in (
            (our.cluster, DESCRIBE_CLUSTER),
            (our.scram_users, DESCRIBE_USER_SCRAM_CREDENTIALS),
        ):
            broker.on(api, acts.silence)
            with pytest.raises(RequestTimeout):
                await call(timeout=0.05)
