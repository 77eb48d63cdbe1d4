"""Real brokers: one that is stopped, twelve thousand changes, ACLs, throttling."""

import asyncio

import pytest
from msgspec.structs import replace

from reconciler.client import ClientConfig, QuotaClient
from reconciler.client.events import ClientEvents
from reconciler.errors import AuthorizationError
from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.entity import Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import Alteration, Applied
from reconciler.reconcile import apply, prepare
from tests.e2e.runs import EVERYTHING, addresses, config, desired_state, ports, reconciled, settled
from tests.servers.kafka import KafkaCluster
from tests.servers.processes import HANG_SECONDS
from tests.servers.properties import Listener

pytestmark = pytest.mark.integration

RATE = Key.PRODUCER_BYTE_RATE
NEVER_FENCED = {"broker.session.timeout.ms": "600000"}
"""A fenced broker is in no metadata, so nobody could name it; a busy machine takes longer than the default of 9 s."""


def users(
    count: int, value: float = 1_048_576.0, *, prefix: str = "user"
) -> dict[Entity, dict[Key, float]]:
    return {
        entity(user=f"{prefix}-{number:05d}"): {RATE: value + number} for number in range(count)
    }


def test_a_stopped_broker_is_named_and_shows_the_missed_changes_after_its_restart() -> None:
    with KafkaCluster("4.3.1", nodes=3, extra=NEVER_FENCED) as cluster:

        async def story() -> None:
            inventory = MemoryInventory()
            leader = cluster.active_controller()
            asleep = next(number for number in cluster.numbers if number != leader)
            awake = next(number for number in cluster.numbers if number not in (leader, asleep))
            async with QuotaClient(config(addresses(cluster)[awake])) as client:
                await client.cluster()
                cluster.pause(asleep)
                alterations = [Alteration(entity(user="alice"), ((str(RATE), 2048.0),))]
                results = await client.alter(alterations)
                assert isinstance(results[alterations[0].entity], Applied)
                visibility = await client.wait_visible(alterations, timeout=10)
                assert asleep in visibility.unreachable
                cluster.resume(asleep)
                visibility = await client.wait_visible(alterations, timeout=HANG_SECONDS)
                assert visibility.everywhere
                assert {asleep, awake} <= set(visibility.visible)
                outcome = await reconciled(
                    client, inventory, desired_state({entity(user="alice"): {RATE: 2048.0}})
                )
                assert outcome.complete

        asyncio.run(story())


def test_twelve_thousand_changed_keys_are_applied_by_one_apply(empty_kafka) -> None:
    cluster = empty_kafka("4.3.1", heap_megabytes=768)

    async def story() -> None:
        rates = (Key.PRODUCER_BYTE_RATE, Key.CONSUMER_BYTE_RATE, Key.REQUEST_PERCENTAGE)
        desired = desired_state(
            {
                entity(user=f"u-{number}", client_id="app"): dict.fromkeys(rates, 5000.0 + number)
                for number in range(4000)
            }
        )
        steps: list[tuple[str, int, int]] = []
        async with QuotaClient(config(cluster.bootstrap())) as client:
            input_ports = replace(
                ports(client, MemoryInventory()), progress=lambda *step: steps.append(step)
            )

            outcome = await apply(
                input_ports, EVERYTHING, await prepare(input_ports, EVERYTHING, desired)
            )
            assert outcome.complete
            assert outcome.count("APPLIED") == 12_000
            assert ("apply", 12_000, 12_000) in steps
            assert dict(await settled(client)) == dict(desired.limits)

    asyncio.run(story())


def test_the_planner_may_read_only_and_the_applier_may_read_and_write(kafka) -> None:
    cluster = kafka("4.3.1", listeners=("PLAINTEXT", "SASL_PLAINTEXT"), acls=True)

    async def story() -> None:
        alterations = [Alteration(entity(user="rights"), ((str(RATE), 4096.0),))]

        def login(user: str) -> QuotaClient:

            return QuotaClient(
                ClientConfig.from_mapping(
                    dict(cluster.client_properties(Listener.SASL_PLAINTEXT, user=user))
                )
            )

        async with login("planner") as planner:
            description = await planner.cluster()
            assert not description.may_alter
            assert description.rights is not None
            assert "DescribeConfigs" in description.rights
            _ = await planner.describe()
            for validate_only in (True, False):
                with pytest.raises(AuthorizationError, match="AlterConfigs"):
                    raise_refusals(await planner.alter(alterations, validate_only=validate_only))
        async with login("applier") as applier:
            assert (await applier.cluster()).may_alter
            assert isinstance(
                (await applier.alter(alterations, validate_only=True))[alterations[0].entity],
                Applied,
            )
            assert isinstance((await applier.alter(alterations))[alterations[0].entity], Applied)
            assert (await applier.wait_visible(alterations, timeout=HANG_SECONDS)).everywhere
            _ = await applier.alter([Alteration(alterations[0].entity, ((str(RATE), None),))])
        async with login("alice") as stranger:
            with pytest.raises(AuthorizationError, match="DescribeConfigs"):
                _ = await stranger.describe()

    asyncio.run(story())


def raise_refusals(results: object) -> None:
    """Do nothing: a refusal of the whole request was raised already."""
    raise AssertionError(f"the broker should have refused the whole request, not {results}")


def test_a_throttled_client_waits_for_the_throttle_time_and_finishes(empty_kafka) -> None:
    cluster = empty_kafka("4.3.1")
    throttled: list[float] = []

    async def story() -> None:

        events = ClientEvents(throttled=lambda event: throttled.append(event.seconds))
        own = "slow-lane"
        async with QuotaClient(
            config(cluster.bootstrap(), **{"client.id": own}), events=events
        ) as client:
            brake = [Alteration(entity(client_id=own), (("request_percentage", 0.01),))]
            _ = await client.alter(brake)
            _ = await client.wait_visible(brake, timeout=HANG_SECONDS)
            outcome = await reconciled(client, MemoryInventory(), desired_state(users(5)))
            assert outcome.count("APPLIED") == 5
            _ = await client.alter([Alteration(brake[0].entity, (("request_percentage", None),))])

    asyncio.run(story())
    assert throttled, "the broker did not throttle, so the test proves nothing"
