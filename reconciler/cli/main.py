"""``kquota``: the table of commands and the entry point. The module of a command is imported when it runs."""

import gc
import sys
from collections.abc import Sequence
from typing import Final

import click

from reconciler import __version__
from reconciler.cli.framework.commands import (
    MEANINGS,
    PRECEDENCE_TEXT,
    CommandEntry,
    ExitCode,
    LazyGroup,
    command,
    run_mapped,
)
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.diagnostics import escape_diagnostics
from reconciler.errors import UsageError

_COMMANDS: Final = {
    "init": ("init", "Write a new project."),
    "adopt": (
        "inspection.export",
        "Write manifests for the live quotas that no manifest declares.",
    ),
    "plan": ("change.plan", "Show what would change, and why."),
    "apply": ("change.apply", "Write the declared limits to a cluster, verify and record them."),
    "drift": ("service.drift", "Show live limits that were changed outside kquota."),
    "resolve": (
        "inspection.resolve",
        "Show which limit applies to a client, and which limits it overrides.",
    ),
    "describe": ("inspection.describe", "Show the live quotas of a cluster."),
    "snapshot": ("inspection.describe", "Save all quotas of a cluster in one file, without loss."),
    "export": ("inspection.export", "Write live quotas as manifests."),
    "import": ("inspection.import_", "Convert the quota files of another tool to manifests."),
    "validate": ("inspection.validate", "Check manifests without a cluster."),
    "history": ("change.history", "List the outcomes of applies."),
    "rollback": ("change.rollback", "Restore the limits from before an apply."),
    "override": ("change.override", "Set a temporary limit; list or end temporary limits."),
    "doctor": ("inspection.doctor", "Diagnose connectivity, permissions and configuration."),
    "post": ("post", "Post a plan as a comment on a pull request, or drift as an issue."),
    "watch": ("service.watch", "Keep clusters as declared on a branch of a git repository."),
    "operator": (
        "operator.commands",
        "Run the Kubernetes operator; release its finalizers.",
    ),
    "usage": (
        "usage.commands",
        "Ingest and analyse recorded use: what-if, right-sizing, capacity, history.",
    ),
    "sandbox": ("service.sandbox", "Run an in-memory Kafka broker for tests and demos."),
    "completion": ("completion", "Print the completion script for bash, zsh or fish."),
    "help": ("main", "Show the help of a command."),
}
"""Module below this package and summary of each command, in the order of the help."""

_BUILT_IN: Final = frozenset({"help", "import"})
"""Names that Python uses; the function of such a command ends with an underscore."""

COMMANDS: Final = {
    name: CommandEntry(
        module=f"reconciler.cli.{module}",
        attribute=f"{name}_" if name in _BUILT_IN else name,
        summary=summary,
    )
    for name, (module, summary) in _COMMANDS.items()
}

_EXIT_CODES: Final = "\n".join(f"  {int(code):<5}{meaning}" for code, meaning in MEANINGS.items())

HELP: Final = f"""Manage Kafka client quotas as code: declare them in YAML, preview, apply, verify.

\b
Example:
  kquota plan --cluster prod
  kquota apply --cluster prod
  kquota help plan

\b
Exit codes:
{_EXIT_CODES}
  If several apply, the first of these counts: {PRECEDENCE_TEXT}.

\b
Environment:
  KQUOTA_PROJECT            value of --project
  KQUOTA_CLUSTER            value of --cluster
  KQUOTA_BOOTSTRAP_SERVERS  value of --bootstrap-server
  FORCE_COLOR, NO_COLOR     colour on or off, whatever the terminal
  COLUMNS                   width of a terminal; in a pipe each row is one line
  KQUOTA_DEBUG=1            adds the traceback to an error

Results go to standard output, all messages to standard error. Limits apply per broker."""

cli = click.version_option(__version__, "-V", "--version", message="kquota %(version)s")(
    LazyGroup(entries=COMMANDS, name="kquota", help=HELP)
)


HELP_HELP: Final = """Show the help of kquota, or of the command with this name.

\b
Example:
  kquota help
  kquota help plan
  kquota help usage ingest"""


@command("help", help=HELP_HELP)
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, *, names: Sequence[str]) -> ExitCode:
    """Find the command by its names, then print its help."""
    at = context.find_root()
    for name in names:
        inner = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if inner is None:
            raise UsageError(
                f"{at.command_path} has no command {name!r}",
                hint=f"{at.command_path} --help lists the commands",
            )
        at = click.Context(inner, info_name=name, parent=at)
    console = context.find_object(Console)
    assert console is not None  # noqa: S101 - main hands it in
    console.fact(at.get_help())
    return ExitCode.DONE


COLLECT_AFTER: Final = 1_000_000
"""Threshold of CPython's cyclic garbage collector in new containers. A run with 10,000 entities creates some hundred
thousand acyclic values that live until the end; collections took a third of its time. Long-running commands restore
the default (``collect_as_usual``)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; never raises.

    Args:
        arguments: Without the program name; ``None`` = those of the process.
    """
    if arguments is None:
        gc.set_threshold(COLLECT_AFTER)
    argument_list = list(sys.argv[1:] if arguments is None else arguments)
    console = Console.of_process()
    if arguments is None:
        escape_diagnostics(console)

    def work() -> int:
        code = cli.main(argument_list, prog_name="kquota", standalone_mode=False, obj=console)
        return int(code or 0)

    return run_mapped(console, work)
