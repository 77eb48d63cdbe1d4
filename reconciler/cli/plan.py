"""``kquota plan``: what would change, and why. Writes nothing, neither to the cluster nor to the records."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit, worst
from reconciler.cli.options import FILE, Where, format_option, where_options
from reconciler.cli.orders import Limits, limit_options
from reconciler.cli.planning import Sources, source_options
from reconciler.cli.principals import knowing, principals_option, read_principals, with_users
from reconciler.cli.whatif import Asking, address_of, evidence_options, quota_callback, simulated
from reconciler.cli.whatif import code_of as evidence_code
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.cli.planning import Task
    from reconciler.cli.where import Target
    from reconciler.quota.report import Preview
    from reconciler.reconcile import Prepared

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
    where: Where,
    sources: Sources,
    limits: Limits,
    asking: Asking,
    output: str,
) -> Exit:
    """Prepare each cluster's plan, then print and save."""
    from reconciler.cli.changed_documents import changed_documents
    from reconciler.cli.every import for_each
    from reconciler.cli.planning import task_for
    from reconciler.cli.showing import Shown, plan_page, show_plans, show_trust
    from reconciler.cli.where import offline_targets, targets

    if snapshot is not None and not offline:
        raise UsageError("--snapshot needs --offline: a live cluster speaks for itself")
    chosen = offline_targets(where, paths, untrusted=True) if offline else targets(where)
    if out is not None and len(chosen) > 1:
        raise UsageError("--out holds one plan; choose one cluster with --cluster")
    known = () if principals is None else read_principals(principals, paths)
    made: list[Shown] = []
    looked: list[Prepared] = []

    def work(target: "Target") -> Exit:
        task = knowing(task_for(console, target, paths, limits, sources), known)
        callback = None
        if offline:
            prepared = _offline(console, task, snapshot)
        else:
            prepared, callback = _asked(console, task, asks=bool(address_of(target, asking)))
        simulation = simulated(console, task, prepared, asking, callback)
        looked.append(prepared)
        changed = changed_documents(target, task.documents.desired, typed_paths=bool(paths))
        proposal = replace(prepared.preview, changed_documents=changed)
        made.append(Shown(target=target, preview=proposal, simulation=simulation))
        code = code_of(prepared.preview, detailed=detailed_exitcode)
        return worst([code, evidence_code(simulation, asking)])

    code = for_each(console, chosen, work)
    told = show_trust(console, where)
    # On a terminal the lines above are enough; a comment or a saved plan is all that its readers get.
    full = [
        replace(one, preview=replace(one.preview, warnings=(*one.preview.warnings, *told)))
        for one in made
    ]
    if output == "html":
        console.fact(plan_page(full, looked))
    else:
        show_plans(console, made if output == "text" else full, output, verbose=verbose)
    if out is not None and made:
        from reconciler.cli.files import write_text
        from reconciler.render.documents import dump

        write_text(out, dump(full[0].document), private=True)
        console.note(f"the plan is saved in {out}, digest {made[0].preview.plan.digest}")
    if page is not None and made:
        from reconciler.cli.files import write_text

        write_text(page, plan_page(full, looked), private=True)
        console.note(f"the HTML page of the plan is saved in {page}")
    return code


def _asked(console: Console, task: "Task", *, asks: bool) -> "tuple[Prepared, str | None]":
    """The plan, and where evidence is asked the quota callback of the brokers: with one of their own nothing can be told."""
    from reconciler.cli.planning import prepared_for
    from reconciler.cli.running import run
    from reconciler.cli.world import world

    async def ask() -> "tuple[Prepared, str | None]":
        async with world(
            console, task.target, task.records, command="plan", writes=False
        ) as outside:
            prepared = await with_users(task, await prepared_for(task, outside), outside.client)
            callback = await quota_callback(outside.client) if asks else None
            return prepared, callback

    return run(ask())


def _offline(console: Console, task: "Task", snapshot: Path | None) -> "Prepared":
    from reconciler.cli.offline import plan_offline

    return plan_offline(console, task, snapshot)


def code_of(preview: "Preview", *, detailed: bool) -> Exit:
    """What a plan alone exits with."""
    found = [Exit.DONE]
    if preview.errored:
        found.append(Exit.ERROR)
    if preview.violations:
        found.append(Exit.REFUSED)
    if detailed and (preview.plan.changes or preview.plan.drift):
        found.append(Exit.CHANGES)
    return worst(found)
