"""Requirements of `reconcile` on a `ports.QuotaStore`: one suite for the unit tests' fake, sandboxes, real brokers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from reconciler.client.client_config import ClientConfig
from reconciler.client.quota_client import QuotaClient
from reconciler.ports import QuotaStore
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.state import (
    ALL,
    ANY,
    Alteration,
    Applied,
    Component,
    Filter,
    QuotaState,
    Rejected,
    Result,
    exactly,
)
from tests.contract.conftest import TARGETS
from tests.contract.targets import Target
from tests.fakes.cluster import FakeCluster

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
ALICE, ANYONE, LITERAL = entity(user="alice"), entity(user=DEFAULT), entity(user="<default>")
PAIR, SHOP, WRONG = (
    entity(user="alice", client_id="shop"),
    entity(client_id="shop"),
    entity(ip="10.0.0.1"),
)

Story = Callable[[QuotaStore], Awaitable[None]]


@pytest.fixture(params=["fake", *TARGETS])
def tell(
    request: pytest.FixtureRequest, start_target: Callable[[str], Target]
) -> Callable[[Story], None]:
    """Run a story on an empty store."""
    if request.param == "fake":
        return lambda story: asyncio.run(story(FakeCluster()))
    target = start_target(request.param)
    target.clear()

    async def on_client(story: Story) -> None:
        config = ClientConfig.from_mapping({"bootstrap.servers": f"127.0.0.1:{target.port}"})
        async with QuotaClient(config) as client:
            await story(client)

    return lambda story: asyncio.run(on_client(story))


def change(subject: Entity, **values: float | None) -> Alteration:
    return Alteration(subject, tuple(values.items()))


async def written(store: QuotaStore, *alterations: Alteration) -> dict[Entity, Result]:
    """Results of an alter, after every broker shows the applied values."""
    results = dict(await store.alter(alterations))
    applied = [alteration for alteration in alterations if results[alteration.entity] == Applied()]
    if applied:
        assert (await store.wait_visible(applied, timeout=60.0)).everywhere
    return results


def test_set_values_are_described_and_removed_ones_are_absent(tell):
    async def story(store):
        await written(
            store,
            change(ALICE, producer_byte_rate=5.0, request_percentage=2.5),
            change(PAIR, producer_byte_rate=3.0),
        )
        assert (await store.describe(ALL)).limits == {
            ALICE: (5.0, None, 2.5, None, None),
            PAIR: (3.0, None, None, None, None),
        }
        await written(
            store,
            change(ALICE, producer_byte_rate=6.0, request_percentage=None),
            change(PAIR, producer_byte_rate=None),
        )
        assert (await store.describe(ALL)) == QuotaState(
            limits={ALICE: (6.0, None, None, None, None)}
        )

    tell(story)


def test_the_default_and_the_literal_name_are_distinct(tell):
    async def story(store):
        await written(
            store, change(ANYONE, producer_byte_rate=1.0), change(LITERAL, producer_byte_rate=2.0)
        )
        state = await store.describe(ALL)
        assert (state.value(ANYONE, RATE), state.value(LITERAL, RATE)) == (1.0, 2.0)
        assert set((await store.describe(exactly(ANYONE))).limits) == {ANYONE}

    tell(story)


def test_filters_are_exact_default_any_open_and_strict(tell):
    async def story(store):
        everything = (ALICE, ANYONE, LITERAL, PAIR, SHOP)
        await written(store, *(change(subject, producer_byte_rate=9.0) for subject in everything))

        async def entities(*components: tuple[str, object], strict: bool) -> set[Entity]:
            expected_filter = Filter(
                components=tuple(
                    Component(entity_type=kind, match=match) for kind, match in components
                ),
                strict=strict,
            )
            return set((await store.describe(expected_filter)).limits)

        assert await entities(("user", "alice"), strict=True) == {ALICE}
        assert await entities(("user", "alice"), strict=False) == {ALICE, PAIR}
        assert await entities(("user", ANY), strict=True) == {ALICE, ANYONE, LITERAL}
        assert await entities(("user", DEFAULT), strict=False) == {ANYONE}
        assert await entities(strict=True) == set()
        assert await entities(strict=False) == set(everything)

    tell(story)


def test_every_entity_has_one_result_and_a_rejected_one_does_not_stop_the_others(tell):
    async def story(store):
        results = await written(
            store,
            change(ALICE, producer_byte_rate=5.0),
            change(WRONG, producer_byte_rate=5.0),
            change(SHOP, producer_byte_rate=5.0),
        )
        assert set(results) == {ALICE, WRONG, SHOP}
        assert (results[ALICE], results[SHOP]) == (Applied(), Applied())
        assert isinstance(results[WRONG], Rejected)
        assert results[WRONG].code == 42
        assert set((await store.describe(ALL)).limits) == {ALICE, SHOP}

    tell(story)


def test_validating_changes_nothing(tell):
    async def story(store):
        results = await store.alter(
            [change(ALICE, producer_byte_rate=5.0), change(WRONG, producer_byte_rate=5.0)],
            validate_only=True,
        )
        assert results[ALICE] == Applied()
        assert isinstance(results[WRONG], Rejected)
        assert (await store.describe(ALL)).limits == {}

    tell(story)


def test_results_are_reported_during_the_call(tell):
    async def story(store):
        results_so_far: dict[Entity, Result] = {}
        results = await store.alter([change(ALICE, producer_byte_rate=5.0)], results=results_so_far)
        assert results_so_far == dict(results) == {ALICE: Applied()}

    tell(story)


def test_waiting_ends_with_the_brokers_that_do_not_show_the_change(tell):
    async def story(store):
        await written(store, change(ALICE, producer_byte_rate=5.0))
        for seconds in (
            0.3,
            3.0,
            30.0,
        ):  # a busy machine may not respond at all in the shortest time
            visibility = await store.wait_visible(
                [change(ALICE, producer_byte_rate=7.0)], timeout=seconds
            )
            assert not visibility.everywhere
            if visibility.lagging:
                break
        assert visibility.lagging
        assert (
            await store.wait_visible([change(PAIR, producer_byte_rate=None)], timeout=60.0)
        ).everywhere

    tell(story)


def test_a_cluster_has_an_id_nodes_and_rights(tell):
    async def story(store):
        cluster = await store.cluster()
        assert cluster.id
        assert cluster.nodes
        assert cluster.may_alter
        assert cluster.behaves_as in {"3.4", "3.9", "4.x"}

    tell(story)


def test_each_broker_can_be_described_by_its_id(tell):
    async def story(store):
        await written(store, change(ALICE, producer_byte_rate=5.0))
        for node in (await store.cluster()).nodes:
            assert (await store.describe(exactly(ALICE), node=node.id)).value(ALICE, RATE) == 5.0

    tell(story)
