"""A simulation of ``kquota watch``: a branch of a git repository, commands, brokers, another writer."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from reconciler.app.clusters.runtime import Runtime
from reconciler.app.loop.service import NoWatchMetrics
from reconciler.app.watch.revision import Revision, RevisionPaths
from reconciler.app.watch.service import BranchWatch
from reconciler.app.watch.state_file import WatchState
from reconciler.client import QuotaClient
from reconciler.errors import KquotaError, TaskDied
from reconciler.quota.policy import DeletionPolicy
from reconciler.quota.results.report import Reconciliation
from tests.simulation import actors
from tests.simulation.convergence import difference
from tests.simulation.faults import FaultEvent
from tests.simulation.git.repository import (
    MemoryCommit,
    MemoryMirror,
    MemoryRepository,
    MirrorFolder,
)
from tests.simulation.kube.resources import (
    ENTITIES,
    NAME_OF,
    client_quota,
    declarations,
    quota_cluster,
)
from tests.simulation.laws import LawBroken, Run
from tests.simulation.memory_files import ProcessFiles
from tests.simulation.processes import ProcessKilled, SimulatedProcess
from tests.simulation.scenario import KEYS, Scenario
from tests.simulation.world import World

STATE = Path("/kquota/watch.json")
PROJECT = {
    "apiVersion": "kafka-quotas.io/v1alpha1",
    "kind": "QuotaProject",
    "spec": {"manifests": ["quotas"]},
}
SHOWN_SECONDS = 400.0
"""Maximum time from the answer of a fetch until its commit is applied: a slow fetch, and a restart after it was recorded."""

Texts = dict[str, bytes]
"""Path in a commit -> content."""


class GitWorld(World):
    """A running simulation of a watched branch.

    Attributes:
        repository: The repository that the author pushes to.
        folder: The mirror on the machine of ``kquota watch``.
        last_applied: The revision that was applied last; ``None`` = none was.
    """

    client_keys = KEYS

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.repository = MemoryRepository(self.loop, scenario.chance("git"))
        self.folder = MirrorFolder()
        self.last_applied: MemoryCommit | None = None
        self.watches: list[BranchWatch] = []
        self._objects: dict[str, dict[str, Any]] = {}
        self._intervals = (self.settings.interval, 2 * self.settings.interval)
        self._interval = self._intervals[0]

    # -- kquota watch --------------------------------------------------------------------------------

    def _start_watch(self) -> None:
        process = self.process("watch")
        self.trace(process.name, "starts")
        process.start(watch(self, process)).add_done_callback(partial(self._ended, process))

    def _ended(self, process: SimulatedProcess, task: asyncio.Task[None]) -> None:
        if self.calm or not process.alive:
            return
        error = None if task.cancelled() else task.exception()
        cause = error.reason if isinstance(error, TaskDied) else error
        if not isinstance(cause, KquotaError | ProcessKilled):
            self._break(f"kquota watch died: {type(cause).__name__}: {cause}")
        self.trace(process.name, "ends: %s", cause)
        process.kill()

    def mirror(self, process: SimulatedProcess) -> MemoryMirror:
        """Return the mirror as a process uses it."""
        return MemoryMirror(self.repository, self.folder, process)

    def applied(self, process: SimulatedProcess, commit: str) -> None:
        """Check and record that a process applies a revision from now on."""
        last = self.last_applied
        if last is not None and last.id == commit:
            return
        self.trace(process.name, "%s is in force", commit[:12])
        since = self.loop.time() - SHOWN_SECONDS
        applied = next(
            (head for head in self.repository.heads_since(since) if head.id == commit), None
        )
        if applied is None:
            raise LawBroken(f"a revision is applied that the branch no longer has: {commit}")
        if applied.documents is None:
            raise LawBroken(f"an invalid revision is applied: {commit}")
        self.last_applied = applied

    # -- the author ----------------------------------------------------------------------------------

    def change_documents(self, chance: random.Random) -> None:
        fate = chance.random()
        history = list(self.repository.head.history()) if self.repository.heads else []
        valid = [commit for commit in history if commit.documents is not None]
        if fate < 0.1 and valid:
            self._rewind(chance.choice(valid[:6]))
            return
        parent = history[0] if history else None
        if fate < 0.2 and len(history) > 1:
            parent = chance.choice(history[1:6])
            self.trace("author", "rewrites the history after %s", parent.id[:12])
        if fate > 0.95:
            self._objects.clear()
        for _ in range(chance.choice((1, 1, 2, 4, 8))):
            self._change_object(chance)
        if chance.random() < 0.1:
            self._interval = chance.choice(self._intervals)
        texts = self.texts()
        if chance.random() < 0.15:
            self.push(parent, _broken(texts, chance), is_valid=False)
        else:
            self.push(parent, texts)

    def _rewind(self, commit: MemoryCommit) -> None:
        """Move the branch back to an earlier commit."""
        self.trace("author", "moves the branch back to %s", commit.id[:12])
        self._objects = {
            path: json.loads(content)
            for path, content in commit.files.items()
            if path.startswith("quotas/quota-")
        }
        self.repository.push(commit)
        self.documents = dict(commit.documents or {})

    def _change_object(self, chance: random.Random) -> None:
        entity = chance.choice(ENTITIES)
        names = [f"quotas/{NAME_OF[entity]}.yaml", f"quotas/{NAME_OF[entity]}-too.yaml"]
        path, other_path = names if chance.random() < 0.8 else reversed(names)
        if path in self._objects and chance.random() < 0.3:
            del self._objects[path]
            self.trace("author", "removes %s", path)
            return
        values = {
            key: self.value(key, chance) for key in self.keys_of(entity) if chance.random() < 0.7
        }
        if not values:
            return
        policy = chance.choice((None, DeletionPolicy.DELETE, DeletionPolicy.RETAIN))
        suspended = chance.random() < 0.05
        obj = client_quota(entity, values, policy=policy, suspended=suspended)
        obj["metadata"]["name"] = path.removeprefix("quotas/").removesuffix(".yaml")
        self._objects[path] = obj
        # Two documents must not declare the same quota key; the other file is removed, so that this is a renaming.
        _ = self._objects.pop(other_path, None)
        self.trace("author", "declares %s %s %s, %s", path, entity, values, policy)

    def texts(self) -> Texts:
        """Return the files of the author's next commit."""
        obj = quota_cluster(replace(self.settings, interval=self._interval), self.guards)
        project = f"{json.dumps(PROJECT)}\n---\n{json.dumps(obj)}\n"
        documents = {path: json.dumps(each).encode() for path, each in self._objects.items()}
        # A folder of manifests without any file is an error, so that a wrong path removes nothing.
        return {"kquota.yaml": project.encode(), "quotas/none.yaml": b"# none\n", **documents}

    def push(self, parent: MemoryCommit | None, texts: Texts, *, is_valid: bool = True) -> None:
        """Commit files after a commit, and move the branch to it."""
        documents = declarations(self._objects.values()) if is_valid else None
        commit = self.repository.commit(parent, texts, documents)
        self.repository.push(commit)
        self.trace(
            "author", "pushes %s%s", commit.id[:12], "" if is_valid else ", which is invalid"
        )
        if documents is not None:
            self.documents = documents

    # -- the run -------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._change_object(self.scenario.chance("first documents"))
        self.push(None, self.texts())

    def difference(self) -> str:
        """Return the first difference; an empty tree removes nothing, because no setting of a loop permits that."""
        records = () if self.documents else self.laws.records.records.values()
        retained = {owner.document for record in records for owner in record.owners if owner}
        return difference(self.laws, self.documents, retained=retained)

    def _heal(self) -> None:
        super()._heal()
        self.repository.chances.clear()
        self._interval = self.settings.interval
        self.push(self.repository.head, self.texts())


def _broken(texts: Texts, chance: random.Random) -> Texts:
    """Return the files of a commit that must be refused."""
    paths = sorted(path for path in texts if path.startswith("quotas/quota-"))
    broken: list[Texts] = [
        {"kquota.yaml": b"nonsense: {"},
        {"quotas/new.yaml": b"nonsense: {"},
        {"quotas/new.yaml": b"\xff"},
    ]
    if paths:
        path = chance.choice(paths)
        document = {**json.loads(texts[path]), "metadata": {"name": "copy", "namespace": "team"}}
        is_suspended = document["spec"].get("suspend", False)
        broken += [
            *([] if is_suspended else [{"quotas/copy.yaml": json.dumps(document).encode()}]),
            {path: texts[path].replace(b'"spec"', b'"specs"')},
            {path: texts[path][:-1]},
        ]
    without_project = {path: text for path, text in texts.items() if path != "kquota.yaml"}
    without_manifests = {"kquota.yaml": texts["kquota.yaml"]}
    commits = [without_project, without_manifests, *({**texts, **change} for change in broken)]
    return chance.choice(commits)


# -- actors ------------------------------------------------------------------------------------------


class RunRecorder(NoWatchMetrics):
    """The metrics of ``kquota watch``, which say when a reconciliation begins and ends."""

    def __init__(self, world: GitWorld, process: SimulatedProcess) -> None:
        self._world, self._process = world, process
        self._run: Run | None = None

    def revision(self, cluster: str, commit: str, *, is_refused: bool) -> None:
        self._world.judge(self._world.applied, self._process, commit)

    def batch(self, cluster: str, size: int) -> None:
        self.end()
        applied = self._world.last_applied
        assert applied is not None
        self._run = self._world.begin(self._process, dict(applied.documents or {}))

    def record(self, reconciliation: Reconciliation) -> None:
        if self._run is not None and reconciliation.error is None:
            self._world.laws.completed(self._run)
        self.end()
        result = reconciliation.error or reconciliation.outcome or "nothing to do"
        self._world.trace(self._process.name, "reconciled: %s", result)

    def end(self) -> None:
        """Record the end of the reconciliation, also if it was cancelled."""
        if self._run is not None:
            self._world.end(self._run)
        self._run = None


async def watch(world: GitWorld, process: SimulatedProcess) -> None:
    """Run ``kquota watch`` as its command does, with simulated files, brokers and mirror."""
    recorder = RunRecorder(world, process)

    @contextlib.asynccontextmanager
    async def opener(revision: Revision, name: str) -> AsyncIterator[Runtime]:
        session = actors.ProcessPorts(world, process)
        try:
            yield Runtime(
                ports=session.ports,
                client=cast("QuotaClient", session.ports.store),
                unlock=session.inventory.close,
                expected_cluster_id=revision.project.cluster(name).cluster.expected_cluster_id,
            )
        finally:
            recorder.end()
            await session.close()

    branch = BranchWatch(
        world.mirror(process),
        RevisionPaths(),
        interval=min(world.settings.interval, 600.0),
        state=WatchState(STATE, files=ProcessFiles(world.disk, process)),
        opener=opener,
        telemetry=recorder,
        clock=world.clock,
        random=world.scenario.chance(process.name).random,
        principal=process.name,
    )
    world.watches.append(branch)
    try:
        await branch.run(asyncio.Event())
    finally:
        world.watches.remove(branch)


async def author(world: GitWorld) -> None:
    """Push commits repeatedly; sometimes a webhook requests a fetch."""
    chance = world.scenario.chance("author")
    while await world.rest(chance):
        world.change_documents(chance)
        for branch in world.watches:
            if chance.random() < 0.5:
                branch.enqueue("SIGHUP")


# -- faults ------------------------------------------------------------------------------------------


def _fetches(kind: str) -> Callable[[FaultEvent], None]:
    """Return a fault that affects a share of the fetches."""

    def spoil(event: FaultEvent) -> None:
        chances = event.world.repository.chances
        chances[kind] = event.chance.choice((0.3, 1.0))
        event.later(chances.pop, kind, None)

    return spoil


def _lose_mirror(event: FaultEvent) -> None:
    """Remove the mirror and end the process, as on a new machine with the records of the old one."""
    event.world.folder.head = event.world.folder.pinned = None
    for process in event.world.running():
        if process.name.startswith("watch"):
            process.kill()


GitWorld.fault_table = {
    "fetch failure": _fetches("fetch failure"),
    "slow fetch": _fetches("slow fetch"),
    "mirror lost": _lose_mirror,
}
programs: Mapping[str, Callable[[Any], Coroutine[Any, Any, None]]] = {
    **actors.PROGRAMS,
    "author": author,
}
GitWorld.programs = programs
