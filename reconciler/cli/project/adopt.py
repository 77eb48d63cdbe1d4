"""``kquota adopt``: the live quotas of a cluster become the manifests of its project, and the plan is empty."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from reconciler.app.requests import TargetRequest
from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.inspection.export import (
    ExportLayout,
    exported_state,
    layout_files,
    layout_options,
    live_state,
    report_left_out,
    write_folder,
)
from reconciler.cli.options.shared import where_options
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.app.clusters.targets import ClusterTarget
    from reconciler.manifest.export.files import Team
    from reconciler.manifest.loader import LoadedManifests
    from reconciler.manifest.writer import ExportResult
    from reconciler.quota.results.report import Preview
    from reconciler.quota.state import QuotaState

HELP: Final = """Write a manifest for every live quota that no manifest declares yet, then show the plan, which is empty.

Quotas outside spec.scope and those that spec.ignore names are left alone.

Nothing is written to the cluster. The policy of the cluster must be Observe or Upsert: under Sync, what is left
out would be removed. The files are below the first folder of spec.manifests, or below --out-dir, one per form of entity,
prefix or entity; no existing file is replaced. A second run adopts what was added in the meantime.

`kquota apply` then records the adopted limits as managed by kquota.

\b
Example:
  kquota adopt
  kquota adopt --cluster prod --split prefix
  kquota adopt --cluster prod --team etl-=analytics --team pay-=payments

Exit code 1: a value cannot be carried by manifests (see --partial), or the plan would change an adopted limit."""


@command(help=HELP)
@click.option(
    "--out-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder of the files; one that spec.manifests covers.",
)
@layout_options
@where_options(many=False)
@click.pass_obj
def adopt(
    console: Console, *, out_dir: Path | None, layout: ExportLayout, where: TargetRequest
) -> ExitCode:
    """Describe, write what is not declared, plan."""
    from reconciler.app.clusters.targets import target

    teams = layout.teams
    chosen = target(where)
    folder = _folder(chosen) if out_dir is None else out_dir
    loaded = _declared(chosen)
    state = _undeclared(_ours(live_state(console, chosen), chosen), loaded)
    taken = {
        declaration.document.rpartition("/")[2]
        for declarations in loaded.by_cluster.values()
        for declaration in declarations
    }
    exported = exported_state(console, chosen, state, layout, teams=teams, taken=taken)
    if exported.texts:
        folder = _unused(folder, exported, layout, teams)
        count = write_folder(folder, exported, layout, teams=teams)
        console.note(f"{len(exported.texts)} documents written to {count} files in {folder}")
    else:
        console.note("every live quota that a manifest can carry is declared already")
    left_out = report_left_out(console, exported, layout)
    preview = _plan(console, chosen)
    adopted = {declaration.entity for declaration in exported.declarations}
    changed = [change for change in preview.plan.changes if change.entity in adopted]
    if changed:
        console.error(f"the plan would change {len(changed)} adopted limits; it should change none")
        return ExitCode.ERROR
    return left_out


def _folder(target: "ClusterTarget") -> Path:
    """The first folder of the project's manifests.

    Raises:
        UsageError: The target has no project, acts under Sync, or names no folder.
    """
    from reconciler.quota.policy import Policy

    if target.project is None:
        raise UsageError(
            "adopt writes the manifests of a project, and there is none",
            hint="run kquota init first, or export without a project: kquota export --out-dir",
        )
    if target.settings.policy is Policy.SYNC:
        raise UsageError(
            f"the policy of {target.name} is Sync, which removes what no manifest declares",
            hint="set policy: Observe or policy: Upsert in the project file until the plan is empty",
        )
    for path in target.project_cluster.manifests:
        if not path.endswith((".yaml", ".yml")) and not set(path) & set("*?["):
            return target.root / path
    raise UsageError(
        f"spec.manifests of {target.project.path} names no folder", hint="name one with --out-dir"
    )


def _declared(target: "ClusterTarget") -> "LoadedManifests":
    """The documents that the project has already; none while its folders are empty.

    Raises:
        ManifestErrors: One of them is wrong.
    """
    from reconciler.app.clusters.documents import load_loosely
    from reconciler.manifest.files import FileTexts

    if not any((target.root / path).exists() for path in target.project_cluster.manifests):
        return load_loosely(target, (), FileTexts(files=(), problems=()))
    return load_loosely(target, ()).checked()


def _ours(state: "QuotaState", target: "ClusterTarget") -> "QuotaState":
    """A state without what is outside the scope of the cluster, and without what its rules ignore."""
    from dataclasses import replace

    from reconciler.base.clock import SystemClock
    from reconciler.quota.state import set_values

    rules, now = target.settings.rules(), SystemClock().now()
    inside = {
        subject: limits for subject, limits in state.limits.items() if rules.in_scope(subject)
    }
    return replace(state, limits=inside).with_values(
        (subject, key, None)
        for subject, limits in inside.items()
        for key, _ in set_values(limits)
        if rules.ignored(subject, key, now) is not None
    )


def _undeclared(state: "QuotaState", loaded: "LoadedManifests") -> "QuotaState":
    """A state without the limits that a document declares."""
    from reconciler.quota.state import set_values

    return state.with_values(
        (declaration.entity, key, None)
        for declarations in loaded.by_cluster.values()
        for declaration in declarations
        for key, _ in set_values(declaration.limits)
    )


def _unused(
    folder: Path, exported: "ExportResult", layout: ExportLayout, teams: "Iterable[Team]"
) -> Path:
    """The folder, or the first numbered one below it, in which none of the files exists."""
    names = layout_files(exported, layout, teams)
    folders = (folder, *(folder / f"adopted-{number}" for number in range(1, 10_000)))
    return next(
        candidate for candidate in folders if not any((candidate / name).exists() for name in names)
    )


def _plan(console: Console, target: "ClusterTarget") -> "Preview":
    """The plan of the project, shown."""
    from reconciler.app.change.plan import PlanRequest, plan_cluster
    from reconciler.app.event_loop import run
    from reconciler.app.requests import PlanLimits, RecordSource
    from reconciler.cli.framework.console import ConsoleNotices
    from reconciler.cli.output.plans import show_plans

    request = PlanRequest(limits=PlanLimits(validate="none"), sources=RecordSource())
    with ConsoleNotices(console) as notices:
        plan = run(plan_cluster(notices, target, request))
    show_plans(console, [plan], "text")
    return plan.preview
