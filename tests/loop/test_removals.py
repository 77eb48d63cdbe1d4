import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ConfigError, InventoryError
from reconciler.loop import MemoryRemovals, RemovalWindow
from reconciler.loop.removals import removals_of
from reconciler.quota.change import Change, Plan
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.policy import Cause

NOW = 1_700_000_000.0


def test_removals_count_for_the_length_of_the_window() -> None:
    async def story() -> None:
        window = RemovalWindow(MemoryRemovals(), seconds=60.0)
        await window.add(3, NOW)
        await window.add(2, NOW + 30)
        assert await window.count(NOW + 59) == 5
        assert await window.count(NOW + 60) == 2
        assert await window.count(NOW + 90) == 0

    asyncio.run(story())


def test_another_process_goes_on_counting() -> None:
    async def story() -> None:
        store = MemoryRemovals()
        await RemovalWindow(store, seconds=60.0).add(7, NOW)
        assert await RemovalWindow(store, seconds=60.0).count(NOW + 1) == 7

    asyncio.run(story())


def test_what_did_not_happen_is_taken_back_at_its_own_time_only() -> None:
    async def story() -> None:
        store = MemoryRemovals()
        window = RemovalWindow(store, seconds=60.0)
        await window.add(4, NOW)
        await window.add(5, NOW + 1)
        await window.add(-5, NOW + 1)
        await window.add(-9, NOW + 2)
        assert store.counts == {NOW: 4}

    asyncio.run(story())


def test_nothing_is_written_where_nothing_is_counted() -> None:
    class Untouched(MemoryRemovals):
        async def save(self, counts: object) -> None:
            raise AssertionError

    asyncio.run(RemovalWindow(Untouched(), seconds=60.0).add(0, NOW))


def test_a_clock_that_was_set_back_hides_no_removal() -> None:
    async def story() -> None:
        window = RemovalWindow(MemoryRemovals(), seconds=60.0)
        await window.add(3, NOW)
        assert await window.count(NOW - 3600) == 3

    asyncio.run(story())


def test_counts_that_could_not_be_saved_are_not_counted_as_saved() -> None:
    class Full(MemoryRemovals):
        async def save(self, counts: object) -> None:
            raise InventoryError("no space left on device")

    async def story() -> None:
        window = RemovalWindow(Full(), seconds=60.0)
        with pytest.raises(InventoryError):
            await window.add(3, NOW)
        assert await window.count(NOW) == 0

    asyncio.run(story())


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_window_without_length_cannot_be_built(seconds: float) -> None:
    with pytest.raises(ConfigError):
        RemovalWindow(MemoryRemovals(), seconds=seconds)


@given(st.lists(st.tuples(st.floats(0, 200), st.integers(0, 5)), max_size=20), st.floats(0, 300))
def test_the_count_is_the_sum_of_what_lies_within_the_window(
    removals: list[tuple[float, int]], asked: float
) -> None:
    removals.sort()

    async def story() -> None:
        store = MemoryRemovals()
        for after, count in removals:
            await RemovalWindow(store, seconds=60.0).add(count, NOW + after)
        last = max([asked, *(after for after, _ in removals)])
        expected = sum(count for after, count in removals if NOW + after > NOW + last - 60.0)
        assert await RemovalWindow(store, seconds=60.0).count(NOW + last) == expected

    asyncio.run(story())


def test_what_the_night_shift_removes_is_not_counted_as_the_guards_do_not_count_it() -> None:
    def removal(user: str, cause: Cause, after: float | None = None) -> Change:
        return Change(
            entity=entity(user=user),
            key=Key.PRODUCER_BYTE_RATE,
            before=1.0,
            after=after,
            cause=cause,
        )

    plan = Plan(
        cluster_id="c",
        changes=(
            removal("a", Cause.PRUNE),
            removal("b", Cause.OVERRIDE),
            removal("c", Cause.OVERRIDE_EXPIRED),
            removal("d", Cause.SPEC, after=2.0),
        ),
    )
    assert removals_of(plan) == {(entity(user="a"), Key.PRODUCER_BYTE_RATE)}


def test_a_window_changes_its_length_and_never_has_none():
    async def counts() -> list[int]:
        window = RemovalWindow(MemoryRemovals(), seconds=10.0)
        await window.add(1, 100.0)
        found = [await window.count(105.0)]
        for seconds in (3.0, 0.0, 10.0):
            window.resize(seconds)
            found.append(await window.count(105.0))
        return found

    assert asyncio.run(counts()) == [1, 0, 0, 1]
