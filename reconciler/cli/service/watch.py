"""``kquota watch``: reconciles clusters with a branch of a git repository until stopped, without Kubernetes."""

import signal
from pathlib import Path
from typing import Final

import click

from reconciler.app.requests import MetricsRequest
from reconciler.app.watch.revision import RevisionPaths
from reconciler.app.watch.service import watch_branch
from reconciler.cli.framework.commands import ExitCode, command, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.logs import collect_as_usual, log_records
from reconciler.cli.options.shared import DURATION, FILE, FOLDER, serving_options

HELP: Final = """Keep every cluster of a project as declared on a branch: fetch, plan and apply until stopped.

REPOSITORY is a folder or a URL. A commit with an error is not applied; the last valid commit stays in force and is still
reconciled. Changes that a guard refuses are not applied; all others are.

The project file is read from the branch: a person who may push there decides which clusters are contacted and what may
be changed. To prevent that, use --config-from with a file on this machine.

SIGHUP starts a check now. SIGTERM ends the command after the current request.

\b
Example:
  kquota watch https://git.example.org/platform/quotas.git --branch main --state-dir /var/lib/kquota
  kquota watch ../quotas --path kafka --config-from /etc/kquota/kquota.yaml --metrics-address 127.0.0.1:9180"""


@command(help=HELP)
@click.argument("repository", envvar="KQUOTA_REPOSITORY")
@option(
    "--branch NAME",
    "Branch to follow  [default: the default branch of the repository].",
    default="",
)
@option(
    "--path FOLDER",
    "Folder of the repository that the project's paths start from  [default: its top].",
    name="folder",
    default="",
)
@option("--project FILE", "Project file, relative to that folder.", default="kquota.yaml")
@option(
    "--config-from FILE",
    "Project file on this machine, used instead of the one on the branch.",
    FILE,
    name="trusted",
)
@option(
    "--interval DURATION",
    "Time between two fetches of the branch; clusters are checked at their own spec.interval.",
    DURATION,
    default="60s",
)
@option(
    "--state-dir DIR",
    "Folder of the mirror, the records and the audit log  [default under systemd: its StateDirectory].",
    FOLDER,
    required=True,
    envvar=["KQUOTA_STATE_DIR", "STATE_DIRECTORY"],
)
@serving_options
@click.pass_obj
def watch(
    console: Console,
    *,
    repository: str,
    branch: str,
    folder: str,
    project: str,
    trusted: Path | None,
    interval: float,
    state_dir: Path,
    serving: MetricsRequest,
) -> ExitCode:
    """Check the options, then run until stopped; SIGTERM exits 0, other signals 130."""
    from reconciler.git.mirror import GitMirror, GitSource

    state_dir = state_dir.absolute()
    mirror = GitMirror(
        folder=state_dir / "mirror.git",
        source=GitSource.of(repository, start=Path()),
        branch=branch,
    )
    places = RevisionPaths(folder=folder.strip("/"), project=project, trusted=trusted)
    collect_as_usual()
    with log_records(console):
        ended_by = watch_branch(
            console,
            mirror,
            places,
            interval=max(interval, 1.0),
            state_dir=state_dir,
            serving=serving,
        )
    return ExitCode.DONE if ended_by == signal.SIGTERM else ExitCode.INTERRUPTED
