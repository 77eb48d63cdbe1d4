"""Work for one or many clusters on a console: what they said in the order of the project, errors, progress, rows of the summary."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.event_loop import run
from reconciler.app.fleet import ClusterResult, FleetProgress, Work, run_fleet
from reconciler.app.notices import replay
from reconciler.app.requests import CONCURRENCY
from reconciler.cli.framework.console import Console, ConsoleNotices, ProgressLine
from reconciler.cli.framework.exit_codes import ExitCode, report_error, worst
from reconciler.errors import PlanRefused
from reconciler.quota.results.report import Outcome, Preview
from reconciler.render.fleet_summary import FleetOutcome, FleetRow

if TYPE_CHECKING:
    from reconciler.app.change.plan import ClusterPlan
    from reconciler.app.drift.observation import ObservedDrift
    from reconciler.app.inspection.cluster_checks import Checkup
    from reconciler.render.html.facts import ClusterPage


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


def rows_of(
    results: Sequence[ClusterResult[Value]], row: Callable[[ClusterResult[Value], Value], FleetRow]
) -> list[FleetRow]:
    """A row for each cluster; one without a result says why there is none.

    Args:
        results: What came of each cluster.
        row: Makes the row of a cluster that has a result.
    """
    return [
        _without_value(result) if result.value is None else row(result, result.value)
        for result in results
    ]


def plan_rows(results: "Sequence[ClusterResult[ClusterPlan]]") -> list[FleetRow]:
    """The rows of ``kquota plan``."""
    return rows_of(results, lambda result, plan: preview_row(result, plan.preview))


def page_rows(results: "Sequence[ClusterResult[ClusterPage]]") -> list[FleetRow]:
    """The rows of ``kquota report``."""
    return rows_of(results, lambda result, page: preview_row(result, page.preview))


def drift_rows(results: "Sequence[ClusterResult[ObservedDrift]]") -> list[FleetRow]:
    """The rows of ``kquota drift``."""
    return rows_of(
        results,
        lambda result, drift: FleetRow(
            cluster=result.target.display_name,
            outcome=FleetOutcome.OK,
            drift=len(drift.findings) + len(drift.expired),
            seconds=result.seconds,
        ),
    )


def check_rows(results: "Sequence[ClusterResult[Checkup]]") -> list[FleetRow]:
    """The rows of ``kquota doctor``."""

    def row(result: "ClusterResult[Checkup]", checkup: "Checkup") -> FleetRow:
        broken = FleetOutcome.FAILED if checkup.cluster_id else FleetOutcome.UNREACHABLE
        return FleetRow(
            cluster=result.target.display_name,
            outcome=broken if checkup.failed else FleetOutcome.OK,
            seconds=result.seconds,
        )

    return rows_of(results, row)


def preview_row(
    result: ClusterResult[Value], preview: Preview, outcome: Outcome | None = None
) -> FleetRow:
    """The row of a plan, or of what became of it.

    Args:
        result: The cluster, and how long it took.
        preview: Its plan.
        outcome: What was applied; ``None`` = nothing was to be.
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
    """What the error of a cluster means for its row."""
    if isinstance(result.error, PlanRefused):
        return FleetOutcome.REFUSED
    return FleetOutcome.UNREACHABLE if result.is_unreachable else FleetOutcome.FAILED


def _without_value(result: ClusterResult[Value]) -> FleetRow:
    return FleetRow(
        cluster=result.target.display_name,
        outcome=outcome_of_error(result),
        seconds=result.seconds,
    )
