"""Runs work for one or many clusters, and prints plans, outcomes and configuration changes in the requested format.

Of many clusters, notices and errors are printed in the order of the project.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from reconciler.app.change.plan import ClusterPlan
from reconciler.app.clusters.project_files import project_path
from reconciler.app.clusters.targets import (
    ClusterTarget,
    TrustedProjectMissing,
    read_head_project,
    read_project,
)
from reconciler.app.event_loop import run
from reconciler.app.fleet import ClusterResult, FleetProgress, Work, run_fleet
from reconciler.app.html_page import page_of
from reconciler.app.notices import Notices, replay
from reconciler.app.requests import CONCURRENCY, TargetRequest
from reconciler.base.escaping import escaped
from reconciler.cli.framework.commands import ExitCode, report_error, worst
from reconciler.cli.framework.console import Console, ConsoleNotices, ProgressLine
from reconciler.cli.framework.runnable_hints import completed
from reconciler.codecs.fleet_plans import PlansFile, plans_document, saved_plans
from reconciler.codecs.plan_file import PlanFile
from reconciler.errors import KquotaError
from reconciler.manifest.project.trusted_changes import changes_between
from reconciler.render.fleet_summary import FleetRow, fleet_summary_markdown, fleet_summary_text
from reconciler.render.json_values import Json
from reconciler.render.markdown.comment import MOST_ROWS
from reconciler.render.markdown.plan import plan_markdown
from reconciler.render.page.cluster import ClusterPage
from reconciler.render.terminal import plan_text

if TYPE_CHECKING:
    from reconciler.usage.impact.result_rows import Simulation

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

    async def work_for(notices: Notices, target: ClusterTarget) -> Value:
        try:
            return await work(notices, target)
        except KquotaError as error:
            error.hint = completed(error.hint, target.places)
            raise

    if len(targets) == 1 if is_alone is None else is_alone:
        with ConsoleNotices(console) as notices:
            return (ClusterResult(target=targets[0], value=await work_for(notices, targets[0])),)
    with ProgressLine(console) as line:
        display = _ShownProgress(line, len(targets))
        ticking = asyncio.create_task(display.tick())
        try:
            results = await run_fleet(
                targets,
                work_for,
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


UNNAMED: Final = (
    "CI is set without --config-from: the project file of the checkout determines connections and permissions, even if the"
    " change under review modified it"
)
UNTRUSTED: Final = (
    "the project file of the head revision is used only to find the manifests; its clusters, records and evidence are not"
    " used"
)


def show_plans(
    console: Console,
    plans: Sequence[ClusterPlan],
    output: str,
    *,
    rows: Sequence[FleetRow] = (),
    verbose: bool = False,
) -> None:
    """Print the plans of a run: one document in JSON, one section per plan in text and Markdown.

    Args:
        rows: All clusters of a run over several, failed ones included; printed as a summary.
    """
    if output == "json":
        console.document(plan_documents(plans, rows))
    elif output == "markdown":
        console.fact(_plans_as_markdown(plans, rows, verbose=verbose))
    else:
        _plans_as_text(console, plans, verbose=verbose)
        show_fleet_summary(console, rows)


def show_fleet_summary(console: Console, rows: Sequence[FleetRow]) -> None:
    """Print the summary table of a run over several clusters; nothing for no rows."""
    if rows:
        console.fact("\n" + fleet_summary_text(rows, style=console.style))


def evidence_code(simulation: "Simulation | None", *, require_evidence: bool) -> ExitCode:
    """Return the exit code of a simulation; ``DONE`` if none was requested."""
    if simulation is None:
        return ExitCode.DONE
    if simulation.breaches:
        return ExitCode.REFUSED
    return ExitCode.EVIDENCE if require_evidence and not simulation.enough else ExitCode.DONE


def plan_page(plans: Sequence[ClusterPlan]) -> str:
    """Return the plans of a run as one HTML page, with the live quotas and records that they were computed from."""
    pages = [
        ClusterPage(
            name=plan.target.display_name,
            preview=plan.preview,
            live=plan.prepared.observation.live,
            owned=plan.prepared.observation.owned,
            recorded=plan.recorded,
        )
        for plan in plans
    ]
    return page_of(pages)


def plan_documents(plans: Sequence[ClusterPlan], rows: Sequence[FleetRow]) -> dict[str, Json]:
    """Return the plans of a run as one document to be printed."""
    if len(plans) == 1 and not rows:
        return plans[0].document

    return plans_document(((plan.target.display_name, plan.document) for plan in plans), rows)


def plan_files(plans: Sequence[ClusterPlan], rows: Sequence[FleetRow]) -> PlanFile | PlansFile:
    """Return the plans of a run as one document to be saved."""
    if len(plans) == 1 and not rows:
        return plans[0].file

    return saved_plans(((plan.target.display_name, plan.file) for plan in plans), rows)


def _plans_as_markdown(
    plans: Sequence[ClusterPlan], rows: Sequence[FleetRow], *, verbose: bool
) -> str:

    max_rows = None if verbose else MOST_ROWS
    parts = [
        plan_markdown(plan.preview, max_rows=max_rows, recorded=plan.recorded) for plan in plans
    ]
    if rows:
        parts.insert(0, fleet_summary_markdown(rows) + "\n")
    return "\n".join(parts)


def _plans_as_text(console: Console, plans: Sequence[ClusterPlan], *, verbose: bool) -> None:

    style = console.style
    for number, plan in enumerate(plans):
        if len(plans) > 1:
            console.fact(
                ("\n" if number else "")
                + style.paint(f"== {escaped(plan.target.display_name)}", "bold")
            )
        console.fact(plan_text(plan.preview, style=style, verbose=verbose, recorded=plan.recorded))


def show_trust(console: Console, cluster_options: TargetRequest) -> tuple[str, ...]:
    """Print and return warnings about the trusted configuration of a plan.

    Those of :func:`show_config_changes`, or, in CI without ``--config-from``, that the whole checkout is trusted.
    """
    if (
        cluster_options.config_from is not None
        or cluster_options.by_address
        or not in_ci(os.environ)
    ):
        return show_config_changes(console, cluster_options)
    if not project_path(cluster_options).exists():
        return ()
    console.warning(UNNAMED)
    console.hint(
        "before a merge, pass the target branch: --config-from refs/remotes/origin/main, or its full commit id;"
        ' on that branch: --config-from "$(git rev-parse HEAD)"'
    )
    return (UNNAMED,)


def in_ci(environment: Mapping[str, str]) -> bool:
    """Whether ``CI`` is set, to a value other than 0 and false."""
    return environment.get("CI", "").lower() not in {"", "0", "false"}


def show_config_changes(console: Console, cluster_options: TargetRequest) -> tuple[str, ...]:
    """Print and return what the head revision changes in the trusted configuration; these changes are not used."""
    if cluster_options.config_from is None:
        return ()

    try:
        trusted, _, _ = read_project(cluster_options)
    except TrustedProjectMissing as error:
        console.warning(untrusted := f"{error.message}; {UNTRUSTED}")
        return (untrusted,)
    try:
        head = read_head_project(cluster_options)
    except KquotaError as error:
        unusable = f"the project file of the head revision cannot be used: {error}"
        console.warning(unusable)
        return (unusable,)
    changes = changes_between(trusted, head)
    if not changes:
        return ()
    intro = "the head revision changes the configuration"
    console.warning(f"{intro}; {cluster_options.config_from} is used, these changes are ignored:")
    warnings: list[str] = []
    for change in changes:
        field = f" {change.field}" if change.field else ""
        sentence = f"{change.document}{field}: {change.trusted} -> {change.head}"
        console.detail(sentence)
        warnings.append(f"{intro}, and this change is ignored: {sentence}")
    return tuple(warnings)
