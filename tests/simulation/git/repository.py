"""A git repository in memory, the mirror of its branch on a machine, and fetches that fail or are slow."""

import asyncio
import hashlib
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import GitError
from reconciler.git.mirror import DEADLINE_SECONDS
from reconciler.git.repository import CommitTree
from reconciler.quota.planner.desired_state import Declaration
from tests.simulation.processes import SimulatedProcess
from tests.simulation.virtual_loop import VirtualLoop

SLOW_SECONDS = 1.5 * DEADLINE_SECONDS
"""Maximum time of a slow fetch; those beyond the product's deadline fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCommit:
    """A commit.

    Attributes:
        id: Its object id.
        parent: The commit before; ``None`` = it is the first.
        files: Path -> content.
        documents: Name -> document that its files declare; ``None`` = it is invalid and must be refused.
    """

    id: str
    parent: "MemoryCommit | None" = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    documents: Mapping[str, Declaration] | None = field(repr=False)

    def history(self) -> Iterator["MemoryCommit"]:
        """Yield the commit and those before it, newest first."""
        commit: MemoryCommit | None = self
        while commit is not None:
            yield commit
            commit = commit.parent


class MemoryTree(CommitTree, frozen=True, kw_only=True):
    """The files of a commit in memory."""

    contents: Mapping[str, bytes]

    @classmethod
    def of(cls, commit: MemoryCommit) -> "MemoryTree":
        """Return the files of a commit."""
        entries = {path: ("100644", path) for path in commit.files}
        return cls(
            top=Path("/mirror.git"), commit=commit.id, entries=entries, contents=commit.files
        )

    def _blob_sizes(self, oids: Mapping[str, str]) -> dict[str, int]:
        return {oid: len(self.contents[oid]) for oid in oids.values()}

    def _batch(self, oids: Sequence[str], sizes: Mapping[str, int]) -> dict[str, bytes]:
        return {oid: self.contents[oid] for oid in oids}


class MemoryRepository:
    """The repository that users push to, with one branch.

    Args:
        loop: Its time.
        chance: Determines faults of fetches.

    Attributes:
        heads: Times at which the branch moved, in seconds of the loop, with its new head.
        chances: Kind of fault -> share of the fetches: ``fetch failure``, ``slow fetch``.
    """

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.heads: list[tuple[float, MemoryCommit]] = []
        self.chances: dict[str, float] = {}
        self._loop, self._chance = loop, chance
        self._numbers = itertools.count()

    @property
    def head(self) -> MemoryCommit:
        """The newest commit of the branch."""
        return self.heads[-1][1]

    def commit(
        self,
        parent: MemoryCommit | None,
        files: Mapping[str, bytes],
        documents: Mapping[str, Declaration] | None,
    ) -> MemoryCommit:
        """Return a new commit, which no branch has yet."""
        name = f"{next(self._numbers)} {sorted(files.items())}"
        commit_id = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
        return MemoryCommit(id=commit_id, parent=parent, files=files, documents=documents)

    def push(self, commit: MemoryCommit) -> None:
        """Move the branch to a commit, whatever its history is."""
        self.heads.append((self._loop.time(), commit))

    def heads_since(self, at: float) -> Iterator[MemoryCommit]:
        """Yield the heads that the branch has had since a time, newest first."""
        for moved_at, commit in reversed(self.heads):
            yield commit
            if moved_at <= at:
                return

    async def answer(self) -> MemoryCommit:
        """Return the head, as a fetch shows it.

        Raises:
            GitError: The repository cannot be reached, or the fetch took too long.
        """
        seconds = 0.05 + self._chance.random() * 0.2
        if self._befalls("slow fetch"):
            seconds = self._chance.random() * SLOW_SECONDS
        before = seconds * self._chance.random()
        await asyncio.sleep(min(before, DEADLINE_SECONDS))
        if self._befalls("fetch failure"):
            raise GitError("injected: the repository cannot be reached")
        head = self.head
        await asyncio.sleep(max(min(seconds, DEADLINE_SECONDS) - before, 0.0))
        if seconds > DEADLINE_SECONDS:
            raise GitError(f"git fetch did not end within {DEADLINE_SECONDS:.0f} s")
        return head

    def _befalls(self, kind: str) -> bool:
        share = self.chances.get(kind)
        return share is not None and self._chance.random() < share


@dataclass(slots=True)
class MirrorFolder:
    """The bare copy of the branch on a machine's disk.

    Attributes:
        head: The newest fetched commit; ``None`` = none was fetched.
        pinned: A commit that stays although the branch was rewritten; ``None`` = none.
    """

    head: MemoryCommit | None = None
    pinned: MemoryCommit | None = None

    def commits(self) -> Iterator[MemoryCommit]:
        """Yield the commits that a garbage collection leaves."""
        for commit in (self.head, self.pinned):
            if commit is not None:
                yield from commit.history()


class MemoryMirror:
    """The mirror as a process uses it. Implements ``BranchMirror``; a kill may occur before each of its effects."""

    display_name = "simulated (main)"

    def __init__(
        self, repository: MemoryRepository, folder: MirrorFolder, process: SimulatedProcess
    ) -> None:
        self._repository, self._folder, self._process = repository, folder, process

    async def fetch(self) -> str:
        """Fetch the branch; return its newest commit."""
        self._process.step()
        head = await self._repository.answer()
        self._process.step()
        self._folder.head = head
        self._process.step()
        return head.id

    def tree(self, commit: str) -> CommitTree:
        """Return the files of a commit."""
        return MemoryTree.of(self._existing(commit))

    def keep(self, commit: str) -> None:
        """Keep a commit, instead of the one before."""
        self._process.step()
        self._folder.pinned = self._existing(commit)
        self._process.step()

    def has(self, commit: str) -> bool:
        """Whether the mirror has a commit."""
        return any(present.id == commit for present in self._folder.commits())

    def follows(self, newer: str, older: str) -> bool:
        """Whether ``older`` is an ancestor of ``newer``; never if the mirror lacks one of them."""
        if not self.has(newer):
            return False
        return any(commit.id == older for commit in self._existing(newer).history())

    def _existing(self, commit: str) -> MemoryCommit:
        for present in self._folder.commits():
            if present.id == commit:
                return present
        raise GitError(f"git has no commit {commit!r} in /mirror.git")
