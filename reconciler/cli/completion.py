"""``kquota completion``: the script that a shell loads to complete both commands."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.errors import UsageError

_PROGRAMS: Final = {
    "kquota": "_KQUOTA_COMPLETE",
    "kafka-client-quotas": "_KAFKA_CLIENT_QUOTAS_COMPLETE",
}


HELP: Final = """Print the completion script of a shell, for kquota and kafka-client-quotas.

\b
Example:
  kquota completion bash > ~/.local/share/bash-completion/completions/kquota
  eval "$(kquota completion zsh)\""""


@command(help=HELP)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_obj
def completion(console: Console, shell: str) -> Exit:
    """Both programs in one script, because both are installed together."""
    found = get_completion_class(shell)
    if found is None:
        raise UsageError(f"no completion for {shell}")
    for program, variable in _PROGRAMS.items():
        made = found(click.Command(program), {}, program, variable)
        console.program(made.source_template % made.source_vars())
    return Exit.DONE
