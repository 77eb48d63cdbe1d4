import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.app.loop.cluster_loop import KeyBatch, Mailbox
from reconciler.errors import ConfigError
from tests.fakes.manual_clock import TurnedClock, settle


def played(story: Callable[[TurnedClock, Mailbox], Awaitable[None]], limit: int = 10_000) -> None:
    async def run() -> None:
        clock = TurnedClock()
        await story(clock, Mailbox(clock=clock, limit=limit))

    asyncio.run(run())


def waiting(box: Mailbox, **number: float | None) -> "asyncio.Task[KeyBatch]":
    return asyncio.ensure_future(box.batch(**({"linger": 0.1, "timeout": None} | number)))


def test_a_batch_waits_for_keys_that_follow_its_first_key_within_the_linger_time() -> None:
    async def story(clock: TurnedClock, box: Mailbox) -> None:
        batch = waiting(box)
        box.put("a")
        await clock.turn(0.06)
        box.put("b")
        assert not batch.done()
        await clock.turn(0.05)
        assert await batch == KeyBatch(keys=("a", "b"))
        assert box.depth == 0

    played(story)


def test_a_mailbox_without_capacity_is_rejected() -> None:
    with pytest.raises(ConfigError):
        Mailbox(clock=TurnedClock(), limit=0)


STEPS = st.lists(
    st.one_of(
        st.sampled_from("abcdefgh"), st.floats(0.01, 0.3), st.just("read"), st.just("cancel")
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 6))
def test_keys_are_never_lost(steps: list[str | float], limit: int) -> None:
    async def story(clock: TurnedClock, box: Mailbox) -> None:
        reader = Reader(box)
        owed: set[str] = set()
        for step in steps:
            if isinstance(step, float):
                await clock.turn(step)
            elif step in ("read", "cancel"):
                await reader.step(step)
            else:
                owed -= reader.read()
                box.put(step)
                owed.add(step)
            owed -= reader.read()
        await reader.step("read")
        await clock.turn(1.0)
        owed -= reader.read()
        await reader.step("read")
        await clock.turn(1.0)
        assert owed - reader.read() == set()

    played(story, limit=limit)


class Reader:
    """Reads batches and stops in the middle, when the test requests it."""

    def __init__(self, box: Mailbox) -> None:
        self.box = box
        self.task: asyncio.Task[KeyBatch] | None = None

    async def step(self, step: str) -> None:
        if step == "read" and self.task is None:
            self.task = waiting(self.box, timeout=0.2)
        elif step == "cancel" and self.task is not None:
            self.task.cancel()
        await settle()

    def read(self) -> set[str]:
        """The keys that a batch returned, or all keys."""
        if self.task is None or not self.task.done():
            return set()
        task, self.task = self.task, None
        if task.cancelled():
            return set()
        batch = task.result()
        assert len(set(batch.keys)) == len(batch.keys)
        return set("abcdefgh") if batch.everything else set(batch.keys)


def test_too_many_keys_become_a_batch_of_everything() -> None:
    async def story(clock: TurnedClock, box: Mailbox) -> None:
        for number in range(5):
            box.put(str(number))
        assert box.depth == 3
        assert await box.batch(linger=9.0, timeout=0) == KeyBatch(everything=True)
        assert box.depth == 0
        box.put("after")
        assert await box.batch(linger=0, timeout=0) == KeyBatch(keys=("after",))

    played(story, limit=3)
