"""``kquota watch``: keep clusters as a branch of a git repository declares, again and again, without Kubernetes."""

from pathlib import Path
from typing import Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import FILE
from reconciler.cli.serving import Serving, serving_options
from reconciler.cli.values import Duration

HELP: Final = """Keep every cluster of a project as a branch declares it: fetch, plan, apply, look again, for as long as it runs.

REPOSITORY is a folder or a URL. A commit is taken whole or not at all: while one is broken, the last good one
stays in force and keeps being reconciled. Guards withhold what they speak against, and the rest is applied.

The project file comes from the branch itself, so whoever may push to it decides where clusters are and what may be
changed; --config-from believes a file of this machine instead. SIGHUP looks at once, SIGTERM ends after the
request under way.

\b
Example:
  kquota watch https://git.example.org/platform/quotas.git --branch main --state-dir /var/lib/kquota
  kquota watch ../quotas --path kafka --config-from /etc/kquota/kquota.yaml --metrics-address 127.0.0.1:9180"""


@command(help=HELP)
@click.argument("repository", envvar="KQUOTA_REPOSITORY")
@click.option(
    "--branch", default="", metavar="NAME", help="Which branch  [default: the repository's own]."
)
@click.option(
    "--path",
    "folder",
    default="",
    metavar="FOLDER",
    help="Folder of the repository that the project's paths start from  [default: its top].",
)
@click.option(
    "--project",
    default="kquota.yaml",
    show_default=True,
    metavar="FILE",
    help="The project file, seen from that folder.",
)
@click.option(
    "--config-from",
    "trusted",
    type=FILE,
    metavar="FILE",
    help="A project file of this machine, believed instead of the branch's.",
)
@click.option(
    "--interval",
    type=Duration(),
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Between two looks at the branch. Clusters are looked at as their spec.interval says.",
)
@click.option(
    "--fetch-timeout",
    type=Duration(),
    default="2m",
    show_default=True,
    metavar="DURATION",
    help="Longest time for one fetch.",
)
@click.option(
    "--state-dir",
    required=True,
    envvar=["KQUOTA_STATE_DIR", "STATE_DIRECTORY"],
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where mirror, records and audit log are kept; under systemd its StateDirectory.",
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
    fetch_timeout: float,
    state_dir: Path,
    serving: Serving,
) -> Exit:
    """Check what was typed, then serve."""
    from reconciler.cli.watching import Wanted, run
    from reconciler.git.mirror import Mirror
    from reconciler.git.source import Source
    from reconciler.loop.revision import Places

    return run(
        console,
        Wanted(
            mirror=Mirror(
                folder=state_dir.absolute() / "mirror.git",
                source=Source.of(repository, start=Path()),
                branch=branch,
                deadline=fetch_timeout,
            ),
            places=Places(folder=folder.strip("/"), project=project, trusted=trusted),
            interval=max(interval, 1.0),
            state_dir=state_dir.absolute(),
            serving=serving,
        ),
    )
