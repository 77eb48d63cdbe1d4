"""Work for one or many clusters on a console: what they said in the order of the project, errors, progress."""

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
"""Between two looks at the progress while no cluster begins or ends."""


def for_clusters(
    console: Console,
    targets: Sequence[ClusterTarget],
    work: Work[Value],
    *,
    concurrency: int = CONCURRENCY,
) -> tuple[ClusterResult[Value], ...]:
    """The results of all clusters, in the order of the project; see :func:`work_on` for what is printed."""
    return run(work_on(console, targets, work, concurrency=concurrency))


async def work_on(
    console: Console,
    targets: Sequence[ClusterTarget],
    work: Work[Value],
    *,
    concurrency: int = CONCURRENCY,
    should_stop: Callable[[ClusterResult[Value]], bool] = lambda _: False,
    is_alone: bool | None = None,
) -> tuple[ClusterResult[Value], ...]:
    """The same inside an event loop.

    What one cluster says is printed at once, and its error goes on to the frame of the program. Several clusters speak at
    the same time: what each said is printed under its name when all have ended, with its error.

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
                targets, work, concurrency=concurrency, should_stop=should_stop, report=display.take
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
    """The newest progress of a fleet, shown when it changes and while a slow cluster lets nothing change."""

    def __init__(self, line: ProgressLine, total: int) -> None:
        self._line, self._progress = line, FleetProgress(total=total)

    def take(self, progress: FleetProgress) -> None:
        """Show how many clusters are done, in progress, waiting and failed."""
        self._progress = progress
        detail = f", {progress.active:,} in progress, {progress.waiting:,} waiting"
        if progress.failed:
            detail += f", {progress.failed:,} failed"
        self._line("clusters", progress.done, progress.total, detail=detail)

    async def tick(self) -> None:
        """Show it again and again, until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.take(self._progress)


def code_of_fleet(
    results: Sequence[ClusterResult[Value]], code: Callable[[Value], ExitCode]
) -> ExitCode:
    """The exit code that wins: those of the errors, and those of the values."""
    codes = [ExitCode(result.error.exit_code) for result in results if result.error is not None]
    codes += [code(result.value) for result in results if result.value is not None]
    return worst(codes)
