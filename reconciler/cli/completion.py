"""Shell completion: the command that prints the script, and completers for clusters of the project and saved files.

Every command imports this module for its options; modules that look names up are imported only during a completion.
Nothing connects to a cluster. After an error there are no names, and nothing is printed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from reconciler.cli.framework.commands import ExitCode, command
from reconciler.cli.framework.console import Console
from reconciler.errors import KquotaError, UsageError

_MOST: Final = 1_000
"""Maximum number of names that are offered."""

_DOCUMENT_BYTES: Final = 1 << 26
"""Maximum size of a file that is read to check its kind."""


def cluster_names(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the clusters of the project file."""

    def names() -> Iterable[str]:
        from reconciler.app.clusters.targets import read_project
        from reconciler.app.requests import TargetRequest

        where = TargetRequest(
            project=ctx.params.get("project"),
            cluster=None,
            every=False,
            bootstrap_server=None,
            command_config=None,
            config_from=None,
        )
        return read_project(where)[0].names

    try:
        matching_names = sorted(name for name in names() if name.startswith(incomplete))
    except (KquotaError, click.ClickException, OSError):
        return []
    return [CompletionItem(name) for name in matching_names[:_MOST] if name.isprintable()]


def plan_files(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete saved plans in the typed folder; if it has none, the shell completes files."""
    return _documents(incomplete, b'"kquota-plan"', [_typed_folder(incomplete)])


def outcome_files(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete outcomes in the typed folder and in that of the project; if there are none, the shell completes files."""
    from reconciler.app.change.outcome_files import OUTCOME_FOLDER

    folders = [_typed_folder(incomplete), Path(OUTCOME_FOLDER)]
    return _documents(incomplete, b'"kquota-outcome"', folders)


def _typed_folder(incomplete: str) -> Path:
    typed = Path(incomplete)
    return typed.parent if incomplete and not incomplete.endswith("/") else typed


def _documents(incomplete: str, kind: bytes, folders: Iterable[Path]) -> list[CompletionItem]:
    paths: set[str] = set()
    for folder in folders:
        try:
            paths.update(str(path) for path in folder.glob("*.json") if _is_document(path, kind))
        except OSError:
            continue
    matching_paths = sorted(name for name in paths if name.startswith(incomplete))
    return [CompletionItem(name) for name in matching_paths] or [
        CompletionItem(incomplete, type="file")
    ]


def _is_document(path: Path, kind: bytes) -> bool:
    from reconciler.base.regular_files import read_regular

    try:
        return kind in read_regular(path, max_bytes=_DOCUMENT_BYTES)
    except OSError:
        return False


_PROGRAMS: Final = {
    "kquota": "_KQUOTA_COMPLETE",
    "kafka-client-quotas": "_KAFKA_CLIENT_QUOTAS_COMPLETE",
}

HELP: Final = """Print the completion script of a shell, for kquota and kafka-client-quotas.

Commands, options, clusters of the project file, saved plans and outcomes are completed. No cluster is contacted.

\b
Example:
  kquota completion bash > ~/.local/share/bash-completion/completions/kquota
  eval "$(kquota completion zsh)\""""


@command(help=HELP)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_obj
def completion(console: Console, shell: str) -> ExitCode:
    """Print one script for both programs, which are installed together."""
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise UsageError(f"shell {shell} is not supported")
    for program, variable in _PROGRAMS.items():
        completer = completion_class(click.Command(program), {}, program, variable)
        console.program(completer.source_template % completer.source_vars())
    return ExitCode.DONE
