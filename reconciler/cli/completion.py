"""``kquota completion``: the script that a shell loads to complete both commands."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.errors import UsageError

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
"""As click's script, for words with = and names that the shell must quote."""

HELP: Final = """Print the completion script of a shell, for kquota and kafka-client-quotas.

Commands, options, clusters of the project file and saved plans are completed. Live entities, users and client ids are
completed if the brokers are named (--bootstrap-server or KQUOTA_BOOTSTRAP_SERVERS), or after the first apply from this
project: a project that was only cloned is not connected to.

\b
Example:
  kquota completion bash > ~/.local/share/bash-completion/completions/kquota
  eval "$(kquota completion zsh)\""""


@command(help=HELP)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_obj
def completion(console: Console, shell: str) -> ExitCode:
    """Both programs in one script, because both are installed together."""
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise UsageError(f"no completion for {shell}")
    for program, variable in _PROGRAMS.items():
        completer = completion_class(click.Command(program), {}, program, variable)
        template = _BASH if shell == "bash" else completer.source_template
        console.program(template % completer.source_vars())
    return ExitCode.DONE
