"""``kquota export`` and ``kquota adopt``: write live quotas as manifests, and list what no manifest can express."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from reconciler.app.change.plan import plan_cluster
from reconciler.app.clusters.targets import ClusterTarget, target
from reconciler.app.event_loop import run
from reconciler.app.inspection.export import (
    declarations_of,
    exported_state,
    lasting_state,
    left_out_lines,
    manifest_folder,
    select_undeclared,
    teams_of,
    unused_folder,
    write_folder,
)
from reconciler.app.requests import ExportLayout, PlanRequest, TargetRequest
from reconciler.base.text_files import write_text
from reconciler.cli.framework.commands import ExitCode, command, flag, option
from reconciler.cli.framework.console import Console, ConsoleNotices, ProgressLine
from reconciler.cli.options.shared import FOLDER, OptionPack, out_option, where_options
from reconciler.cli.output import show_plans
from reconciler.errors import UsageError
from reconciler.manifest.writer import ExportResult
from reconciler.render.units import count

HELP: Final = """Write live quotas as manifests that read back to the same values. A warning names each temporary limit of
kquota: the value from before it is written.

Quotas that a manifest cannot express (unknown entity types and keys, empty names, unusual values) are listed on
standard error, and the exit code is then 1, unless --partial is given.

With --out-dir there is one file per form of entity (users.yaml, client-ids.yaml, defaults.yaml and so on), per prefix
of the names (etl.yaml for etl-nightly and etl-hourly), or per entity. Documents of a --team are in a folder of the team.

\b
Example:
  kquota export --cluster prod > quotas/prod.yaml
  kquota export --bootstrap-server localhost:9092 --cluster prod --namespace platform --out prod.yaml
  kquota export --cluster prod --out-dir quotas --split prefix --team etl-=analytics

To create a project from an existing cluster, use kquota adopt."""


layout_options: Final = OptionPack(
    "layout",
    ExportLayout,
    (
        option("--namespace", "Namespace of the documents.", default="default"),
        option(
            "--split",
            "How documents are divided into files.",
            click.Choice(("form", "prefix", "entity")),
            default="form",
        ),
        option(
            "--team PREFIX=NAMESPACE",
            "Put names with this prefix into this namespace and a folder of that name; may be repeated.",
            multiple=True,
        ),
        flag("--partial", "Exit 0 although some values cannot be exported."),
    ),
)
"""The options of :class:`ExportLayout`, passed as ``layout``."""


def _out_dir_option(text: str) -> Callable[[Any], Any]:
    return option("--out-dir FOLDER", text, FOLDER)


@command(help=HELP)
@out_option()
@_out_dir_option("Folder for several files; no existing file is replaced.")
@layout_options
@where_options(many=False)
@click.pass_obj
def export(
    console: Console,
    *,
    out_path: Path | None,
    out_dir: Path | None,
    layout: ExportLayout,
    where: TargetRequest,
) -> ExitCode:
    """Describe all quotas and write them as documents."""
    if out_path is not None and out_dir is not None:
        raise UsageError("--out and --out-dir contradict each other")
    _ = teams_of(layout)
    cluster_target = target(where)
    if not cluster_target.name:
        raise UsageError(
            "the documents need a name for the cluster (clusterRef)",
            hint=f"name it: `{cluster_target.command('export', '--cluster', 'NAME')}`",
        )
    state = run(lasting_state(console, cluster_target))
    with ProgressLine(console) as progress:
        exported = exported_state(cluster_target, state, layout, progress=progress)
    if out_dir is not None:
        _write_folder(console, out_dir, exported, layout)
    elif out_path is not None:
        write_text(out_path, exported.text)
        console.note(f"{count(len(exported.texts), 'document')} written to {out_path}")
    else:
        console.fact(exported.text)
    return _report_left_out(console, cluster_target, exported, layout)


def _write_folder(
    console: Console, folder: Path, exported: ExportResult, layout: ExportLayout
) -> None:

    files = count(write_folder(folder, exported, layout), "file")
    console.note(f"{count(len(exported.texts), 'document')} written to {files} in {folder}")


def _report_left_out(
    console: Console, cluster_target: ClusterTarget, exported: ExportResult, layout: ExportLayout
) -> ExitCode:

    if exported.complete:
        return ExitCode.DONE
    say = console.warning if layout.partial else console.error
    say(f"{count(len(exported.left_out), 'value')} cannot be expressed in manifests:")
    for line in left_out_lines(exported.left_out):
        console.detail(line)
    if not layout.partial:
        snapshot = cluster_target.command("snapshot")
        console.hint(f"pass --partial to exit 0; `{snapshot}` saves everything")
    return ExitCode.DONE if layout.partial else ExitCode.ERROR


ADOPT_HELP: Final = """Write a manifest for every live quota that no manifest declares yet, then show the plan, which is empty.

Quotas outside spec.scope and those that spec.ignore names are left alone. A warning names each temporary limit of
kquota: the value from before it is written.

Nothing is written to the cluster. The policy of the cluster must be Observe or Upsert: under Sync, what is left
out would be removed. The files are below the first folder of spec.manifests, or below --out-dir, one per form of entity,
prefix or entity; no existing file is replaced. A second run adopts what was added in the meantime.

`kquota apply` then records the adopted limits as managed by kquota.

\b
Example:
  kquota adopt
  kquota adopt --cluster prod --split prefix
  kquota adopt --cluster prod --team etl-=analytics --team pay-=payments

Exit code 1: a value cannot be expressed in manifests (see --partial), or the plan would change an adopted limit."""


@command(help=ADOPT_HELP)
@_out_dir_option("Folder of the files; one that spec.manifests covers.")
@layout_options
@where_options(many=False)
@click.pass_obj
def adopt(
    console: Console, *, out_dir: Path | None, layout: ExportLayout, where: TargetRequest
) -> ExitCode:
    """Describe all quotas, write manifests for undeclared ones, show the plan."""
    _ = teams_of(layout)
    cluster_target = target(where)
    folder = manifest_folder(cluster_target) if out_dir is None else out_dir
    declarations = declarations_of(cluster_target)
    state = select_undeclared(
        run(lasting_state(console, cluster_target)), cluster_target, declarations
    )
    existing_names = {declaration.document.rpartition("/")[2] for declaration in declarations}
    with ProgressLine(console) as progress:
        exported = exported_state(
            cluster_target, state, layout, progress=progress, existing_names=existing_names
        )
    if exported.texts:
        folder = unused_folder(folder, exported, layout)
        _write_folder(console, folder, exported, layout)
    else:
        console.note("every live quota that a manifest can express is already declared")
    left_out = _report_left_out(console, cluster_target, exported, layout)
    with ConsoleNotices(console) as notices:
        plan = run(plan_cluster(notices, cluster_target, request=PlanRequest(validate="none")))
    show_plans(console, [plan], "text")
    adopted = {declaration.entity for declaration in exported.declarations}
    changed = [change for change in plan.preview.plan.changes if change.entity in adopted]
    if changed:
        console.error(
            f"the plan would change {len(changed)} adopted limits; check them before you apply"
        )
        return ExitCode.ERROR
    return left_out
