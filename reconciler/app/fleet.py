"""Runs the same work for many clusters concurrently on one event loop, and returns a summary row for each.

A failure of one cluster does not stop the others.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.notices import Notice, NoticeLog, Notices
from reconciler.app.requests import CONCURRENCY
from reconciler.errors import ClientError, Interrupted, KquotaError, PlanRefused
from reconciler.quota.results.report import Outcome, Preview
from reconciler.render.fleet_summary import FleetOutcome, FleetRow

Value = TypeVar("Value")


class ClusterResult(Struct, Generic[Value], frozen=True, kw_only=True):
    """The result of the work for one cluster."""

    target: ClusterTarget
    value: Value | None = None  # the result; None if it failed
    error: KquotaError | None = None
    seconds: float = 0.0  # duration, without the time spent waiting for a free slot
    notices: tuple[Notice, ...] = ()

    @property
    def is_unreachable(self) -> bool:
        """Whether the cluster gave no usable answer."""
        return isinstance(self.error, ClientError)


class FleetProgress(Struct, frozen=True, kw_only=True):
    """The progress of a run over many clusters."""

    total: int
    done: int = 0  # ended ones, failed ones included
    active: int = 0
    failed: int = 0

    @property
    def waiting(self) -> int:
        """Clusters that have not started."""
        return self.total - self.done - self.active


Work = Callable[[Notices, ClusterTarget], Awaitable[Value]]
"""``work(notices, target)`` processes one cluster."""


# Concurrent, and printed in the order of the project: docs/adr/concurrent-clusters.md.
async def run_fleet(
    targets: Sequence[ClusterTarget],
    work: Work[Value],
    *,
    concurrency: int = CONCURRENCY,
    report: Callable[[FleetProgress], None] = lambda _: None,
    is_failed: Callable[[ClusterResult[Value]], bool] = lambda result: result.error is not None,
    stops_on_failure: bool = False,
) -> tuple[ClusterResult[Value], ...]:
    """Return the results of all clusters, in the order of the targets.

    A cancellation ends running work and starts no other. A result whose error is ``Interrupted`` reports what was
    done until then.

    Args:
        report: Called whenever a cluster starts or ends.
        is_failed: Whether a result counts as a failure.
        stops_on_failure: Whether after a failure no further cluster starts.

    Raises:
        asyncio.CancelledError: The run was cancelled, and no cluster reported ``Interrupted``.
    """
    slots, progress = asyncio.Semaphore(concurrency), FleetProgress(total=len(targets))

    def count(active: int, done: int = 0, failed: int = 0) -> None:
        nonlocal progress
        progress = replace(
            progress,
            active=progress.active + active,
            done=progress.done + done,
            failed=progress.failed + failed,
        )
        report(progress)

    async def one_cluster(target: ClusterTarget) -> ClusterResult[Value]:
        async with slots:
            if stops_on_failure and progress.failed:
                return _not_begun(target)
            count(active=1)
            result = await _run_cluster(target, work)
            count(active=-1, done=1, failed=int(is_failed(result)))
            return result

    tasks = [asyncio.create_task(one_cluster(target)) for target in targets]
    try:
        is_cancelled = await _wait_for_all(tasks)
    finally:
        for task in tasks:
            task.cancel()
        # The caller releases locks and connections next; no task may still use them.
        await asyncio.gather(*tasks, return_exceptions=True)
    results = tuple(
        _not_begun(target) if task.cancelled() else task.result()
        for target, task in zip(targets, tasks, strict=True)
    )
    if is_cancelled and not any(isinstance(result.error, Interrupted) for result in results):
        raise asyncio.CancelledError
    return results


async def _wait_for_all(tasks: "Sequence[asyncio.Task[ClusterResult[Value]]]") -> bool:
    """Wait for all tasks; return whether the run was cancelled. A bug in a task is raised at once."""
    is_cancelled = False
    pending = set(tasks)
    while pending:
        try:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            is_cancelled = True
            for task in pending:
                task.cancel()
            pending = {task for task in pending if not task.done()}
            continue
        for task in done:
            if not task.cancelled() and (fault := task.exception()) is not None:
                raise fault
    return is_cancelled


def _not_begun(target: ClusterTarget) -> "ClusterResult[Value]":
    return ClusterResult(target=target, error=KquotaError("not started: the run was stopped"))


async def _run_cluster(target: ClusterTarget, work: Work[Value]) -> ClusterResult[Value]:
    began, notices = time.monotonic(), NoticeLog()
    value: Value | None = None
    failure: KquotaError | None = None
    try:
        value = await work(notices, target)
    except KquotaError as error:
        failure = error
    return ClusterResult(
        target=target,
        value=value,
        error=failure,
        seconds=time.monotonic() - began,
        notices=tuple(notices.notices),
    )


def rows_of(
    results: Sequence[ClusterResult[Value]], row: Callable[[ClusterResult[Value], Value], FleetRow]
) -> list[FleetRow]:
    """Return a summary row for each cluster, failed ones included.

    Args:
        row: Returns the row of a cluster with a value.
    """
    return [
        _without_value(result) if result.value is None else row(result, result.value)
        for result in results
    ]


def preview_row(
    result: ClusterResult[Value], preview: Preview, outcome: Outcome | None = None
) -> FleetRow:
    """Return the summary row of a plan, or of its outcome.

    Args:
        outcome: The outcome of its apply; ``None`` = not applied.
    """
    plan = preview.plan
    refused = len(preview.violations) + len(plan.conflicts) + len(preview.verdict.rejections)
    is_complete = outcome is None or outcome.complete
    refused_writes = 0 if outcome is None else outcome.count("REJECTED")
    return FleetRow(
        cluster=result.target.display_name,
        outcome=FleetOutcome.REFUSED
        if refused
        else FleetOutcome.OK
        if is_complete
        else FleetOutcome.FAILED,
        changes=len(plan.changes) if outcome is None else outcome.count("APPLIED"),
        drift=len(plan.drift),
        refused=refused + refused_writes,
        seconds=result.seconds,
    )


def outcome_of_error(result: ClusterResult[Value]) -> FleetOutcome:
    """Return the summary outcome of a cluster with an error."""
    if isinstance(result.error, PlanRefused):
        return FleetOutcome.REFUSED
    return FleetOutcome.UNREACHABLE if result.is_unreachable else FleetOutcome.FAILED


def _without_value(result: ClusterResult[Value]) -> FleetRow:
    return FleetRow(
        cluster=result.target.display_name, outcome=outcome_of_error(result), seconds=result.seconds
    )
