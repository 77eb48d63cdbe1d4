"""Tests of the repository in memory and of its mirror."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator

import pytest

from reconciler.errors import GitError
from tests.simulation.git.repository import MemoryMirror, MemoryRepository, MirrorFolder
from tests.simulation.processes import ProcessKilled, SimulatedProcess
from tests.simulation.virtual_loop import VirtualLoop


class Machine:
    """A repository, and a machine with a mirror of its branch."""

    def __init__(self) -> None:
        self.loop = VirtualLoop(random.Random(1), lambda _: None)
        self.repository = MemoryRepository(self.loop, random.Random(1))
        self.folder = MirrorFolder()
        self.process = SimulatedProcess("watch", self.loop, lambda _: None)
        self.mirror = MemoryMirror(self.repository, self.folder, self.process)
        self.first = self.repository.commit(None, {"quotas/a.yaml": b"one"}, {})
        self.second = self.repository.commit(self.first, {"quotas/a.yaml": b"two"}, {})
        self.other = self.repository.commit(self.first, {"quotas/b.yaml": b"three"}, {})

    def run(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(work())
        asyncio.set_event_loop(None)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine, whose loop is closed at the end."""
    machine = Machine()
    yield machine
    machine.loop.close()


def test_a_fetch_brings_the_head_with_its_history_and_files(machine: Machine) -> None:
    machine.repository.push(machine.second)

    async def work() -> None:
        assert await machine.mirror.fetch() == machine.second.id

    machine.run(work)
    assert machine.mirror.has(machine.first.id)
    tree = machine.mirror.tree(machine.second.id)
    assert tree.under(("quotas",)) == ("quotas/a.yaml",)
    assert tree.read(["quotas/a.yaml"]) == {"quotas/a.yaml": b"two"}


def test_a_rewritten_branch_drops_the_commits_that_are_not_kept(machine: Machine) -> None:

    async def work() -> None:
        for head in (machine.second, machine.other):
            machine.repository.push(head)
            _ = await machine.mirror.fetch()
            if head is machine.second:
                machine.mirror.keep(head.id)

    machine.run(work)
    assert machine.mirror.has(machine.second.id)
    assert not machine.mirror.follows(machine.other.id, machine.second.id)
    assert machine.mirror.follows(machine.other.id, machine.first.id)
    machine.mirror.keep(machine.other.id)
    assert not machine.mirror.has(machine.second.id)
    with pytest.raises(GitError):
        _ = machine.mirror.tree(machine.second.id)


@pytest.mark.parametrize("kind", ["fetch failure", "slow fetch"])
def test_a_fetch_that_fails_changes_nothing(machine: Machine, kind: str) -> None:
    machine.repository.push(machine.second)
    machine.repository.chances[kind] = 1.0
    failures = 0

    async def work() -> None:
        nonlocal failures
        for _ in range(20):
            try:
                _ = await machine.mirror.fetch()
            except GitError:
                failures += 1
                assert machine.folder.head is None
            machine.folder.head = None

    machine.run(work)
    assert failures == 20 if kind == "fetch failure" else 0 < failures < 20


def test_a_killed_process_fetches_nothing(machine: Machine) -> None:
    machine.repository.push(machine.second)

    async def work() -> None:
        machine.process.steps_left = 2
        with pytest.raises(ProcessKilled):
            _ = await machine.mirror.fetch()

    machine.run(work)
    assert machine.folder.head is None
