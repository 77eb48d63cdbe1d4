"""Runs work for one or many clusters and prints progress, then notices and errors in the order of the project."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.event_loop import run
from reconciler.app.fleet import ClusterResult, FleetProgress, Work, run_fleet
from reconciler.app.notices import replay
from reconciler.app.requests import CONCURRENCY
from reconciler.cli.framework.console import Console, ConsoleNotices, ProgressLine
from reconciler.cli.framework.exit_codes import ExitCode, report_error, worst

Value = TypeVar("Value")

TICK_SECONDS: Final = 0.5
"""Time between two updates of the progress while no cluster begins or ends."""


def for_clusters(
    console: Console,
    targets: Sequence[ClusterTarget],
    work: Work[Value],
    *,
    concurrency: int = CONCURRENCY,
    is_failed: Callable[[ClusterResult[Value]], bool] = lambda result: result.error is not None,
) -> tuple[ClusterResult[Value], ...]:
    """Return the results of all clusters, in the order of the project; see :func:`work_on` for what is printed."""
    return run(work_on(console, targets, work, concurrency=concurrency, is_failed=is_failed))


async def work_on(
    console: Console,
    targets: Sequence[ClusterTarget],
    work: Work[Value],
    *,
    concurrency: int = CONCURRENCY,
    is_failed: Callable[[ClusterResult[Value]], bool] = lambda result: result.error is not None,
    stops_on_failure: bool = False,
    is_alone: bool | None = None,
) -> tuple[ClusterResult[Value], ...]:
    """Run ``work`` for each cluster; return the results in the order of the project.

    With one cluster, notices are printed at once, and its error is raised. With several, the notices and the error of
    each are printed under its name when all have ended.

    Raises:
        KquotaError: The error of the only cluster.
    """
    if len(targets) == 1 if is_alone is None else is_alone:
        with ConsoleNotices(console) as notices:
            return (ClusterResult(target=targets[0], value=await work(notices, targets[0])),)
    with ProgressLine(console) as line:
        display = _ShownProgress(line, len(targets))
        ticking = asyncio.create_task(display.tick())
        try:
            results = await run_fleet(
                targets,
                work,
                concurrency=concurrency,
                report=display.take,
                is_failed=is_failed,
                stops_on_failure=stops_on_failure,
            )
        finally:
            ticking.cancel()
    for result in results:
        if result.notices or result.error is not None:
            console.note(f"== {result.target.display_name}")
            replay(result.notices, console)
        if result.error is not None:
            _ = report_error(console, result.error)
    return results


class _ShownProgress:
    """The latest progress of a fleet, shown when it changes and every :data:`TICK_SECONDS`."""

    def __init__(self, line: ProgressLine, total: int) -> None:
        self._line, self._progress = line, FleetProgress(total=total)

    def take(self, progress: FleetProgress) -> None:
        self._progress = progress
        detail = f", {progress.active:,} in progress, {progress.waiting:,} waiting"
        if progress.failed:
            detail += f", {progress.failed:,} failed"
        self._line("clusters", progress.done, progress.total, detail=detail)

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.take(self._progress)


def code_of_fleet(
    results: Sequence[ClusterResult[Value]], code: Callable[[Value], ExitCode]
) -> ExitCode:
    """Return the exit code with the highest precedence among those of errors and values."""
    codes = [ExitCode(result.error.exit_code) for result in results if result.error is not None]
    codes += [code(result.value) for result in results if result.value is not None]
    return worst(codes)
