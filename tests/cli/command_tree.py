"""The commands of kquota and their options, for comparison with texts."""

import re
from collections.abc import Sequence

import click

from reconciler.cli.main import cli

OPTION = re.compile(r"(?<![\w=/-])--[a-z][a-z-]*")
FOREIGN = re.compile(r"`[^`]*`|(?:kquota|kafka-[a-z]+|pip|git) .*")
"""Parts of a hint that name a command without the program."""


def command_of(words: Sequence[str]) -> click.Command | None:
    """The command that the first words name; ``None`` = there is none."""
    command: click.Command = cli
    context = click.Context(cli)
    for word in words:
        if not isinstance(command, click.Group):
            break
        name = word.strip(".,:'\"…")
        child = command.get_command(context, name)
        if child is None and "=" in name:
            child = command.get_command(context, "set")
        if child is None:
            break
        command = child
    return None if command is cli else command


def options_of(command: click.Command) -> set[str]:
    """Every flag of a command; for a group also those of its commands, which examples may omit."""
    context = click.Context(command)
    flags = {
        flag
        for parameter in command.get_params(context)
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            flags |= options_of(child)
    return flags


def check_hints(arguments: Sequence[str], err: str) -> None:
    """Fail if a hint in the output names an option that the command does not have."""
    command = command_of(arguments)
    if command is None:
        return
    for line in err.splitlines():
        if line.startswith("hint: "):
            unknown = set(OPTION.findall(FOREIGN.sub("", line))) - options_of(command)
            assert not unknown, f"kquota {' '.join(arguments)}: {line}"
        if line.startswith(NEXT_STEPS):
            assert not (lacking := lacking_places(arguments, line)), (
                f"kquota {' '.join(arguments)}: {line} lacks {lacking}"
            )


NEXT_STEPS = ("hint: ", "to continue: ", "to undo ")
"""The beginnings of lines that name a command to run next."""
PLACES = {"--bootstrap-server", "--command-config", "--project", "--cluster"}
MENTION = re.compile(r"(?<![\w./-])kquota ((?:(?!(?<![\w./-])kquota )[^`;])*)")


def lacking_places(arguments: Sequence[str], line: str) -> set[str]:
    """The typed options that choose a cluster and are missing from a command of a line, which so would choose another."""
    lacking: set[str] = set()
    for mention in MENTION.finditer(line):
        command = command_of(mention[1].split())
        if command is None or isinstance(command, click.Group) or "--help" in mention[1]:
            continue
        # A new project has what was typed, and an outcome names its cluster.
        needless = {"--cluster"} if command.name == "rollback" else set[str]()
        if "init" not in {arguments[0], command.name}:
            typed = PLACES & set(arguments) & options_of(command)
            lacking |= typed - needless - set(OPTION.findall(line))
    return lacking
