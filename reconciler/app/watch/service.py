"""Watches a branch: its loops, its clusters and their state. Its class ``BranchWatch`` is a ``ServedLoops``."""

import asyncio
import random
import signal
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from reconciler.app.clusters.record_stores import current_principal, make_folder
from reconciler.app.loop.cluster_loop import ClusterLoop, LoopIntervals, Random
from reconciler.app.loop.health import hung_loops, is_late, late_loops
from reconciler.app.loop.service import NoWatchMetrics, WatchMetrics, metrics_of, serve_loops
from reconciler.app.loop.task_supervisor import supervise
from reconciler.app.notices import LoggedNotices, TextReceiver
from reconciler.app.requests import MetricsRequest
from reconciler.app.watch.branch_follower import BranchFollower, BranchMirror
from reconciler.app.watch.cluster import ClusterSession, open_session
from reconciler.app.watch.fleet import Opener, WatchedFleet
from reconciler.app.watch.revision import Revision, RevisionPaths
from reconciler.app.watch.state_file import WatchState
from reconciler.base.clock import SystemClock
from reconciler.base.escaping import escaped
from reconciler.base.protocols import Clock
from reconciler.git.mirror import GitMirror
from reconciler.inventory.file_lock import FileLock


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
        return hung_loops((self._branch, *self._fleet.watched.loops.values()), self._clock.now())

    def ready(self) -> Sequence[str]:
        """Return a late branch, late clusters, or that no revision is applied yet."""
        now, problems = self._clock.now(), []
        if is_late(self._follower.last_fetched or self._began, self._interval, now):
            problems.append("the branch cannot be fetched")
        if self._follower.in_force is None:
            return [*problems, "no revision is in force"]
        return problems + late_loops(self._fleet.watched.loops.values(), now)


def open_revision(
    revision: Revision, name: str, *, state_dir: Path, telemetry: WatchMetrics
) -> AbstractAsyncContextManager[ClusterSession]:
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
