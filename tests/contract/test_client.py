"""The contract with the project's client: its requests, and its results of the responses, on every target."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from reconciler.client.client_config import ClientConfig
from reconciler.client.quota_client import QuotaClient
from reconciler.errors import AuthenticationError, AuthorizationError
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import (
    ALL,
    ANY,
    Alteration,
    Applied,
    Component,
    Filter,
    Limits,
    QuotaState,
    Rejected,
    exactly,
    limits_of,
)
from tests.contract.expectations import CONNECTION, CONSUMER, PRODUCER, REQUEST
from tests.contract.targets import Target

T = TypeVar("T")

RULES: dict[Entity, dict[str, float]] = {
    entity(user="alice"): {PRODUCER: 1024.0, CONSUMER: 2.0**63},
    entity(user=DEFAULT): {REQUEST: 12.5},
    entity(user="<default>"): {PRODUCER: 2.0},
    entity(user="alice", client_id="app"): {PRODUCER: 3.0},
    entity(user="alice", client_id=DEFAULT): {PRODUCER: 4.0},
    entity(user=DEFAULT, client_id="app"): {PRODUCER: 5.0},
    entity(user=DEFAULT, client_id=DEFAULT): {PRODUCER: 6.0},
    entity(client_id="app"): {PRODUCER: 7.0},
    entity(client_id=DEFAULT): {PRODUCER: 8.0, "controller_mutation_rate": 0.25},
    entity(ip="10.0.0.1"): {CONNECTION: 9.0},
    entity(ip=DEFAULT): {CONNECTION: 2147483647.0},
    entity(user='\u0436\U0001f389 "x"\\,=\n'): {PRODUCER: 1e7},
}
RIGHTS = {
    "planner": frozenset({"Describe", "DescribeConfigs"}),
    "applier": frozenset({"Describe", "DescribeConfigs", "AlterConfigs"}),
    "alice": None,
}


def limits(values: dict[str, float]) -> Limits:
    return limits_of({Key(key): value for key, value in values.items()})


def as_alterations(rules: dict[Entity, dict[str, float]]) -> list[Alteration]:
    return [Alteration(subject, tuple(values.items())) for subject, values in rules.items()]


def config(target: Target, user: str | None = None, *, mechanism: str = "PLAIN") -> ClientConfig:
    if user is None:
        return ClientConfig.from_mapping({"bootstrap.servers": f"127.0.0.1:{target.port}"})
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return ClientConfig.from_mapping(
        {
            "bootstrap.servers": f"127.0.0.1:{target.sasl_port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required"
            f' username="{user}" password="{target.users.get(user, "wrong")}";',
        }
    )


def ask(settings: ClientConfig, use: Callable[[QuotaClient], Awaitable[T]]) -> T:
    async def main() -> T:
        async with QuotaClient(settings) as client:
            return await use(client)

    return asyncio.run(main())


def test_written_values_are_read_back(empty: Target) -> None:
    alterations = as_alterations(RULES)

    async def use(client: QuotaClient) -> QuotaState:
        checked = await client.alter(alterations, validate_only=True)
        assert checked == {alteration.entity: Applied() for alteration in alterations}
        assert (await client.describe()).limits == {}
        assert await client.alter(alterations) == checked
        visibility = await client.wait_visible(alterations)
        assert visibility.everywhere
        assert visibility.visible == (1,)
        return await client.describe()

    state = ask(config(empty), use)
    assert state.limits == {subject: limits(values) for subject, values in RULES.items()}
    assert not state.foreign_entities
    assert not state.foreign_values


def test_filters_of_the_broker_select_as_the_local_matching_does(empty: Target) -> None:
    matches = ("alice", "<default>", DEFAULT, ANY)
    filters = [
        ALL,
        *(
            Filter(components=(Component(entity_type=kind, match=match),), strict=strict)
            for kind in ("user", "client-id", "ip")
            for match in matches
            for strict in (True, False)
        ),
        *(
            Filter(
                components=(
                    Component(entity_type="user", match=user),
                    Component(entity_type="client-id", match=client),
                ),
                strict=strict,
            )
            for user in matches
            for client in ("app", DEFAULT, ANY)
            for strict in (True, False)
        ),
        *map(exactly, RULES),
    ]

    async def use(client: QuotaClient) -> dict[Filter, set[Entity]]:
        await client.alter(as_alterations(RULES))
        assert (await client.wait_visible(as_alterations(RULES))).everywhere
        return {
            expected_filter: set((await client.describe(expected_filter)).limits)
            for expected_filter in filters
        }

    entities_by_filter = ask(config(empty), use)
    assert entities_by_filter == {
        expected_filter: set(filter(expected_filter.matches, RULES)) for expected_filter in filters
    }


def test_a_rejection_contains_the_code_and_the_message_of_the_broker(empty: Target) -> None:
    good, bad = entity(user="good"), entity(user="bad")
    refused = {
        "3.4": "Configuration producer_byte_rate must be a Long value",
        "all": "producer_byte_rate cannot be a fractional value.",
    }

    async def use(client: QuotaClient) -> None:
        results = await client.alter(
            [Alteration(good, ((PRODUCER, 5.0),)), Alteration(bad, ((PRODUCER, 0.5),))]
        )
        words = empty.expected(refused)
        assert results == {
            good: Applied(),
            bad: Rejected(code=42, name="INVALID_REQUEST", message=words),
        }

    ask(config(empty), use)


def test_many_entities_are_sent_in_requests_that_the_broker_accepts(empty: Target) -> None:
    alterations = [
        Alteration(entity(user=f"u{number}"), ((PRODUCER, 1.0), (CONSUMER, 2.0)))
        for number in range(6_000)
    ]

    async def use(client: QuotaClient) -> None:
        results = await client.alter(alterations)
        assert results == {alteration.entity: Applied() for alteration in alterations}
        assert (await client.wait_visible(alterations)).everywhere
        assert (await client.describe()).limits.keys() == results.keys()

    ask(config(empty), use)


@pytest.mark.parametrize("user", RIGHTS)
def test_the_client_reports_the_cluster_and_its_rights(target: Target, user: str) -> None:
    cluster = ask(config(target, user), lambda client: client.cluster())
    assert cluster.id == target.cluster_id
    assert [(node.id, node.host, node.port) for node in cluster.nodes] == [
        (1, "127.0.0.1", target.sasl_port)
    ]
    assert cluster.rights == RIGHTS[user]
    assert cluster.may_alter == (user == "applier")
    assert cluster.behaves_as == target.lines[-1]


def test_a_denied_principal_is_informed_of_the_missing_right(empty: Target) -> None:
    alteration = Alteration(entity(user="a"), ((PRODUCER, 1.0),))
    with pytest.raises(AuthorizationError, match="AlterConfigs"):
        ask(config(empty, "planner"), lambda client: client.alter([alteration]))
    with pytest.raises(AuthorizationError, match="AlterConfigs"):
        ask(config(empty, "planner"), lambda client: client.alter([alteration], validate_only=True))
    with pytest.raises(AuthorizationError, match="DescribeConfigs"):
        ask(config(empty, "alice"), lambda client: client.describe())


def test_a_wrong_password_is_a_final_error(target: Target) -> None:
    with pytest.raises(AuthenticationError):
        ask(config(target, "stranger"), lambda client: client.describe())


def test_the_client_logs_in_with_every_mechanism_of_the_listener(empty: Target) -> None:
    for mechanism in empty.mechanisms:
        state = ask(config(empty, "planner", mechanism=mechanism), lambda client: client.describe())
        assert state.limits == {}


def test_a_custom_callback_does_not_replace_kafkas_rules(target: Target) -> None:
    assert ask(config(target, "planner"), lambda client: client.quota_callback()) is None


def test_scram_users_are_listed_with_their_mechanisms(target: Target) -> None:
    if target.expected({"3.4": True, "all": False}):
        return  # that version lacks the API: test_rights checks the offered APIs
    credentials = ask(config(target, "planner"), lambda client: client.scram_users())
    assert list(credentials) == sorted(target.users)
    assert {credential.mechanism for credential in credentials["alice"]} == {
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
    }
