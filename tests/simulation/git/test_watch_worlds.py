"""Tests of simulated branches: each law of revisions detects its violation."""

from itertools import count

import pytest

from reconciler.git.repository import CommitTree
from tests.simulation.git.repository import MemoryMirror
from tests.simulation.git.watch_world import SHOWN_SECONDS, GitWorld
from tests.simulation.laws import LawBroken
from tests.simulation.scenario import Scenario, scenario_of


@pytest.fixture
def world() -> GitWorld:
    """A world with three commits: valid, invalid, and one on a rewritten branch."""
    world = GitWorld(scenario_of(1, "git"))
    world._prepare()
    first = world.repository.head
    world.push(first, {}, is_valid=False)
    world.push(first, world.texts())
    return world


def test_a_revision_that_the_branch_no_longer_has_is_reported(world: GitWorld) -> None:
    process = world.process("watch")
    heads = [commit.id for _, commit in world.repository.heads]
    world.applied(process, heads[2])
    world.loop._time = SHOWN_SECONDS + 1.0
    world.applied(process, heads[2])
    with pytest.raises(LawBroken, match="a revision is applied that the branch no longer has"):
        world.applied(process, heads[0])
    world._close()


def test_an_invalid_revision_is_reported(world: GitWorld) -> None:
    with pytest.raises(LawBroken, match="an invalid revision is applied"):
        world.applied(world.process("watch"), world.repository.heads[1][1].id)
    world._close()


class LossyMirror(MemoryMirror):
    """A mirror that loses the first document of every commit after the first."""

    fetches = 0

    async def fetch(self) -> str:
        self.fetches += 1
        return await super().fetch()

    def tree(self, commit: str) -> CommitTree:
        tree = super().tree(commit)
        if self.fetches > 1:
            del tree.entries[min(path for path in tree.entries if "quota-" in path)]
        return tree


class LossyWorld(GitWorld):
    """A world with such a mirror, in which the author changes documents without removing any."""

    def mirror(self, process):
        return LossyMirror(self.repository, self.folder, process)

    def change_documents(self, chance):
        self._change_object(chance)
        self.push(self.repository.head, self.texts())


def test_a_removal_that_no_commit_requests_is_reported() -> None:
    for seed in count(1):
        scenario = Scenario(
            seed=seed, world="git", days=0.005, actors=("watch", "author"), faults=()
        )
        violation = LossyWorld(scenario).run().violation
        if violation.startswith("a declared value is removed"):
            return
        assert seed < 10, violation
