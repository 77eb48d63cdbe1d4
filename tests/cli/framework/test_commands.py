"""Tests of the help of every command: headings, -h, complete summaries."""

from collections.abc import Iterator

import click
import pytest

from reconciler.cli import main
from reconciler.cli.framework.commands import HEADINGS
from tests.cli.consoles import Screen


def contexts(
    command: click.Command = main.cli, parent: click.Context | None = None, name: str = "kquota"
) -> Iterator[click.Context]:
    """A context of the program and of each of its commands."""
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    yield context
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            subcommand = command.get_command(context, inner)
            assert subcommand is not None
            yield from contexts(subcommand, context, inner)


ALL = {context.command_path: context for context in contexts()}


def flags(context: click.Context) -> set[str]:
    params = context.command.get_params(context)
    return {
        next(name for name in param.opts if name.startswith("--"))
        for param in params
        if isinstance(param, click.Option)
    }


@pytest.mark.parametrize("path", ALL)
def test_every_command_accepts_the_short_help(path):
    text = ALL[path].get_help()
    assert "-h, --help" in text


@pytest.mark.parametrize("path", ALL)
def test_no_group_of_options_is_longer_than_a_screen(path):
    """Assign a new option to a heading of `reconciler.cli.framework.commands.HEADINGS`."""
    sections = ALL[path].get_help().split("\n\n")
    for section in sections:
        options = [line for line in section.splitlines() if line.lstrip().startswith("-")]
        assert len(options) <= 16, section


@pytest.mark.parametrize("group", HEADINGS)
def test_every_option_in_a_heading_exists(group):
    items = {
        flag
        for path, context in ALL.items()
        if group in {"", *path.split()[1:2]}
        for flag in flags(context)
    }
    named = {
        flag
        for heading, names in HEADINGS[group].items()
        if heading != "Output and help"
        for flag in names
    }
    assert named <= items


@pytest.mark.parametrize(
    "path", [path for path, at in ALL.items() if isinstance(at.command, click.Group)]
)
def test_summaries_of_commands_are_not_truncated(path):
    part = ALL[path].get_help().split("\nCommands:\n")[1]
    assert "..." not in part.replace("...`)", "")


def test_the_help_of_a_command_groups_its_options_under_headings(capsys):
    assert main.main(["plan", "-h"]) == 0
    text = capsys.readouterr().out
    at = [text.index(f"\n{heading}:\n") for heading in ("Options", "Cluster", "Guards")]
    assert at == sorted(at)
    guards = text.split("\nGuards:\n")[1].split("\n\n")[0]
    assert "--max-removals N" in guards
    assert "--cluster" not in guards


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ((), "Usage: kquota [OPTIONS]"),
        (("plan",), "Usage: kquota plan [OPTIONS]"),
        (("usage", "ingest"), "Usage: kquota usage ingest [OPTIONS]"),
    ],
)
def test_the_help_command_prints_the_same_as_the_help_option(words, title, capsys):
    assert main.main(["help", *words]) == 0
    by_command = capsys.readouterr().out
    assert main.main([*words, "--help"]) == 0
    assert by_command == capsys.readouterr().out
    assert by_command.startswith(title)


def test_help_uses_the_width_of_the_terminal_within_bounds():
    context = click.Context(
        main.cli, info_name="kquota", terminal_width=200, **main.cli.context_settings
    )
    assert max(map(len, context.get_help().splitlines())) <= 200
    assert Screen().console.width == 100


def test_help_for_an_unknown_command_names_the_list(capsys):
    assert main.main(["help", "usage", "nix"]) == 1
    err = capsys.readouterr().err
    assert "kquota usage has no command 'nix'" in err
    assert "kquota usage --help lists the commands" in err


def test_help_for_a_command_without_subcommands_is_an_error(capsys):
    assert main.main(["help", "plan", "nix"]) == 1
    assert "kquota plan has no command 'nix'" in capsys.readouterr().err
