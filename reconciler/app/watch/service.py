"""Watches a branch: its loops, its clusters and their state. Its class ``BranchWatch`` is a ``ServedLoops``.

Each new commit is accepted or refused as a whole, and the last good one stays applied meanwhile.
"""

import asyncio
import logging
import random
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from reconciler.app.clusters.runtime import Runtime, current_principal, make_folder
from reconciler.app.loop.cluster_loop import (
    ClusterLoop,
    LoopIntervals,
    LoopOutcome,
    LoopTrigger,
    Random,
)
from reconciler.app.loop.service import (
    NoWatchMetrics,
    WatchMetrics,
    hung_loops,
    is_late,
    metrics_of,
    serve_loops,
)
from reconciler.app.loop.task_supervisor import supervise
from reconciler.app.notices import LoggedNotices, TextReceiver
from reconciler.app.requests import MetricsRequest
from reconciler.app.watch.cluster import Opener, WatchedFleet, open_session
from reconciler.app.watch.revision import Revision, RevisionPaths, check_clients, read_revision
from reconciler.app.watch.state_file import WatchState
from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.base.protocols import Clock
from reconciler.base.regular_files import read_regular
from reconciler.errors import GitError, KquotaError, ManifestErrors
from reconciler.git.mirror import GitMirror
from reconciler.git.repository import CommitTree
from reconciler.inventory.file_lock import FileLock
from reconciler.manifest.project.file import MAX_FILE_SIZE

_LOG: Final = logging.getLogger("reconciler.loop")


class BranchMirror(Protocol):
    """A local copy of a branch, as the loop uses it; implemented by ``GitMirror``."""

    @property
    def display_name(self) -> str:
        """The source and branch, for messages."""
        ...

    async def fetch(self) -> str:
        """Fetch the branch; return its newest commit.

        Raises:
            GitError: The source cannot be reached or has no such branch, or it took too long.
        """
        ...

    def tree(self, commit: str) -> CommitTree:
        """Return the files of a commit."""
        ...

    def keep(self, commit: str) -> None:
        """Keep a commit, instead of the one kept before."""

    def has(self, commit: str) -> bool:
        """Whether the mirror has a commit."""
        ...

    def follows(self, newer: str, older: str) -> bool:
        """Whether ``older`` is an ancestor of ``newer``; never if the mirror lacks one of them."""
        ...


class BranchFollower:
    """The work of a loop over one branch.

    Args:
        take: Called with each newly applied revision.
        telemetry: Receives the applied revision, and whether a newer one was refused.

    Attributes:
        in_force: The last good revision; ``None`` = there never was one.
        refused: The commit of a newer one that was refused, or "".
        last_fetched: When the branch was last reached, in seconds since the epoch; ``None`` = never.
    """

    def __init__(
        self,
        mirror: BranchMirror,
        places: RevisionPaths,
        *,
        state: WatchState,
        take: Callable[[Revision], None],
        telemetry: WatchMetrics,
        clock: Clock,
    ) -> None:
        self.in_force: Revision | None = None
        self.refused = state.now.refused_commit
        self.last_fetched: float | None = None
        self._mirror, self._places, self._state = mirror, places, state
        self._take, self._telemetry, self._clock = take, telemetry, clock
        self._judged: tuple[str, str | None] | None = None
        self._logged_refusal = ""

    async def restore(self) -> None:
        """Apply the last good revision again, without a request to the source, which may be unavailable."""
        commit = self._state.now.commit
        if not commit:
            return
        if not await asyncio.to_thread(self._mirror.has, commit):
            _LOG.warning("%s is no longer in the mirror; waiting for the branch", commit[:12])
            return
        try:
            revision = await asyncio.to_thread(self._read, commit)
            # A mirror that was fetched anew does not keep it yet.
            await asyncio.to_thread(self._mirror.keep, commit)
        except KquotaError as error:
            self._log_refusal(commit, error, "is the applied revision and can no longer be used")
            return
        self._judged = commit, self._read_trusted_project()
        self._enforce(revision)
        _LOG.info("%s is in force, as before", commit[:12])

    async def work(self, _: LoopTrigger) -> LoopOutcome:
        """Fetch the branch, and judge a new commit, whatever woke the loop."""
        try:
            commit = await self._mirror.fetch()
        except GitError as error:
            words = f"{self._mirror.display_name} cannot be fetched: {escaped(str(error))}"
            return LoopOutcome(retry=True, note=words)
        self.last_fetched = self._clock.now()
        read_state = commit, self._read_trusted_project()
        if read_state == self._judged:
            return LoopOutcome()
        try:
            revision = await asyncio.to_thread(self._read, commit)
            await asyncio.to_thread(check_clients, revision)
        except KquotaError as error:
            self._refuse(commit, error)
            # Errors other than invalid documents may be temporary, such as a missing file of a Secret; they are retried.
            self._judged = read_state if isinstance(error, ManifestErrors) else None
        else:
            await self._accept(revision)
            self._judged = read_state
        return LoopOutcome()

    def _read(self, commit: str) -> Revision:
        return read_revision(self._mirror.tree(commit), self._places)

    def _read_trusted_project(self) -> str | None:
        """Return the text of the trusted project file, which may change without a new commit."""
        if self._places.trusted is None:
            return None
        try:
            return read_regular(self._places.trusted, max_bytes=MAX_FILE_SIZE).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return f"unreadable: {error}"

    # -- verdicts -----------------------------------------------------------------------------------

    async def _accept(self, revision: Revision) -> None:
        before, commit = self.in_force, revision.commit
        if before is not None and before.commit != commit:
            await asyncio.to_thread(self._compare, before.commit, commit)
        for warning in revision.warnings:
            _LOG.warning("%s: %s", commit[:12], escaped(str(warning)))
        await asyncio.to_thread(self._mirror.keep, commit)
        self._state.remember(commit=commit, refused_commit="")
        self.refused = self._logged_refusal = ""
        self._enforce(revision)
        if before is None or before.commit != commit:
            count = sum(len(desired.documents) for desired in revision.desired.values())
            _LOG.info(
                "%s is in force: %d documents for %s",
                commit[:12],
                count,
                ", ".join(escaped(name) for name in revision.project.names),
            )
        else:
            _LOG.info("%s stays in force; its settings were reloaded", commit[:12])

    def _compare(self, old: str, new: str) -> None:
        """Warn if the history of the branch was rewritten: the new commit does not descend from the applied one."""
        if self._mirror.follows(new, old):
            return
        if self._mirror.follows(old, new):
            _LOG.warning(
                "the branch was moved back from %s to %s, an earlier commit", old[:12], new[:12]
            )
        else:
            _LOG.warning(
                "the history of the branch was rewritten: it no longer contains %s; %s replaces it",
                old[:12],
                new[:12],
            )

    def _refuse(self, commit: str, error: KquotaError) -> None:
        stays = "no revision is in force"
        if self.in_force is not None:
            stays = f"{self.in_force.commit[:12]} stays in force"
        self._log_refusal(commit, error, f"is refused; {stays}")
        self._state.remember(refused_commit=commit)
        self.refused = commit
        self._report_revision()

    def _log_refusal(self, commit: str, error: KquotaError, verdict: str) -> None:
        if (refusal := f"{commit} {verdict}: {error}") == self._logged_refusal:
            return
        self._logged_refusal = refusal
        _LOG.error("%s %s", commit[:12], verdict)
        for problem in _problems(error):
            _LOG.error("%s: %s", commit[:12], escaped(problem))

    def _enforce(self, revision: Revision) -> None:
        self.in_force = revision
        self._take(revision)
        self._report_revision()

    def _report_revision(self) -> None:
        if self.in_force is not None:
            for name in self.in_force.project.names:
                self._telemetry.revision(name, self.in_force.commit, is_refused=bool(self.refused))


def _problems(error: KquotaError) -> Iterable[str]:
    if isinstance(error, ManifestErrors):
        return [
            str(problem) if problem.line else f"{problem.path}: {problem.message}"
            for problem in error.problems
        ]
    return [f"{error}; {error.hint}" if error.hint else str(error)]


def watch_branch(
    notices: TextReceiver,
    mirror: GitMirror,
    places: RevisionPaths,
    *,
    interval: float,
    state_dir: Path,
    serving: MetricsRequest,
) -> signal.Signals:
    """Serve until a signal is received; return the signal.

    Args:
        interval: Seconds between two fetches of the branch.

    Raises:
        InventoryLocked: Another process uses the folder.
        InventoryError: The state cannot be read or written.
        TaskDied: A loop ended or failed.
        KeyboardInterrupt: A second signal was received.
    """
    clock = SystemClock()
    metrics = metrics_of(serving)
    telemetry: WatchMetrics = metrics or NoWatchMetrics()
    make_folder(state_dir)
    with FileLock(state_dir / ".watch.lock", command="kquota watch", now=clock.now()):
        watch = BranchWatch(
            mirror,
            places,
            interval=interval,
            state=WatchState(state_dir / "watch.json"),
            opener=partial(open_revision, state_dir=state_dir, telemetry=telemetry),
            telemetry=telemetry,
            clock=clock,
            principal=current_principal(),
        )
        return serve_loops(
            notices,
            watch,
            serving,
            metrics,
            subject=f"{escaped(mirror.display_name)} every {interval:g} s, state in {state_dir}",
        )


class BranchWatch:
    """The loops of one branch and of the clusters of its applied revision.

    Args:
        interval: Seconds between two fetches of the branch.
        principal: Who runs this, for the audit log.
    """

    def __init__(
        self,
        mirror: BranchMirror,
        places: RevisionPaths,
        *,
        interval: float,
        state: WatchState,
        opener: Opener,
        telemetry: WatchMetrics,
        clock: Clock,
        principal: str,
        random: Random = random.random,
    ) -> None:
        self._interval, self._clock = interval, clock
        self._fleet = WatchedFleet(
            opener=opener,
            state=state,
            telemetry=telemetry,
            clock=clock,
            random=random,
            principal=principal,
        )
        self._follower = BranchFollower(
            mirror, places, state=state, take=self._fleet.take, telemetry=telemetry, clock=clock
        )
        pace = LoopIntervals(interval=interval, first_retry=min(5.0, interval), last_retry=interval)
        self._branch = ClusterLoop(
            "git", work=self._follower.work, pace=lambda: pace, clock=clock, random=random
        )
        self._began = clock.now()

    async def run(self, stop: asyncio.Event) -> None:
        """Apply the last good revision again, then follow the branch until ``stop`` is set.

        Raises:
            TaskDied: A loop ended or failed.
        """
        await self._follower.restore()
        await supervise({"git": self._branch.run(stop), "clusters": self._fleet.run(stop)}, stop)

    def enqueue(self, key: str) -> None:
        """Request a fetch, and a reconciliation of every cluster."""
        self._branch.mailbox.put(key)
        self._fleet.watched.enqueue(key)

    def healthy(self) -> Sequence[str]:
        """Return loops that hang."""
        return [
            *hung_loops([self._branch], self._clock.now()),
            *self._fleet.watched.healthy(),
        ]

    def ready(self) -> Sequence[str]:
        """Return a late branch, late clusters, or that no revision is applied yet."""
        now, problems = self._clock.now(), []
        if is_late(self._follower.last_fetched or self._began, self._interval, now):
            problems.append("the branch cannot be fetched")
        if self._follower.in_force is None:
            return [*problems, "no revision is in force"]
        return [*problems, *self._fleet.watched.ready()]


def open_revision(
    revision: Revision, name: str, *, state_dir: Path, telemetry: WatchMetrics
) -> AbstractAsyncContextManager[Runtime]:
    """Return a session with one cluster of a revision.

    Args:
        state_dir: Base of relative paths of the project.
    """
    target = revision.targets[name]
    config = target.client_config(LoggedNotices(name))
    return open_session(
        replace(target, root=state_dir, files=None),
        command="watch",
        writes=True,
        telemetry=telemetry,
        config=config,
        is_pinned=True,
    )
