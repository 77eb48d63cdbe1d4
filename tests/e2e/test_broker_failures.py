"""Failures of real brokers: lost responses, stopped brokers, concurrent writers, refusals, throttling, many keys."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.base.clock import SystemClock
from reconciler.client import ClientConfig, QuotaClient
from reconciler.client.events import ClientEvents
from reconciler.errors import AuthorizationError, InventoryLocked, PlanRefused
from reconciler.inventory.file import FileInventory
from reconciler.inventory.memory import MemoryInventory
from reconciler.inventory.records_file import RecordsFile
from reconciler.inventory.writers import InventoryWriter
from reconciler.quota.entity import Entity, entity
from reconciler.quota.filters import exactly
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Alteration, Applied, Rejected
from reconciler.quota.policy import Cause, DriftMode
from reconciler.quota.results.report import PairVisibility
from reconciler.reconcile import NewOverride, apply, prepare, rollback_orders
from tests.e2e.runs import (
    ANYTHING,
    EVERYTHING,
    addresses,
    config,
    desired_state,
    ports,
    reconciled,
    settled,
)
from tests.fakes.clock import FakeClock
from tests.servers.fault_proxy import in_front_of
from tests.servers.faults import Action, Fault
from tests.servers.kafka import KafkaCluster
from tests.servers.properties import Listener

pytestmark = pytest.mark.integration

ALTER = 49
RATE = Key.PRODUCER_BYTE_RATE
QUICK = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def users(
    count: int, value: float = 1_048_576.0, *, prefix: str = "user"
) -> dict[Entity, dict[Key, float]]:
    return {
        entity(user=f"{prefix}-{number:05d}"): {RATE: value + number} for number in range(count)
    }


def test_a_response_that_is_lost_after_the_write_is_unknown_and_the_next_run_owns_the_written_values(
    empty_kafka,
) -> None:
    cluster = empty_kafka("4.3.1")

    async def story() -> None:
        inventory = MemoryInventory()
        with in_front_of(cluster) as proxies:
            (proxy,) = proxies.values()
            _ = proxy.plant(
                Fault(
                    action=Action.LOSE_ANSWER,
                    api_key=ALTER,
                    matching=lambda request: request.writes,
                )
            )
            async with QuotaClient(config(f"127.0.0.1:{proxy.port}")) as client:
                outcome = await reconciled(client, inventory, desired_state(users(10)))
                assert outcome.count("UNKNOWN") == 10
                assert not outcome.complete
                landed = [
                    Alteration(subject, ((str(RATE), limits[RATE]),))
                    for subject, limits in users(10).items()
                ]
                assert (await client.wait_visible(landed, timeout=30)).everywhere
                # A live intended value is owned, whether or not the response arrived.
                assert (await reconciled(client, inventory, desired_state(users(10)))).pairs == ()
                owned = await inventory.load(cluster.cluster_id)
                assert owned.pair_count == 10
                assert not owned.intents

    asyncio.run(story())


def test_a_request_that_did_not_reach_the_broker_leaves_nothing_and_the_next_run_applies_it(
    empty_kafka,
) -> None:
    cluster = empty_kafka("4.3.1")

    async def story() -> None:
        inventory = MemoryInventory()
        with in_front_of(cluster) as proxies:
            (proxy,) = proxies.values()
            _ = proxy.plant(
                Fault(
                    action=Action.CUT_BEFORE,
                    api_key=ALTER,
                    repeat=True,
                    matching=lambda request: request.writes,
                )
            )
            async with QuotaClient(config(f"127.0.0.1:{proxy.port}")) as client:
                outcome = await reconciled(client, inventory, desired_state(users(10)))
                assert outcome.count("UNKNOWN") == 10
                assert await settled(client) == {}
                proxy.heal()
                outcome = await reconciled(client, inventory, desired_state(users(10)))
                assert outcome.complete
                assert len(await settled(client)) == 10

    asyncio.run(story())


def test_a_rejected_entity_does_not_stop_the_other_ninety_nine(
    empty_kafka,
) -> None:
    cluster = empty_kafka("4.3.1")

    async def story() -> None:
        async with QuotaClient(config(cluster.bootstrap())) as client:
            # A name that is invalid in a manifest, because Kafka would resolve it; the broker finds no such host.
            bad = entity(ip="no.such.host.invalid")
            alterations = [
                Alteration(subject, tuple((str(key), value) for key, value in limits.items()))
                for subject, limits in users(99).items()
            ]
            results = await client.alter(
                [*alterations, Alteration(bad, (("connection_creation_rate", 5.0),))]
            )
            assert len(results) == 100
            assert isinstance(results[bad], Rejected)
            assert "is not a valid IP or resolvable host" in results[bad].message
            assert sum(isinstance(result, Applied) for result in results.values()) == 99
            await client.wait_visible(alterations, timeout=30)
            assert len(await settled(client)) == 99

    asyncio.run(story())


def test_a_stopped_broker_is_named_and_shows_the_missed_changes_after_its_restart() -> None:
    with KafkaCluster("4.3.1", nodes=3, extra=QUICK) as cluster:

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
                visibility = await client.wait_visible(alterations, timeout=4)
                assert asleep not in visibility.visible
                assert asleep in visibility.lagging or asleep in visibility.unreachable
                cluster.resume(asleep)
                visibility = await client.wait_visible(alterations, timeout=60)
                assert awake in visibility.visible
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
            assert ("apply", 4000, 4000) in steps
            assert dict(await settled(client)) == dict(desired.limits)

    asyncio.run(story())


def test_a_concurrent_write_of_another_writer_is_recognised_and_never_owned(empty_kafka) -> None:
    """During the request of kquota, another writer sets one of the pairs directly after it."""
    cluster = empty_kafka("4.3.1")

    async def story() -> None:
        inventory = MemoryInventory()
        with in_front_of(cluster) as proxies:
            (proxy,) = proxies.values()
            hold = proxy.plant(
                Fault(
                    action=Action.HOLD_ANSWER,
                    api_key=ALTER,
                    matching=lambda request: request.writes,
                )
            )
            async with (
                QuotaClient(config(f"127.0.0.1:{proxy.port}")) as own_client,
                QuotaClient(config(cluster.bootstrap())) as foreign_client,
            ):
                running = asyncio.create_task(
                    reconciled(own_client, inventory, desired_state(users(5)))
                )
                await asyncio.to_thread(hold.wait_reached)
                stolen = entity(user="user-00002")
                change = [Alteration(stolen, ((str(RATE), 7_000_000.0),))]
                _ = await foreign_client.alter(change)
                _ = await foreign_client.wait_visible(change, timeout=30)
                hold.release()
                outcome = await running
                by_entity = {pair.change.entity: pair for pair in outcome.pairs}
                assert by_entity[stolen].visibility is PairVisibility.CHANGED
                assert by_entity[stolen].observed_value == 7_000_000.0
                assert [
                    pair.visibility for subject, pair in by_entity.items() if subject != stolen
                ] == [PairVisibility.VISIBLE] * 4
                # The acknowledged value is recorded, so the live value is drift, which is reported and not corrected.
                plan = (
                    await prepare(ports(own_client, inventory), EVERYTHING, desired_state(users(5)))
                ).plan
                assert plan.changes == ()
                assert [finding.cause for finding in plan.findings] == [Cause.DRIFT]

    asyncio.run(story())


def test_drift_is_reported_and_corrected_only_where_configured(empty_kafka) -> None:
    cluster = empty_kafka("4.0.1")

    async def story() -> None:
        inventory = MemoryInventory()
        desired = desired_state(users(3))
        async with QuotaClient(config(cluster.bootstrap())) as client:
            assert (await reconciled(client, inventory, desired)).complete
            change = [Alteration(entity(user="user-00001"), ((str(RATE), 9.0),))]
            _ = await client.alter(change)
            _ = await client.wait_visible(change, timeout=30)
            warned = await reconciled(client, inventory, desired)
            assert warned.pairs == ()
            correcting = replace(
                EVERYTHING, rules=replace(EVERYTHING.rules, drift=DriftMode.CORRECT)
            )
            corrected = await reconciled(client, inventory, desired, correcting)
            assert [pair.change.cause for pair in corrected.pairs] == [Cause.DRIFT]
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
            assert (await applier.wait_visible(alterations, timeout=30)).everywhere
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
            _ = await client.wait_visible(brake, timeout=30)
            outcome = await reconciled(client, MemoryInventory(), desired_state(users(5)))
            assert outcome.count("APPLIED") == 5
            _ = await client.alter([Alteration(brake[0].entity, (("request_percentage", None),))])

    asyncio.run(story())
    assert throttled, "the broker did not throttle, so the test proves nothing"


def test_an_override_applies_until_it_expires_and_the_next_run_restores_the_declared_value(
    empty_kafka,
) -> None:
    cluster = empty_kafka("4.3.1")

    async def story() -> None:
        clock = FakeClock()
        inventory = MemoryInventory()
        desired = desired_state(users(2))
        subject = entity(user="user-00000")
        async with QuotaClient(config(cluster.bootstrap())) as client:
            input_ports = replace(ports(client, inventory), clock=clock)

            async def run(orders=EVERYTHING):

                return await apply(input_ports, orders, await prepare(input_ports, orders, desired))

            assert (await run()).complete
            night = NewOverride(
                entity=subject,
                key=RATE,
                value=99_999.0,
                until=clock.now() + 7200,
                principal="on call",
                reason="incident",
            )
            assert (await run(replace(EVERYTHING, overrides=(night,)))).complete
            assert (await client.describe(exactly(subject))).value(subject, RATE) == 99_999.0
            assert (await run()).pairs == ()
            clock.advance(7201)
            back = await run()
            assert [pair.change.cause for pair in back.pairs] == [Cause.OVERRIDE_EXPIRED]
            assert (await client.describe(exactly(subject))).value(subject, RATE) == 1_048_576.0
            assert (await run()).pairs == ()

    asyncio.run(story())


def test_a_second_writer_of_a_cluster_is_refused_while_the_first_runs_or_if_their_scopes_overlap(
    empty_kafka, tmp_path: Path
) -> None:
    cluster = empty_kafka("4.3.1")
    path = tmp_path / "inventory.json"

    async def story() -> None:
        clock = SystemClock()
        async with QuotaClient(config(cluster.bootstrap())) as client:
            with FileInventory(
                RecordsFile(path),
                clock=clock,
                writer=InventoryWriter(id="ci", description="kquota apply"),
            ) as first:
                assert (await reconciled(client, first, desired_state(users(2)))).complete
                with (
                    FileInventory(
                        RecordsFile(path),
                        clock=clock,
                        writer=InventoryWriter(id="ci", description="kquota apply"),
                    ) as second,
                    pytest.raises(InventoryLocked, match="kquota apply"),
                ):
                    _ = await reconciled(client, second, desired_state(users(2)))
            with (
                FileInventory(
                    RecordsFile(path),
                    clock=clock,
                    writer=InventoryWriter(id="other", description="kquota watch"),
                ) as stranger,
                pytest.raises(PlanRefused, match="ci"),
            ):
                _ = await reconciled(client, stranger, desired_state(users(2)))

    asyncio.run(story())


def test_rollback_restores_the_previous_values(empty_kafka) -> None:
    cluster = empty_kafka("4.3.1")

    async def story() -> None:
        inventory = MemoryInventory()
        async with QuotaClient(config(cluster.bootstrap())) as client:
            assert (await reconciled(client, inventory, desired_state(users(3)))).complete
            before = await settled(client)
            changed = desired_state(users(3, value=2_097_152.0))
            outcome = await reconciled(client, inventory, changed)
            assert outcome.complete
            pairs = [
                (pair.change.entity, pair.change.key, pair.change.before) for pair in outcome.pairs
            ]
            back = rollback_orders(
                pairs, now=SystemClock().now(), principal="tester", reason="too tight"
            )
            assert (
                await reconciled(client, inventory, changed, replace(EVERYTHING, overrides=back))
            ).complete
            assert await settled(client) == before
            # The rollback stays in effect while the documents are unchanged.
            assert (await reconciled(client, inventory, changed)).pairs == ()
            # A changed document ends the rollback.
            newer = desired_state(users(3, value=3_000_000.0))
            assert (await reconciled(client, inventory, newer)).complete
            assert dict(await settled(client)) == dict(newer.limits)

    asyncio.run(story())


def test_the_guards_stop_a_plan_before_anything_is_written(empty_kafka) -> None:
    cluster = empty_kafka("4.3.1")

    async def story() -> None:
        inventory = MemoryInventory()
        async with QuotaClient(config(cluster.bootstrap())) as client:
            assert (await reconciled(client, inventory, desired_state(users(40)))).complete
            strict = replace(EVERYTHING, guards=replace(ANYTHING, max_removals=10))
            with pytest.raises(PlanRefused, match="guards refuse") as refused:
                _ = await reconciled(client, inventory, desired_state(users(20)), strict)
            assert any("20 removals" in violation for violation in refused.value.violations)
            assert len(await settled(client)) == 40

    asyncio.run(story())
