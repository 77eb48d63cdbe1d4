"""``kquota export``: live quotas as manifests, and a list of what no manifest can hold."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.app.requests import TargetRequest
from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console, ProgressLine
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import FILE, packed, where_options
from reconciler.errors import QuotaValueError, UsageError

if TYPE_CHECKING:
    from reconciler.app.clusters.targets import ClusterTarget
    from reconciler.manifest.export.files import Team
    from reconciler.manifest.writer import ExportResult, OmittedQuota
    from reconciler.quota.state import QuotaState

F = TypeVar("F", bound=Callable[..., Any])

HELP: Final = """Write live quotas as manifests that read back to the same values.

What no manifest can hold (foreign entity types and keys, empty names, odd values) is listed on standard
error, and the exit code is then 1, unless --partial is given.

With --out-dir there is one file per form of entity (users.yaml, client-ids.yaml, defaults.yaml and so on), per prefix
of the names (etl.yaml for etl-nightly and etl-hourly), or per entity. Documents of a --team are in a folder of the team.

\b
Example:
  kquota export --cluster prod > quotas/prod.yaml
  kquota export --bootstrap-server localhost:9092 --cluster prod --namespace platform --out prod.yaml
  kquota export --cluster prod --out-dir quotas --split prefix --team etl-=analytics

To make an existing cluster the content of a project: kquota adopt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportLayout:
    """How documents are named and divided, as it was typed."""

    namespace: str
    split: str
    team: tuple[str, ...]
    partial: bool

    @property
    def teams(self) -> "tuple[Team, ...]":
        """The teams.

        Raises:
            UsageError: One is not PREFIX=NAMESPACE.
        """
        from reconciler.manifest.export.files import Team

        teams: list[Team] = []
        for text in self.team:
            prefix, _, namespace = text.rpartition("=")
            try:
                teams.append(Team(prefix=prefix, namespace=namespace))
            except QuotaValueError as error:
                raise UsageError(
                    f"--team {text!r}: {error.message}",
                    hint="write PREFIX=NAMESPACE, such as etl-=analytics",
                ) from error
        return tuple(teams)


_LAYOUT: Final = (
    (
        "namespace",
        click.option(
            "--namespace", default="default", show_default=True, help="Namespace of the documents."
        ),
    ),
    (
        "split",
        click.option(
            "--split",
            type=click.Choice(("form", "prefix", "entity")),
            default="form",
            show_default=True,
            help="What decides about the file of a document.",
        ),
    ),
    (
        "team",
        click.option(
            "--team",
            multiple=True,
            metavar="PREFIX=NAMESPACE",
            help="Names that begin so belong to this namespace, and to a folder of that name; may be given several times.",
        ),
    ),
    (
        "partial",
        click.option(
            "--partial", is_flag=True, help="Exit 0 although some values cannot be exported."
        ),
    ),
)


def layout_options(function: F) -> F:
    """The options of :class:`ExportLayout`, handed over as ``layout``."""
    decorate: Callable[[F], F] = packed(
        "layout", ExportLayout, [name for name, _ in _LAYOUT], [option for _, option in _LAYOUT]
    )
    return decorate(function)


@command(help=HELP)
@click.option(
    "--out", type=FILE, metavar="FILE", help="Output file, replaced whole; stdout if unset."
)
@click.option(
    "--out-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder for several files; no existing file is replaced.",
)
@layout_options
@where_options(many=False)
@click.pass_obj
def export(
    console: Console,
    *,
    out: Path | None,
    out_dir: Path | None,
    layout: ExportLayout,
    where: TargetRequest,
) -> ExitCode:
    """One describe, written as documents."""
    from reconciler.app.clusters.targets import target
    from reconciler.base.text_files import write_text

    if out is not None and out_dir is not None:
        raise UsageError("--out and --out-dir contradict each other")
    teams = layout.teams
    cluster_target = target(where)
    if not cluster_target.name:
        raise UsageError(
            "the documents need a name for the cluster (clusterRef)", hint="pass --cluster NAME"
        )
    exported = exported_state(
        console, cluster_target, live_state(console, cluster_target), layout, teams=teams
    )
    if out_dir is not None:
        count = write_folder(out_dir, exported, layout, teams=teams)
        console.note(f"{len(exported.texts)} documents written to {count} files in {out_dir}")
    elif out is not None:
        write_text(out, exported.text)
        console.note(f"{len(exported.texts)} documents written to {out}")
    else:
        console.fact(exported.text)
    return report_left_out(console, exported, layout)


def live_state(console: Console, target: "ClusterTarget") -> "QuotaState":
    """What the cluster of a target has."""
    from reconciler.app.clusters.runtime import connected, expected_cluster
    from reconciler.app.event_loop import run

    async def ask() -> "QuotaState":
        async with connected(console, target) as client:
            _ = await expected_cluster(client, target)
            return await client.describe()

    return run(ask())


def exported_state(
    console: Console,
    target: "ClusterTarget",
    state: "QuotaState",
    layout: ExportLayout,
    *,
    teams: "Iterable[Team]",
    taken: Iterable[str] = (),
) -> "ExportResult":
    """A state as documents for the target, with progress."""
    from reconciler.manifest import writer

    with ProgressLine(console) as progress:
        return writer.export(
            state,
            cluster=target.name,
            namespace=layout.namespace,
            teams=tuple(teams),
            taken=taken,
            progress=lambda done, total: progress("export", done, total),
        )


def layout_files(
    exported: "ExportResult", layout: ExportLayout, teams: "Iterable[Team]"
) -> tuple[str, ...]:
    """The file of each document, relative to the folder of the export."""
    from reconciler.manifest.export.files import Split, file_names

    return file_names(exported.declarations, Split(layout.split), tuple(teams))


def write_folder(
    folder: Path, exported: "ExportResult", layout: ExportLayout, *, teams: "Iterable[Team]"
) -> int:
    """Write the documents to the files of the layout.

    Returns:
        How many files were written.

    Raises:
        UsageError: One of the files exists with other content; then none was written.
    """
    from reconciler.base.text_files import write_new

    texts: dict[Path, list[str]] = {}
    for name, text in zip(layout_files(exported, layout, teams), exported.texts, strict=True):
        texts.setdefault(folder / name, []).append(text)
    write_new({path: "".join(documents) for path, documents in texts.items()})
    return len(texts)


def report_left_out(console: Console, exported: "ExportResult", layout: ExportLayout) -> ExitCode:
    """List what no manifest can hold."""
    if exported.complete:
        return ExitCode.DONE
    say = console.warning if layout.partial else console.error
    say(f"{len(exported.left_out)} values cannot be carried by manifests:")
    for line in left_out_lines(exported.left_out):
        console.detail(line)
    if not layout.partial:
        console.hint("--partial accepts this; kquota snapshot keeps everything")
    return ExitCode.DONE if layout.partial else ExitCode.ERROR


def left_out_lines(left_out: "Iterable[OmittedQuota]") -> list[str]:
    """One line for each, safe to print."""
    from reconciler.base.escaping import escaped
    from reconciler.quota.entity_forms import parts_text
    from reconciler.render.units import number

    return [
        f"{parts_text(omitted.entity)} {escaped(omitted.key)}={number(omitted.value)}: {escaped(omitted.reason)}"
        for omitted in left_out
    ]
