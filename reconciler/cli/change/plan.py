"""``kquota plan``: shows what would change, and why. It writes neither to the cluster nor to the records."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from reconciler.app.requests import EvidenceRequest, PlanRequest, TargetRequest
from reconciler.cli.framework.commands import ExitCode, command, flag, option, worst
from reconciler.cli.framework.console import Console
from reconciler.cli.options.plan import (
    evidence_options,
    offline_option,
    plan_options,
    principals_option,
    snapshot_option,
)
from reconciler.cli.options.shared import FILE, format_option, where_options
from reconciler.errors import UsageError
from reconciler.quota.policy import Policy

if TYPE_CHECKING:
    from reconciler.app.change.plan import ClusterPlan
    from reconciler.quota.results.report import Preview
    from reconciler.render.fleet_summary import FleetRow

HELP: Final = """Show what would change, why, and whether the broker would accept it.

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
  kquota plan --page plan.html"""


@command(help=HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@option(
    "--out FILE",
    "Save the plan to this file, for kquota apply and kquota post.",
    FILE,
    name="out_path",
)
@option("--page FILE", "Save the HTML page of the plan to this file.", FILE)
@offline_option
@snapshot_option
@flag("--detailed-exitcode", "Exit 2 if there are changes, also of records alone, or drift.")
@flag("--verbose -v", "Print long lists in full.")
@principals_option
@where_options(revisions=True)
@plan_options
@evidence_options
@format_option("text", "json", "markdown")
@click.pass_obj
def plan(
    console: Console,
    *,
    paths: Sequence[str],
    out_path: Path | None,
    page: Path | None,
    offline: bool,
    snapshot: Path | None,
    detailed_exitcode: bool,
    verbose: bool,
    principals: str | None,
    where: TargetRequest,
    request: PlanRequest,
    evidence_request: EvidenceRequest,
    output: str,
) -> ExitCode:
    """Plan all clusters, then print and save."""
    from reconciler.app.change.plan import plan_cluster
    from reconciler.app.change.plan_preparation import read_principals
    from reconciler.app.clusters.targets import offline_targets, targets
    from reconciler.app.fleet import preview_row, rows_of
    from reconciler.cli.output import (
        code_of_fleet,
        evidence_code,
        for_clusters,
        show_plans,
        show_trust,
    )

    if snapshot is not None and not offline:
        raise UsageError("--snapshot needs --offline")
    cluster_targets = offline_targets(where, paths, untrusted=True) if offline else targets(where)
    work = partial(
        plan_cluster,
        request=replace(request, paths=tuple(paths)),
        evidence=evidence_request,
        principals=() if principals is None else read_principals(principals, paths),
        offline=offline,
        snapshot=snapshot,
    )

    results = for_clusters(console, cluster_targets, work, concurrency=where.concurrency)
    plans = [result.value for result in results if result.value is not None]
    rows = rows_of(results, lambda result, plan: preview_row(result, plan.preview))
    warnings = show_trust(console, where)
    # On a terminal the printed warnings are enough; readers of a comment or a saved plan see nothing else.
    full = [
        replace(plan, preview=replace(plan.preview, warnings=(*plan.preview.warnings, *warnings)))
        for plan in plans
    ]
    show_plans(
        console,
        plans if output == "text" else full,
        output,
        rows=rows if len(results) > 1 else (),
        verbose=verbose,
    )
    _save(console, full, rows if len(results) > 1 else (), out_path, page)
    return code_of_fleet(
        results,
        lambda plan: worst(
            [
                code_of(plan.preview, detailed=detailed_exitcode),
                evidence_code(plan.simulation, require_evidence=evidence_request.require_evidence),
            ]
        ),
    )


def _save(
    console: Console,
    plans: "Sequence[ClusterPlan]",
    rows: "Sequence[FleetRow]",
    out_path: Path | None,
    page: Path | None,
) -> None:
    from reconciler.base.text_files import write_text
    from reconciler.cli.output import plan_files, plan_page
    from reconciler.render.json_values import dump_pieces

    if out_path is not None and (plans or rows):
        write_text(out_path, dump_pieces(plan_files(plans, rows)), private=True)
        console.note(
            f"the plan is saved in {out_path}"
            + ("" if rows else f", digest {plans[0].preview.digest}")
        )
    if page is not None and plans:
        write_text(page, plan_page(plans), private=True)
        console.note(f"the HTML page of the plan is saved in {page}")


def code_of(preview: "Preview", *, detailed: bool) -> ExitCode:
    """Return the exit code of a plan without its simulation."""
    codes = [ExitCode.DONE]
    if preview.errored:
        codes.append(ExitCode.ERROR)
    if preview.violations:
        codes.append(ExitCode.REFUSED)
    recorded = preview.policy is not Policy.OBSERVE and preview.plan.records_to_update
    if detailed and (preview.plan.changes or preview.plan.drift or recorded):
        codes.append(ExitCode.CHANGES)
    return worst(codes)
