"""``kquota rollback``: restores the values from before an apply as overrides, until their documents change."""

from functools import partial
from pathlib import Path
from typing import Final

import click
from msgspec.structs import replace

from reconciler.app.change.outcome_files import OUTCOME_FOLDER, saved_outcomes
from reconciler.app.change.override import OverrideChange, override_run
from reconciler.app.clusters.project_files import project_path
from reconciler.app.clusters.targets import ClusterTarget, read_project, target
from reconciler.app.requests import TargetRequest
from reconciler.base.text_files import read_text
from reconciler.cli.change.apply_output import ApplyOutput, apply_all
from reconciler.cli.completion import outcome_files
from reconciler.cli.framework.commands import ExitCode, command, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.plan import validate_option
from reconciler.cli.options.shared import (
    FILE,
    DurationParameter,
    ReasonParameter,
    format_option,
    where_options,
)
from reconciler.codecs.outcome import RollbackSource, read_undo
from reconciler.errors import UsageError

HELP: Final = """Restore the limits from before an apply: the last one, or that of an outcome file (kquota history).

Each value stays in force as an override until its document changes, for at most 24 hours, so the next apply does not
undo it. Of the guards only those of the value apply (--any-value). Limits that the apply did not change are not touched. The outcome names its cluster, so a project with
several clusters needs no --cluster.

\b
Example:
  kquota rollback --last
  kquota rollback .kquota/outcomes/2026-11-21T120000Z-prod.json
  kquota rollback outcome.json --yes --for 2h --reason 'INC-1234'"""


@command(help=HELP)
@click.argument(
    "outcome", type=FILE, required=False, metavar="[OUTCOME.json]", shell_complete=outcome_files
)
@flag("--last", "The newest outcome in the project's folder, of --cluster if it is given.")
@option(
    "--for DURATION",
    "Longest time that the restored values stay in force.",
    DurationParameter(max_days=1),
    name="seconds",
    default="24h",
)
@option(
    "--reason",
    "Reason; shown in every plan while it is in force.",
    ReasonParameter(),
    default="rollback",
)
@flag("--yes -y", "Do not ask for confirmation.")
@flag(
    "--any-value",
    "Allow a value outside guards.bounds, or one that looks like a mistake in the unit.",
)
@where_options(many=False)
@validate_option
@format_option("text", "json")
@click.pass_obj
def rollback(
    console: Console,
    *,
    outcome: Path | None,
    last: bool,
    seconds: float,
    reason: str,
    yes: bool,
    any_value: bool,
    where: TargetRequest,
    validate: str,
    output: str,
) -> ExitCode:
    """Convert an outcome to overrides, and apply them."""
    if (outcome is not None) == last:
        raise UsageError("give an outcome file or --last", hint="kquota history lists the outcomes")
    outcome = outcome or _newest(where)
    console.note(f"restoring the limits from before {outcome}")
    undo = read_undo(read_text(outcome), location=str(outcome))
    if not undo.changes:
        raise UsageError(f"{outcome} contains no change to restore")
    console.check_can_ask(yes=yes)
    open_run = partial(
        override_run,
        change=OverrideChange.rolling_back(undo, seconds=seconds, reason=reason),
        validate=validate,
        any_value=any_value,
        command="rollback",
        next_words=(
            *("rollback", str(outcome), "--for", f"{seconds:.0f}s", "--reason", reason),
            *(["--any-value"] if any_value else []),
        ),
    )
    return apply_all(
        console,
        [_target(where, undo, outcome)],
        open_run,
        ApplyOutput(output=output, yes=yes),
    )


def _newest(where: TargetRequest) -> Path:
    """Return the newest outcome.

    Raises:
        UsageError: There is none.
    """
    root = project_path(where).parent
    newest = next(iter(saved_outcomes(root, where.cluster or "")), None)
    if newest is None:
        raise UsageError(
            f"there is no outcome in {root / OUTCOME_FOLDER}",
            hint="outcomes of pipelines are artifacts of their runs: pass the downloaded file",
        )
    return newest


def _target(cluster_options: TargetRequest, undo: RollbackSource, outcome: Path) -> ClusterTarget:
    """Return the selected cluster, or else the cluster of the outcome.

    Raises:
        UsageError: The project has several clusters, and none has the name or id of the outcome's cluster.
    """
    if cluster_options.cluster is not None or cluster_options.by_address:
        return target(cluster_options)
    project, _, _ = read_project(cluster_options)
    names = project.names
    if len(names) > 1:
        by_id = {project.cluster(name).cluster.expected_cluster_id: name for name in names}
        name = undo.cluster if undo.cluster in names else by_id.get(undo.cluster_id)
        if name is None:
            raise UsageError(
                f"{outcome} is for cluster id {undo.cluster_id}, which is not in {project.path}",
                hint=f"choose the cluster with --cluster ({', '.join(names)}); a cluster with another id is refused",
            )
        cluster_options = replace(cluster_options, cluster=name)
    return target(cluster_options)
