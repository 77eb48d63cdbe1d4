"""Shell completion: the command that prints the script, and completers for names from a project or a cluster.

Every command imports this module for its options; modules that look names up are imported only during a completion.

The project file of a checkout may come from another author, so a completion connects to a cluster only if the user
named its brokers (an option or ``KQUOTA_BOOTSTRAP_SERVERS``), or if kquota has applied to it from this folder before:
its records or its audit log are there, and git does not track them. After an error there are no names, and nothing is
printed.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.errors import KquotaError, UsageError

if TYPE_CHECKING:
    from reconciler.app.clusters.targets import ClusterTarget
    from reconciler.app.requests import TargetRequest
    from reconciler.quota.entity import Entity

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

ASKING_SECONDS: Final = 2.0
"""Longest time of a request to a cluster for a completion."""

_MOST: Final = 1_000
"""Maximum number of names that are offered."""

_PLAN_BYTES: Final = 1 << 26
"""Maximum size of a file that is read to check whether it is a saved plan."""


def cluster_names(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the clusters of the project file."""

    def names() -> Iterable[str]:
        from reconciler.app.clusters.targets import read_project

        return read_project(_where(ctx, cluster=None))[0].names

    return _items(names, incomplete)


def entity_names(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the entities that have live quotas."""

    def names() -> Iterable[str]:
        from reconciler.quota.entity_forms import entity_text

        return [entity_text(entity) for entity in _live_entities(ctx)]

    return _items(names, incomplete)


def part_names(entity_type: str) -> Completer:
    """Return a completer for the names of one entity type (``user``, ``client-id`` or ``ip``) with live quotas."""

    def complete(
        ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        def names() -> Iterable[str]:
            from reconciler.quota.entity import parts

            named = (name for entity in _live_entities(ctx) for name in parts(entity))
            return {name for kind, name in named if kind == entity_type and isinstance(name, str)}

        return _items(names, incomplete)

    return complete


def plan_files(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete saved plans in the typed folder; if it has none, the shell completes files."""
    folder = (
        Path(incomplete).parent if incomplete and not incomplete.endswith("/") else Path(incomplete)
    )
    try:
        plan_paths = [str(path) for path in folder.glob("*.json") if _is_plan(path)]
    except OSError:
        plan_paths = []
    matching_paths = sorted(name for name in plan_paths if name.startswith(incomplete))
    return [CompletionItem(name) for name in matching_paths] or [
        CompletionItem(incomplete, type="file")
    ]


def _is_plan(path: Path) -> bool:
    from reconciler.base.regular_files import read_regular

    try:
        return b'"kquota-plan"' in read_regular(path, max_bytes=_PLAN_BYTES)
    except OSError:
        return False


def _items(names: Callable[[], Iterable[str]], incomplete: str) -> list[CompletionItem]:
    try:
        matching_names = sorted(name for name in names() if name.startswith(incomplete))
    except (KquotaError, click.ClickException, OSError, ExceptionGroup):
        return []
    return [CompletionItem(name) for name in matching_names[:_MOST] if name.isprintable()]


def _where(ctx: click.Context, *, cluster: str | None) -> "TargetRequest":
    from reconciler.app.requests import TargetRequest

    bootstrap, project = ctx.params.get("bootstrap_server"), ctx.params.get("project")
    return TargetRequest(
        project=None if bootstrap else project,
        cluster=cluster,
        every=False,
        bootstrap_server=bootstrap,
        command_config=ctx.params.get("command_config"),
        config_from=None,
        timeout=ASKING_SECONDS,
    )


def _live_entities(ctx: click.Context) -> "Sequence[Entity]":
    from reconciler.app.clusters.runtime import connect_client
    from reconciler.app.clusters.targets import target
    from reconciler.app.event_loop import run
    from reconciler.quota.filters import ALL

    cluster_target = target(_where(ctx, cluster=ctx.params.get("cluster")))
    if not (cluster_target.options.by_address or _is_known_here(cluster_target)):
        return ()
    console = Console(
        stdout=io.StringIO(),
        stderr=io.StringIO(),
        colour=False,
        err_colour=False,
        err_terminal=False,
        asks=False,
        width=0,
    )

    async def ask() -> "Sequence[Entity]":
        async with connect_client(console, cluster_target) as client:
            return tuple((await client.describe(ALL)).entities())

    return run(ask())


def _is_known_here(target: "ClusterTarget") -> bool:
    """Whether the project folder has records or an audit log of this cluster that git does not track."""
    from reconciler.app.clusters.state_files import own_path

    names = [target.project_cluster.inventory.file, target.project_cluster.audit_log]
    return any(
        own_path(target.root, name, content_name="records").is_file()
        for name in names
        if name is not None
    )


_PROGRAMS: Final = {
    "kquota": "_KQUOTA_COMPLETE",
    "kafka-client-quotas": "_KAFKA_CLIENT_QUOTAS_COMPLETE",
}


_BASH: Final = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" index=-1 type value
    # Bash breaks words at = and :, which entities have; so the line is passed whole (-1: its last word is incomplete).
    [[ "$line" == *[[:space:]] ]] && index=9999
    local word="${line##*[[:space:]]}"
    [[ "$word" == --*=* ]] && word="${word#*=}"
    local before="${word%%"${word##*[=:]}"}"
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case "$type" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) printf -v value '%%q' "$value"; COMPREPLY+=("${value#"$before"}") ;;
        esac
    done < <(env COMP_WORDS="$line" COMP_CWORD="$index" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
"""Like click's script, but completes words with = and quotes names for the shell."""

HELP: Final = """Print the completion script of a shell, for kquota and kafka-client-quotas.

Commands, options, clusters of the project file and saved plans are completed. Live entities, users and client ids are
completed if --bootstrap-server or KQUOTA_BOOTSTRAP_SERVERS is set, or after the first apply from this project:
completion never connects to the clusters of a newly cloned project.

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
        template = _BASH if shell == "bash" else completer.source_template
        console.program(template % completer.source_vars())
    return ExitCode.DONE
