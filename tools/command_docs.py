"""Generates ``docs/commands.md`` from every command's ``--help``: ``python -m tools.command_docs --write`` or ``--check``."""

import re
import sys
from typing import Final

import click

from reconciler.cli import client_quotas, main
from reconciler.cli.client_quotas_arguments import PROGRAM
from reconciler.cli.framework.commands import CONTEXT, MEANINGS, PRECEDENCE_TEXT
from tools import modes

PATH: Final = "docs/commands.md"
WIDTH: Final = 80
"""Columns of the help in the page, independent of the terminal."""

_EXIT_CODES: Final = re.sub(
    "(--[a-z-]+)",
    r"`\1`",
    "\n".join(f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()),
)

_HEAD: Final = f"""# Commands

Generated from each command's `--help` by `python -m tools.command_docs --write`.

Results go to standard output, all messages to standard error; progress bars only on a terminal.
Colour: `NO_COLOR` turns it off, `FORCE_COLOR` turns it on; otherwise only a terminal gets it.
A terminal's lines are folded at its width (`COLUMNS`), except commands; in a pipe and in a file each row is one line of any width.
`-h` is `--help` everywhere; `kquota help COMMAND` prints the same.
`--format json` gives versioned, sorted, stable JSON. `KQUOTA_DEBUG=1` in the environment adds the traceback to an error.

| exit code | means |
| --- | --- |
{_EXIT_CODES}

If several apply, the first of these counts: {PRECEDENCE_TEXT}. A change did not succeed if it was rejected or waits for another, if its result is unknown, or if the brokers did not show it in time.
The code is also 1 if a question is answered with no, or cannot be asked (no terminal and no `--yes`).

An ENTITY is written as every output shows it: `user=alice,client-id=<default>`. A name that holds a comma or a quote, begins with `<`, or has blanks at an
end is between double quotes with the escapes of JSON: `'user="CN=alice,O=Acme"'`, `'user="<default>"'` (a user of that very name), `'user="a\\nb"'`.
`kafka-client-quotas` writes names in the same way.
"""


def text() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    context = click.Context(main.cli, info_name="kquota", terminal_width=WIDTH, **CONTEXT)
    parts.append(_section("kquota", main.cli.get_help(context)))
    for name in main.COMMANDS:
        parts.extend(_sections(main.cli.get_command(context, name), context, name))
    alone = click.Context(client_quotas.command, info_name=PROGRAM, terminal_width=WIDTH, **CONTEXT)
    parts.append(_section(PROGRAM, client_quotas.command.get_help(alone)))
    return "\n".join(parts)


def _sections(command: click.Command | None, parent: click.Context, name: str) -> list[str]:
    assert command is not None, name  # noqa: S101 - an internal table
    context = click.Context(command, info_name=name, parent=parent)
    sections = [_section(context.command_path, command.get_help(context))]
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            sections.extend(_sections(command.get_command(context, inner), context, inner))
    return sections


def _section(title: str, help_text: str) -> str:
    lines = "\n".join(line.rstrip() for line in help_text.splitlines())
    return f"## {title}\n\n```text\n{lines}\n```\n"


if __name__ == "__main__":
    sys.exit(modes.main(sys.argv[1:], modes.ROOT, lambda: {PATH: text()}))
