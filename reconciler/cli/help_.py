"""``kquota help``: the help of the program or of one command, as ``--help`` prints it."""

from collections.abc import Sequence
from typing import Final

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.errors import UsageError

HELP: Final = """Show the help of kquota, or of the command with this name.

\b
Example:
  kquota help
  kquota help plan
  kquota help spark ingest"""


@command("help", help=HELP)
@click.argument("names", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, *, names: Sequence[str]) -> ExitCode:
    """Walk down the groups by name, then print."""
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
