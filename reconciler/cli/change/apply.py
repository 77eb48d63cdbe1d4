"""``kquota apply``: write the declared limits, or those of a saved plan, to clusters; verify and record them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from reconciler.app.change.apply import apply_run
from reconciler.app.clusters.targets import targets
from reconciler.app.requests import PlanRequest, TargetRequest
from reconciler.base.text_files import check_place, read_text
from reconciler.cli.change.apply_output import ApplyOutput, apply_all
from reconciler.cli.completion import plan_files
from reconciler.cli.framework.commands import ExitCode, command, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.plan import plan_options, saved_request
from reconciler.cli.options.shared import DURATION, FILE, format_option, where_options
from reconciler.cli.output import show_config_changes
from reconciler.codecs.plan import read_plan
from reconciler.errors import UsageError
from reconciler.reconcile import SavedPlan

HELP: Final = """Write the declared limits to a cluster: plan, confirm, send, verify on every broker, record.

On a terminal the command shows the plan and asks for confirmation; elsewhere it needs --yes. An entity that the broker
refuses does not stop the others.

With PATH, documents that the files leave out are not deleted. Exception: without configured manifests, Sync with
--confirm-sync takes the files as all documents.

A saved plan is recomputed with its own paths and options before it is applied. It must still have the same effect;
otherwise the command prints what differs and exits 4. With --yes, options that open a guard are typed again.

\b
Example:
  kquota apply
  kquota apply --cluster prod --yes --out outcome.json
  kquota apply plan.json --yes --max-age 2h
  kquota apply --only user=alice --correct-drift
  kquota export --cluster old | kquota apply - --bootstrap-server new:9092 --yes"""


@command(help=HELP)
@click.argument("paths", nargs=-1, metavar="[plan.json] [PATH]...", shell_complete=plan_files)
@flag("--yes -y", "Do not ask for confirmation.")
@option(
    "--expect-digest DIGEST", "Digest of the approved plan; a plan with another effect is refused."
)
@option("--max-age DURATION", "Maximum age of a saved plan.", DURATION, default="24h")
@flag(
    "--take-over",
    "Continue with ownership records of another project, and name this project in them; for a project or cluster with a new name.",
)
@flag("--pace", "Wait after each request until every broker shows it.")
@option(
    "--out FILE", "Save the outcome to this file, too, for kquota rollback.", FILE, name="out_path"
)
@option(
    "--continue-on-error/--stop-on-error",
    "With --all: continue with the other clusters if one fails. --stop-on-error writes only if the plan of every cluster is accepted, and stops after the first failed cluster.",
    default=True,
)
@flag("--verbose -v", "Print long lists in full.")
@where_options(revisions=True)
@plan_options
@format_option("text", "json")
@click.pass_obj
def apply(
    console: Console,
    *,
    paths: Sequence[str],
    yes: bool,
    expect_digest: str | None,
    max_age: float,
    take_over: bool,
    pace: bool,
    out_path: Path | None,
    continue_on_error: bool,
    verbose: bool,
    where: TargetRequest,
    request: PlanRequest,
    output: str,
) -> ExitCode:
    """Check the options, plan all clusters, ask for confirmation once, and write."""
    console.check_can_ask(yes=yes)
    saved, typed_paths = saved_plan(paths)
    request = replace(request, paths=tuple(typed_paths), take_over=take_over, pace=pace)
    cluster_targets = targets(where)
    if len(cluster_targets) > 1 and (
        saved is not None or out_path is not None or expect_digest is not None
    ):
        raise UsageError(
            "a saved plan, --expect-digest and --out need one cluster; choose it with --cluster"
        )
    if saved is not None:
        request = saved_request(
            saved.selection,
            request,
            location="the saved plan",
            command=cluster_targets[0].command("apply", paths[0], "--yes"),
            is_asked=not yes,
        )
    if out_path is not None:
        check_place(out_path)
    show_config_changes(console, where)
    open_run = partial(
        apply_run,
        request=request,
        saved=saved,
        expect_digest=expect_digest,
        max_age=max_age,
        out_path=out_path,
    )

    display = ApplyOutput(
        output=output,
        yes=yes,
        verbose=verbose,
        concurrency=where.concurrency,
        continue_on_error=continue_on_error,
    )
    return apply_all(console, cluster_targets, open_run, display)


def saved_plan(paths: Sequence[str]) -> tuple[SavedPlan | None, Sequence[str]]:
    """Read the saved plan if the first path is one (``*.json``); return it and the other paths.

    Raises:
        UsageError: It cannot be read.
        ConfigError: It is not a plan of a supported format.
    """
    if not paths or not paths[0].endswith(".json"):
        return None, paths

    text = read_text(Path(paths[0]))
    return read_plan(text, location=paths[0], is_shown=False), paths[1:]
