"""``kquota import``: converts quota files of another tool to manifests, and lists what manifests cannot express."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click

from reconciler.base.escaping import escaped
from reconciler.base.text_files import read_text, write_new
from reconciler.cli.framework.commands import ExitCode, command, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import FOLDER
from reconciler.errors import UsageError
from reconciler.manifest.foreign.collector import ImportRemark
from reconciler.manifest.foreign.tools import TOOLS, ClusterFormat, read_files
from reconciler.manifest.writer import document_text, documents_text
from reconciler.quota.entity import parts_text
from reconciler.quota.planner.desired_state import Declaration

STDIN: Final = "-"

HELP: Final = """Convert quota files of another tool to manifests. FILE is an input or output file of that tool; - is standard input.

No cluster is contacted. What no manifest can express, or what cannot be read with certainty, is listed with its place on
standard error; the exit code is then 1 unless --partial is set.

\b
Example:
  kafka-configs --bootstrap-server b:9092 --describe --entity-type users | kquota import --from kafka-configs --cluster prod -
  kquota import --from strimzi --cluster prod --out-dir quotas/prod users/*.yaml
  terraform show -json | kquota import --from terraform --cluster prod -

Afterwards, kquota plan shows whether the cluster matches the files."""


@command("import", help=HELP)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@option(
    "--from", "Tool that wrote the files.", click.Choice(tuple(TOOLS)), name="tool", required=True
)
@option("--cluster NAME", "Cluster name to write into clusterRef.", required=True)
@option("--namespace", "Namespace of the documents.", default="default")
@option(
    "--source-cluster NAME",
    "Cluster to import if the files contain several: "
    + "; ".join(
        f"{name}: {reader.cluster}"
        for name, reader in TOOLS.items()
        if isinstance(reader, ClusterFormat)
    )
    + ".",
)
@option(
    "--out-dir DIR",
    "Folder for one file per document; existing files are not changed  [default: standard output].",
    FOLDER,
)
@flag("--partial", "Exit 0 although some quotas cannot be written as manifests.")
@click.pass_obj
def import_(
    console: Console,
    *,
    files: Sequence[str],
    tool: str,
    cluster: str,
    namespace: str,
    source_cluster: str | None,
    out_dir: Path | None,
    partial: bool,
) -> ExitCode:
    """Read every file, write the documents, report losses."""
    imported = read_files(
        tool, [_read(name) for name in files], namespace=namespace, source_cluster=source_cluster
    )
    if out_dir is None:
        console.fact(documents_text(imported.declarations, cluster=cluster))
    else:
        _write(out_dir, imported.declarations, cluster)
        console.note(f"{_count(len(imported.declarations), 'document')} written to {out_dir}")
    for line in remark_lines(imported.notes):
        console.warning(line)
    if not imported.losses:
        return ExitCode.DONE
    say = console.warning if partial else console.error
    say(f"{_count(len(imported.losses), 'value')} cannot be expressed in manifests:")
    for line in remark_lines(imported.losses):
        console.detail(line)
    if not partial:
        console.hint(f"--partial imports without {'it' if len(imported.losses) == 1 else 'them'}")
    return ExitCode.DONE if partial else ExitCode.ERROR


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def remark_lines(remarks: Iterable[ImportRemark]) -> list[str]:
    """Return an escaped line for each remark: place, entity and limit, text."""
    lines: list[str] = []
    for remark in remarks:
        place = f"{remark.path}:{remark.line}" if remark.line else remark.path
        limit = f"{remark.key}={remark.value}" if remark.key else ""
        subject = " ".join(word for word in (parts_text(remark.about), escaped(limit)) if word)
        lines.append(
            ": ".join(word for word in (escaped(place), subject, escaped(remark.text)) if word)
        )
    return lines


def _read(name: str) -> tuple[str, str]:

    if name != STDIN:
        return name, read_text(Path(name))
    try:
        return "(standard input)", sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError("standard input is not UTF-8 text") from error


def _write(folder: Path, declarations: Iterable[Declaration], cluster: str) -> None:
    """Write a file per document; write nothing if one exists with other content."""
    write_new(
        {
            folder / f"{declaration.document.rpartition('/')[2]}.yaml": document_text(
                declaration, cluster=cluster
            )
            for declaration in declarations
        }
    )
