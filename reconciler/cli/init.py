"""``kquota init``: writes a new project: project file, example document, ``.gitignore``, CI pipelines."""

from pathlib import Path
from typing import Final

import click

import reconciler
from reconciler.base.text_files import write_new
from reconciler.cli.framework.commands import ExitCode, command, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import FOLDER
from reconciler.errors import UsageError
from reconciler.manifest.project.file import FILE_NAME, parse
from reconciler.manifest.project.starter import (
    STATE_FOLDER,
    Workflow,
    remaining_settings,
    starter_files,
)
from reconciler.quota.policy import Policy

HELP: Final = """Write a new project: kquota.yaml, an example document and .kquota/.gitignore.

Missing values are requested if stdin is a terminal. No cluster is contacted. No file is replaced: if a file exists with
other content, nothing is written.

\b
Example:
  kquota init
  kquota init --bootstrap-server broker-1:9092,broker-2:9092 --cluster prod
  kquota init --bootstrap-server broker-1:9093 --cluster prod --properties-file client.properties --workflows github

Next: kquota doctor, then kquota adopt."""

DEFAULT_CLUSTER: Final = "prod"
_FOLDERS: Final = {
    "github": ("github/quotas-*.yml", ".github/workflows"),
    "gitlab": ("gitlab/.gitlab-ci.yml", ""),
}
_PIPELINES: Final = {
    "github": ".github/workflows/quotas-*.yml",
    "gitlab": ".gitlab-ci.yml",
}
_POLICIES: Final = ("Observe", "Upsert")


@command(help=HELP)
@option("--bootstrap-server HOST:PORT,...", "Bootstrap servers of the cluster.")
@option(
    "--cluster NAME", f"Name of the cluster in manifests and commands; {DEFAULT_CLUSTER} if unset."
)
@option("--policy", "Policy of the cluster.", click.Choice(_POLICIES), default="Observe")
@option("--properties-file FILE", "Java properties of the client, relative to the folder.")
@option(
    "--workflows",
    "Also write the pipelines for pull requests or merge requests.",
    click.Choice(tuple(_FOLDERS)),
)
@option(
    "--dir FOLDER",
    "Folder of the project; the current one if unset.",
    FOLDER,
    name="folder",
    default=Path(),
    show_default=False,
)
@click.pass_obj
def init(
    console: Console,
    *,
    bootstrap_server: str | None,
    cluster: str | None,
    policy: str,
    properties_file: str | None,
    workflows: str | None,
    folder: Path,
) -> ExitCode:
    """Ask for missing options, check the resulting project, write its files."""
    bootstrap = bootstrap_server or _reply(console, "Bootstrap servers (HOST:PORT,...)", "")
    if not bootstrap:
        raise UsageError("no bootstrap servers given", hint="pass --bootstrap-server HOST:PORT")
    name = cluster or _reply(console, "Name of the cluster", DEFAULT_CLUSTER)
    files = starter_files(
        folder=folder.absolute().name,
        cluster=name,
        bootstrap=bootstrap,
        policy=Policy(policy),
        properties_file=properties_file,
        workflows=[] if workflows is None else _workflows(workflows),
    )
    _ = parse(files[FILE_NAME], FILE_NAME)
    texts = {folder / path: text for path, text in files.items()}
    write_new(texts, private_folder=folder / STATE_FOLDER)
    for path in files:
        console.note(f"wrote {folder / path}")
    if workflows is None:
        console.hint("next: kquota doctor, then kquota adopt to take over the live quotas")
        return ExitCode.DONE
    console.note("left to set:")
    settings = remaining_settings(
        workflows,
        cluster=name,
        bootstrap=bootstrap,
        policy=Policy(policy),
        version=f"v{reconciler.__version__}",
        pipelines=_PIPELINES[workflows],
        properties_file=properties_file,
    )
    for number, text in enumerate(settings, 1):
        console.note(f"  {number}. " + text.replace("\n", "\n     "))
    console.hint("next: kquota doctor, with QUOTA_BOOTSTRAP, QUOTA_USER and QUOTA_PASSWORD set")
    return ExitCode.DONE


def _reply(console: Console, text: str, default: str) -> str:
    """Ask for a value; return the default without an answer or a terminal."""
    if not console.asks:
        return default
    console.question(text, choices=f"[{default}]" if default else ":")
    return console.reply() or default


def _workflows(kind: str) -> list[Workflow]:

    pattern, target = _FOLDERS[kind]
    shipped = Path(reconciler.__file__).parent / "cli" / "workflows"
    return [
        Workflow(
            path=f"{target}/{path.name}" if target else path.name,
            text=path.read_text(encoding="utf-8"),
        )
        for path in sorted(shipped.glob(pattern))
    ]
