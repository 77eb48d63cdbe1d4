"""A click group that imports a command's module only when that command runs.

``kquota --version`` and ``kquota --help`` import none of them; the one-line summaries stand in the table.
"""

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass

import click

from reconciler.cli.framework.commands import CONTEXT, Group


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEntry:
    """Where a command lives.

    Attributes:
        module: The module that holds it.
        attribute: Its name there.
        summary: One line for the list of commands.
    """

    module: str
    attribute: str
    summary: str


class LazyGroup(Group):
    """A group whose commands are a table of :class:`CommandEntry`."""

    def __init__(self, *, entries: Mapping[str, CommandEntry], name: str, help: str) -> None:  # noqa: A002 - click's name
        super().__init__(name=name, help=help, no_args_is_help=True, context_settings=dict(CONTEXT))
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the table."""
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command, imported now."""
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        command = getattr(importlib.import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command), cmd_name  # noqa: S101 - the table is ours
        return command

    def summary_of(self, ctx: click.Context, name: str) -> str:  # noqa: ARG002 - the signature of its class
        """One line about a command, from the table alone."""
        return self._entries[name].summary

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a near match for a misspelt command."""
        if args and args[0] not in self._entries and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self._entries, n=1)
            suffix = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"there is no command {args[0]!r}.{suffix}")
        return super().resolve_command(ctx, args)
