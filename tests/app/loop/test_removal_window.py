"""The window of the removal guard survives a restart and a clock that is set back; failed removals are returned."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.app.loop.removal_window import MemoryRemovals, RemovalWindow
from reconciler.errors import ConfigError, InventoryError
from reconciler.quota.planner.removal_budgets import RemovalCount

NOW = 1_700_000_000.0


async def add(window: RemovalWindow, count: int, at: float, tenant: str = "a") -> None:
    removal = RemovalCount(at=at, tenant=tenant, count=count, owned=9, owned_by_all=99)
    await window.add([removal] if count else [], at)


async def count(window: RemovalWindow, at: float) -> int:
    return sum(removal.count for removal in await window.history(at))


def test_removals_count_for_the_length_of_the_window() -> None:
    async def story() -> None:
        window = RemovalWindow(MemoryRemovals(), seconds=60.0)
        await add(window, 3, NOW)
        await add(window, 2, NOW + 30)
        assert await count(window, NOW + 59) == 5
        assert await count(window, NOW + 60) == 2
        assert await count(window, NOW + 90) == 0

    asyncio.run(story())


def test_another_process_continues_the_count() -> None:
    async def story() -> None:
        store = MemoryRemovals()
        await add(RemovalWindow(store, seconds=60.0), 7, NOW)
        assert await count(RemovalWindow(store, seconds=60.0), NOW + 1) == 7

    asyncio.run(story())


def test_subtracted_removals_reduce_only_the_count_of_their_own_time() -> None:
    async def story() -> None:
        store = MemoryRemovals()
        window = RemovalWindow(store, seconds=60.0)
        await add(window, 4, NOW)
        await add(window, 5, NOW + 1)
        await add(window, 2, NOW + 1, "b")
        await window.take_back({"a": 5}, NOW + 1)
        await window.take_back({"a": 9, "b": 0}, NOW + 2)
        assert [(removal.at, removal.tenant, removal.count) for removal in store.counts] == [
            (NOW, "a", 4),
            (NOW + 1, "b", 2),
        ]

    asyncio.run(story())


def test_nothing_is_written_when_nothing_is_counted() -> None:
    class Untouched(MemoryRemovals):
        async def save(self, counts: object) -> None:
            raise AssertionError

    asyncio.run(RemovalWindow(Untouched(), seconds=60.0).add([], NOW))


def test_a_clock_that_was_set_back_does_not_hide_removals() -> None:
    async def story() -> None:
        window = RemovalWindow(MemoryRemovals(), seconds=60.0)
        await add(window, 3, NOW)
        assert await count(window, NOW - 3600) == 3

    asyncio.run(story())


def test_counts_that_could_not_be_saved_do_not_count_as_saved() -> None:
    class Full(MemoryRemovals):
        async def save(self, counts: object) -> None:
            raise InventoryError("no space left on device")

    async def story() -> None:
        window = RemovalWindow(Full(), seconds=60.0)
        with pytest.raises(InventoryError):
            await add(window, 3, NOW)
        assert await count(window, NOW) == 0

    asyncio.run(story())


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_window_without_length_is_rejected(seconds: float) -> None:
    with pytest.raises(ConfigError):
        RemovalWindow(MemoryRemovals(), seconds=seconds)


@given(st.lists(st.tuples(st.floats(0, 200), st.integers(0, 5)), max_size=20), st.floats(0, 300))
def test_the_count_is_the_sum_of_the_removals_within_the_window(
    removals: list[tuple[float, int]], number: float
) -> None:
    removals.sort()

    async def story() -> None:
        store = MemoryRemovals()
        for after, size in removals:
            await add(RemovalWindow(store, seconds=60.0), size, NOW + after)
        last = max([number, *(after for after, _ in removals)])
        expected = sum(size for after, size in removals if NOW + after > NOW + last - 60.0)
        assert await count(RemovalWindow(store, seconds=60.0), NOW + last) == expected

    asyncio.run(story())


def test_the_length_of_a_window_can_change():
    async def counts() -> list[int]:
        window = RemovalWindow(MemoryRemovals(), seconds=10.0)
        await add(window, 1, 100.0)
        sums = [await count(window, 105.0)]
        for seconds in (3.0, 10.0):
            window.seconds = seconds
            sums.append(await count(window, 105.0))
        return sums

    assert asyncio.run(counts()) == [1, 0, 1]
