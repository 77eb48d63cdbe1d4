"""Statuses that wait: the newest of each document, one write of it at a time, and namespaces in turn."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.status.status_queue import IN_FLIGHT, StatusQueue
from tests.fakes.clock import FakeClock


class QueueWorld:
    """A queue whose writes a test ends."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.queue = StatusQueue(clock=self.clock)
        self.begun: list[tuple[str, int]] = []
        self.open: dict[str, asyncio.Future[bool]] = {}

    def put(self, document: str, version: int) -> None:
        async def write() -> bool:
            assert document not in self.open, "one write of a document at a time"
            self.begun.append((document, version))
            assert len(self.open) < IN_FLIGHT
            self.open[document] = asyncio.get_running_loop().create_future()
            return await self.open[document]

        self.queue.put(document.partition("/")[0], ("prod", document), write)

    async def end(self, document: str, *, is_done: bool = True) -> None:
        self.open.pop(document).set_result(is_done)
        await turn()

    async def fail(self, document: str) -> None:
        self.open.pop(document).set_exception(ZeroDivisionError("planted"))
        await turn()


async def turn() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


def run(story: Callable[[QueueWorld], Awaitable[None]]) -> QueueWorld:
    async def both() -> QueueWorld:
        world = QueueWorld()
        task = asyncio.ensure_future(world.queue.run())
        await turn()
        await story(world)
        _ = task.cancel()
        _ = await asyncio.wait({task})
        return world

    return asyncio.run(both())


STEPS = st.lists(
    st.tuples(st.sampled_from(("put", "end", "fail")), st.sampled_from(("a/1", "a/2", "b/1"))),
    max_size=40,
)


@given(STEPS)
def test_the_newest_status_of_each_document_is_the_last_that_is_written(
    steps: list[tuple[str, str]],
) -> None:
    newest: dict[str, int] = {}

    async def story(world: QueueWorld) -> None:
        for number, (kind, document) in enumerate(steps):
            if kind == "put":
                newest[document] = number
                world.put(document, number)
                await turn()
            elif document in world.open:
                await world.end(document, is_done=kind == "end")
        while world.open:
            await world.end(next(iter(world.open)))

    begun = run(story).begun
    assert dict(begun) == newest
    for document in newest:
        versions = [version for name, version in begun if name == document]
        assert versions == sorted(versions)


def test_a_namespace_with_many_statuses_delays_no_other_one() -> None:
    async def story(world: QueueWorld) -> None:
        for number in range(600):
            world.put(f"crowd/{number}", 0)
        await turn()
        world.put("other/1", 0)
        for number in range(2):
            await world.end(f"crowd/{number}")

    begun = [document for document, _ in run(story).begun]
    assert len(begun) == IN_FLIGHT + 2
    assert begun[-1] == "other/1"


def test_a_status_that_could_not_be_written_is_written_later() -> None:
    async def story(world: QueueWorld) -> None:
        world.put("a/1", 0)
        await turn()
        before = world.clock.monotonic()
        for _ in range(12):
            await world.end("a/1", is_done=False)
        assert world.clock.monotonic() - before == sum(min(2.0**n, 300.0) for n in range(12))

    assert len(run(story).begun) == 13


def test_a_status_that_cannot_be_computed_is_logged_and_delays_no_other_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: QueueWorld) -> None:
        for _ in range(IN_FLIGHT + 1):
            world.put("a/poisoned", 0)
            await turn()
            await world.fail("a/poisoned")
        world.put("a/1", 0)
        await turn()
        await world.end("a/1")

    world = run(story)
    assert caplog.text.count("the status of a/poisoned failed") == IN_FLIGHT + 1
    assert ("a/1", 0) in world.begun
    assert "ZeroDivisionError: planted" in caplog.text
