"""Quotas on real brokers of each version: results with each set of rights, and under throttling."""

import math
import time

import pytest

from reconciler.client import ClientConfig, QuotaClient
from reconciler.client.sync_client import SyncQuotaClient
from reconciler.errors import AuthorizationError, BrokerError
from reconciler.quota.entity import entity
from reconciler.quota.filters import ALL, ANY, Component, Filter, exactly
from reconciler.quota.keys import Key
from reconciler.quota.outcome import MAX_OPERATIONS, Alteration, Applied, OpenAlteration, Rejected
from reconciler.quota.precedence import Principal, Resolution
from tests.client.support import RATE, Recorder, on_loop, setting
from tests.servers.jars import NEWEST, VERSIONS
from tests.servers.kafka import KafkaCluster, StartKafka
from tests.servers.properties import Listener
from tests.servers.tools import CALLBACK

pytestmark = pytest.mark.integration

PROFILES = {"3.4.1": "3.4", "3.9.1": "3.9", "4.0.1": "4.x", "4.3.1": "4.x", "4.4.0": "4.x"}


def to(
    cluster: KafkaCluster, listener: Listener = Listener.PLAINTEXT, user: str = "admin"
) -> ClientConfig:
    return ClientConfig.from_mapping(cluster.client_properties(listener, user=user))


@pytest.mark.parametrize("version", VERSIONS)
@on_loop
async def test_every_version_line_of_kafka_is_supported_and_recognised(
    empty_kafka: StartKafka, version: str
) -> None:
    broker = empty_kafka(version)
    alice, pair = entity(user="alice"), entity(user=None, client_id="app")
    address = entity(ip="10.0.0.7")
    async with QuotaClient(to(broker)) as our:
        cluster = await our.cluster()
        assert cluster.id == broker.cluster_id
        assert cluster.behaves_as == PROFILES[version]
        assert version.startswith(cluster.version_hint[:2])
        assert cluster.may_alter
        alterations = [
            Alteration(entity=alice, operations=((RATE, 1000.0), ("request_percentage", 12.5))),
            setting(pair, 7.0, "consumer_byte_rate"),
            setting(address, 5.0, "connection_creation_rate"),
            setting(entity(user="wrong"), 5.0, "no_such_key"),
        ]
        results = await our.alter(alterations, validate_only=True)
        assert (await our.describe()).limits == {}
        assert await our.alter(alterations) == results
        assert [type(result) for result in results.values()] == [Applied] * 3 + [Rejected]
        visibility = await our.wait_visible(alterations[:3])
        assert (visibility.visible, visibility.everywhere) == ((1,), True)
        state = await our.describe()
        assert state.limits == {
            alice: (1000.0, None, 12.5, None, None),
            pair: (None, 7.0, None, None, None),
            address: (None, None, None, None, 5.0),
        }
        for quota_filter in (
            exactly(alice),
            Filter(components=(Component(entity_type="user", match=ANY),)),
            Filter(components=(Component(entity_type="user", match=None),)),
            Filter(components=(Component(entity_type="ip", match=ANY),), strict=True),
        ):
            filtered_state = await our.describe(quota_filter)
            assert filtered_state.limits.keys() == {
                subject for subject in state.limits if quota_filter.matches(subject)
            }
        removed = [
            Alteration(entity=alice, operations=((RATE, None), ("request_percentage", None)))
        ]
        await our.alter(removed)
        assert (await our.wait_visible(removed)).everywhere
        assert alice not in (await our.describe(ALL)).limits


@on_loop
async def test_clients_are_resolved_from_one_describe(empty_kafka: StartKafka) -> None:
    recorder = Recorder()
    async with QuotaClient(to(empty_kafka(NEWEST)), events=recorder.events()) as our:
        changes = [setting(entity(user="alice"), 10.0), setting(entity(user=None), 20.0)]
        await our.alter(changes)
        await our.wait_visible(changes)
        before = len(recorder.of("request"))
        alice, bob, nobody = Principal(user="alice"), Principal(user="bob"), Principal()
        resolutions = await our.resolve([alice, bob, nobody])
        assert len(recorder.of("request")) == before + 1
    first, second = resolutions[alice], resolutions[bob]
    assert isinstance(first, Resolution)
    assert isinstance(second, Resolution)
    assert (first.limit(Key.PRODUCER_BYTE_RATE), second.limit(Key.PRODUCER_BYTE_RATE)) == (
        10.0,
        20.0,
    )
    assert "needs a user" in str(resolutions[nobody])


@on_loop
async def test_missing_rights_are_named_and_the_documented_ones_suffice(kafka: StartKafka) -> None:
    cluster = kafka(NEWEST, listeners=(Listener.PLAINTEXT, Listener.SASL_PLAINTEXT), acls=True)
    change = [setting(entity(user="x-denied"), 10.0)]
    for user, may_describe, may_alter in (
        ("planner", True, False),
        ("applier", True, True),
        ("bob", False, False),
    ):
        async with QuotaClient(to(cluster, Listener.SASL_PLAINTEXT, user)) as our:
            rights = (await our.cluster()).rights
            assert ("AlterConfigs" in (rights or ())) == may_alter
            assert (rights is None) == (user == "bob")
            if may_describe:
                await our.describe()
            else:
                with pytest.raises(
                    AuthorizationError, match="lacks DescribeConfigs on the cluster"
                ):
                    await our.describe()
                with pytest.raises(AuthorizationError, match="lacks DescribeConfigs"):
                    await our.quota_callback()
                with pytest.raises(AuthorizationError, match="lacks Describe on the cluster"):
                    await our.scram_users()
            if not may_alter:
                for only in (True, False):
                    with pytest.raises(
                        AuthorizationError, match="lacks AlterConfigs on the cluster"
                    ):
                        await our.alter(change, validate_only=only)
            else:
                assert set((await our.alter(change, validate_only=True)).values()) == {Applied()}


@on_loop
async def test_scram_users_are_listed(kafka: StartKafka) -> None:
    cluster = kafka(NEWEST, listeners=tuple(Listener))
    async with QuotaClient(to(cluster)) as our:
        users = await our.scram_users()
        assert {"admin", "alice", "planner"} <= users.keys()
        assert {credential.mechanism for credential in users["alice"]} == {
            "SCRAM-SHA-256",
            "SCRAM-SHA-512",
        }
        assert all(credential.iterations >= 4096 for credential in users["alice"])
        assert (await our.scram_users(["alice", "nobody"])).keys() == {"alice"}


@on_loop
async def test_a_custom_callback_is_detected(kafka: StartKafka) -> None:
    async with QuotaClient(to(kafka(NEWEST, callback=CALLBACK))) as our:
        assert await our.quota_callback() == CALLBACK.class_name
    async with QuotaClient(to(kafka(NEWEST))) as our:
        assert await our.quota_callback() is None


@on_loop
async def test_a_throttled_client_waits_and_reports_the_throttling(kafka: StartKafka) -> None:
    cluster = kafka(NEWEST)
    recorder = Recorder()
    own_entity = entity(client_id="throttled-kquota")
    tight = [setting(own_entity, 0.01, "request_percentage")]
    loose = [setting(own_entity, None, "request_percentage")]
    async with QuotaClient(to(cluster)) as admin:
        await admin.alter(tight)
        await admin.wait_visible(tight)
        try:
            settings = cluster.client_properties() | {"client.id": "throttled-kquota"}
            config = ClientConfig.from_mapping(settings)
            async with QuotaClient(config, events=recorder.events()) as our:
                until = time.monotonic() + 60
                while not recorder.of("throttled") and time.monotonic() < until:
                    await our.describe()
                event = recorder.of("throttled")[0]
                started = time.monotonic()
                await our.describe()
                assert time.monotonic() - started >= event.seconds - 0.05
            assert recorder.of("retry") == []
            assert len(recorder.of("connected")) == 1
        finally:
            await admin.alter(loose)


@on_loop
async def test_ten_thousand_entities_with_three_keys_need_the_minimum_of_requests(
    empty_kafka: StartKafka,
) -> None:
    recorder = Recorder()
    keys = (RATE, "consumer_byte_rate", "request_percentage")
    many = [
        Alteration(
            entity=entity(user=f"user-{n}"), operations=tuple((key, 1000.0 + n) for key in keys)
        )
        for n in range(10_000)
    ]
    async with QuotaClient(to(empty_kafka(NEWEST)), events=recorder.events()) as our:
        results = await our.alter(many)
        assert set(results.values()) == {Applied()}
        sent = sum(request.api == "AlterClientQuotas" for request in recorder.of("request"))
        assert sent == math.ceil(len(many) / (MAX_OPERATIONS // len(keys)))
        assert (await our.wait_visible(many[-3:])).everywhere
        assert len((await our.describe()).limits) == 10_000
        await our.alter(
            [
                Alteration(alteration.entity, tuple((key, None) for key in keys))
                for alteration in many
            ]
        )


@pytest.mark.parametrize("version", ["3.9.1", NEWEST])
@on_loop
async def test_entity_types_are_strings_that_the_broker_validates_with_its_own_message(
    empty_kafka: StartKafka, version: str
) -> None:
    """KIP-546: types are not restricted to constants, and a broker refuses unknown ones."""
    group = (("group", "g"),)
    async with QuotaClient(to(empty_kafka(version))) as our:
        refused = await our.alter_open([OpenAlteration(group, ((RATE, 1.0),))])
        assert refused[group] == Rejected(
            code=42, name="INVALID_REQUEST", message="Unhandled client quota entity type: group"
        )
        for match in ("g", None, ANY):
            with pytest.raises(BrokerError, match="Unsupported entity type group"):
                await our.describe(
                    Filter(components=(Component(entity_type="group", match=match),))
                )
        assert (await our.describe()).foreign_entities == ()


@on_loop
async def test_the_blocking_client_works_with_a_real_broker(empty_kafka: StartKafka) -> None:
    broker = empty_kafka(NEWEST)
    with SyncQuotaClient(to(broker)) as our:
        alice = entity(user="alice")
        assert our.alter([setting(alice)]) == {alice: Applied()}
        assert our.wait_visible([setting(alice)]).everywhere
