import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from reconciler.app.loop.task_supervisor import supervise
from reconciler.errors import TaskDied
from tests.fakes.manual_clock import settle


class Crew:
    """Tasks that record how they end."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def waits(self, name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.told.append(f"{name} cancelled")
            raise

    async def ends(self) -> None:
        await asyncio.sleep(0)

    async def fails(self) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError("by zero")

    async def fails_when_told_to_stop(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("while ending") from None

    async def hangs(self) -> None:
        while (
            len(self.told) < 4
        ):  # twice by the supervisor, once more by the end of the test's loop
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.told.append("hangs cancelled")


def supervised(
    tasks: Callable[[Crew], dict[str, Coroutine[Any, Any, None]]], *, stops: bool = False
) -> tuple[Crew, TaskDied | None, bool]:
    async def run() -> tuple[Crew, TaskDied | None, bool]:
        crew, stop = Crew(), asyncio.Event()
        task = asyncio.ensure_future(supervise(tasks(crew), stop, patience=0.01))
        await settle()
        if stops:
            stop.set()
        try:
            await task
        except TaskDied as died:
            return crew, died, stop.is_set()
        return crew, None, stop.is_set()

    return asyncio.run(run())


def test_a_task_that_ends_cancels_the_other_tasks() -> None:
    crew, died, stopped = supervised(lambda crew: {"a": crew.waits("a"), "watch": crew.ends()})
    assert died is not None
    assert (died.name, died.reason) == ("watch", None)
    assert "ended unexpectedly" in str(died)
    assert stopped
    assert crew.told == ["a cancelled"]


def test_a_failed_task_is_reported_with_its_exception() -> None:
    crew, died, stopped = supervised(lambda crew: {"a": crew.waits("a"), "loop": crew.fails()})
    assert died is not None
    assert str(died) == "loop failed: ZeroDivisionError: by zero"
    assert isinstance(died.__cause__, ZeroDivisionError)
    assert stopped
    assert crew.told == ["a cancelled"]


def test_a_task_that_fails_during_cancellation_is_reported() -> None:
    _, died, _ = supervised(
        lambda crew: {"a": crew.waits("a"), "b": crew.fails_when_told_to_stop()}, stops=True
    )
    assert died is not None
    assert str(died) == "b failed: ValueError: while ending"


def test_a_task_that_does_not_end_is_cancelled_twice_and_reported() -> None:
    crew, died, _ = supervised(
        lambda crew: {"server": crew.hangs(), "a": crew.waits("a")}, stops=True
    )
    assert died is not None
    assert died.name == "server"
    assert "did not end" in str(died)
    assert sorted(crew.told)[:3] == ["a cancelled", "hangs cancelled", "hangs cancelled"]
