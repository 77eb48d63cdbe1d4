"""Tests of the loop: task order by seed, deadlock detection."""

import asyncio
import random

import pytest

from tests.simulation.virtual_loop import Deadlocked, VirtualLoop


def loop(seed: int = 1) -> VirtualLoop:
    return VirtualLoop(random.Random(seed), lambda _: None)


def order_of(seed: int) -> list[int]:
    order: list[int] = []

    async def step(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        order.append(number)

    async def everything() -> None:
        await asyncio.gather(*(step(number) for number in range(8)))

    virtual = loop(seed)
    try:
        virtual.run_until_complete(everything())
    finally:
        virtual.close()
    return order


def hashes_of_loop() -> list[int]:
    virtual = loop()

    async def nothing() -> None:
        return

    async def everything() -> list[int]:
        futures = [virtual.create_future() for _ in range(3)]
        tasks = [virtual.create_task(nothing()) for _ in range(3)]
        await asyncio.wait(tasks)
        return [hash(each) for each in (*futures, *tasks)]

    try:
        return virtual.run_until_complete(everything())
    finally:
        virtual.close()


def test_sets_of_tasks_and_futures_have_the_same_order_in_every_loop():
    first = hashes_of_loop()
    ballast = [bytearray(1_000) for _ in range(1_000)]
    assert hashes_of_loop() == first
    assert len(ballast) == 1_000


def test_a_seed_decides_the_order_of_tasks():
    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(10)}) > 5


def test_tasks_that_wait_for_each_other_are_an_error():
    virtual = loop()

    async def forever() -> None:
        await asyncio.Event().wait()

    task = virtual.create_task(forever())
    try:
        with pytest.raises(Deadlocked):
            virtual.run_until_complete(task)
    finally:
        task.cancel()
        virtual.run_until_complete(asyncio.gather(task, return_exceptions=True))
        virtual.close()
