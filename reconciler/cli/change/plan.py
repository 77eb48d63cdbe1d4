"""``kquota plan``: what would change, and why. Writes nothing, neither to the cluster nor to the records."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.change.evidence import (
    EvidenceOptions,
    address_of,
    evidence_options,
    quota_callback,
    simulated,
)
from reconciler.cli.change.evidence import code_of as evidence_code
from reconciler.cli.context.plan_preparation import InventoryOptions, source_options
from reconciler.cli.context.principals import (
    knowing,
    principals_option,
    read_principals,
)
from reconciler.cli.context.reconcile_options import PlanLimitOptions, limit_options
from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode, worst
from reconciler.cli.options.shared import (
    FILE,
    ClusterOptions,
    format_option,
    where_options,
)
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.cli.context.cluster_targets import ClusterTarget
    from reconciler.cli.context.plan_preparation import PlanTask
    from reconciler.quota.results.report import Preview
    from reconciler.reconcile import PreparedPlan

HELP: Final = """Show what would change, which rule asks for it, and whether the broker would accept it.

Without PATH, the plan covers everything that the project file configures; with PATH (- is standard input), only what
these files declare. Nothing is written. --out saves the plan for `kquota apply plan.json`.

With published evidence of use, the plan also shows who would have been throttled, for how long and how much. A plan that
violates spec.simulate of the project exits 3.

\b
Example:
  kquota plan
  kquota plan --cluster prod --out plan.json --detailed-exitcode
  kquota plan --config-from refs/remotes/origin/main --format markdown
  kquota plan --offline --snapshot prod.json
  kquota plan --evidence s3://quota-evidence/kafka --require-evidence
  kquota plan --format html > plan.html"""


@command(help=HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--out", type=FILE, metavar="FILE", help="Save the plan to this file, for kquota apply."
)
@click.option(
    "--page", type=FILE, metavar="FILE", help="Save the HTML page of the plan to this file."
)
@click.option("--offline", is_flag=True, help="Connect to no cluster.")
@click.option("--snapshot", type=FILE, metavar="FILE", help="Snapshot to plan against (requires --offline).")  # fmt: skip
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 if there are changes or drift.")
@click.option("--verbose", "-v", is_flag=True, help="Print long lists in full.")
@principals_option
@where_options(revisions=True)
@source_options
@limit_options
@evidence_options
@format_option("text", "json", "markdown", "sarif", "html")
@click.pass_obj
def plan(
    console: Console,
    *,
    paths: Sequence[str],
    out: Path | None,
    page: Path | None,
    offline: bool,
    snapshot: Path | None,
    detailed_exitcode: bool,
    verbose: bool,
    principals: str | None,
    where: ClusterOptions,
    sources: InventoryOptions,
    limits: PlanLimitOptions,
    asking: EvidenceOptions,
    output: str,
) -> ExitCode:
    """Prepare each cluster's plan, then print and save."""
    from reconciler.cli.context.changed_documents import changed_documents
    from reconciler.cli.context.cluster_iteration import for_each
    from reconciler.cli.context.cluster_targets import offline_targets, targets
    from reconciler.cli.context.plan_preparation import task_for
    from reconciler.cli.output.plans import (
        PlanWithEvidence,
        plan_page,
        show_plans,
        show_trust,
    )

    if snapshot is not None and not offline:
        raise UsageError("--snapshot needs --offline: a live cluster speaks for itself")
    cluster_targets = offline_targets(where, paths, untrusted=True) if offline else targets(where)
    if out is not None and len(cluster_targets) > 1:
        raise UsageError("--out holds one plan; choose one cluster with --cluster")
    known_principals = () if principals is None else read_principals(principals, paths)
    plans: list[PlanWithEvidence] = []
    looked: list[PreparedPlan] = []

    def work(target: "ClusterTarget") -> ExitCode:
        task = knowing(task_for(console, target, paths, limits, sources), known_principals)
        callback = None
        if offline:
            prepared = _offline(console, task, snapshot)
        else:
            prepared, callback = _prepare(console, task, asks=bool(address_of(target, asking)))
        simulation = simulated(console, task, prepared, asking, callback)
        looked.append(prepared)
        changed = changed_documents(target, task.documents.desired, typed_paths=bool(paths))
        proposal = replace(prepared.preview, changed_documents=changed)
        plans.append(PlanWithEvidence(target=target, preview=proposal, simulation=simulation))
        code = code_of(prepared.preview, detailed=detailed_exitcode)
        return worst([code, evidence_code(simulation, asking)])

    code = for_each(console, cluster_targets, work)
    warnings = show_trust(console, where)
    # On a terminal the lines above are enough; a comment or a saved plan is all that its readers get.
    full = [
        replace(
            plan_view,
            preview=replace(plan_view.preview, warnings=(*plan_view.preview.warnings, *warnings)),
        )
        for plan_view in plans
    ]
    if output == "html":
        console.fact(plan_page(full, looked))
    else:
        show_plans(console, plans if output == "text" else full, output, verbose=verbose)
    if out is not None and plans:
        from reconciler.base.text_files import write_text
        from reconciler.render.json_values import dump

        write_text(out, dump(full[0].document), private=True)
        console.note(f"the plan is saved in {out}, digest {plans[0].preview.plan.digest}")
    if page is not None and plans:
        from reconciler.base.text_files import write_text

        write_text(page, plan_page(full, looked), private=True)
        console.note(f"the HTML page of the plan is saved in {page}")
    return code


def _prepare(
    console: Console, task: "PlanTask", *, asks: bool
) -> "tuple[PreparedPlan, str | None]":
    """The plan, and where evidence is asked the quota callback of the brokers: a custom one makes evidence unusable."""
    from reconciler.app.event_loop import run
    from reconciler.cli.context.plan_preparation import prepared_for
    from reconciler.cli.context.runtime import world

    async def ask() -> "tuple[PreparedPlan, str | None]":
        async with world(
            console, task.target, task.records, command="plan", writes=False
        ) as runtime:
            prepared = await prepared_for(task, runtime)
            callback = await quota_callback(runtime.client) if asks else None
            return prepared, callback

    return run(ask())


def _offline(console: Console, task: "PlanTask", snapshot: Path | None) -> "PreparedPlan":
    from reconciler.cli.context.offline_plan import plan_offline

    return plan_offline(console, task, snapshot)


def code_of(preview: "Preview", *, detailed: bool) -> ExitCode:
    """What a plan alone exits with."""
    codes = [ExitCode.DONE]
    if preview.errored:
        codes.append(ExitCode.ERROR)
    if preview.violations:
        codes.append(ExitCode.REFUSED)
    if detailed and (preview.plan.changes or preview.plan.drift):
        codes.append(ExitCode.CHANGES)
    return worst(codes)
