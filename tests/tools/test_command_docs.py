"""docs/commands.md equals the help of the commands."""

from pathlib import Path

import pytest

from reconciler.cli.main import COMMANDS, main
from tools import command_docs

PAGE = Path(__file__).parents[2] / command_docs.PATH
OVERRIDES = ("override set", "override list", "override end")


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == command_docs.text(), "run make generate"


@pytest.mark.parametrize("name", [*COMMANDS, *OVERRIDES])
def test_every_command_is_on_the_page_with_an_example(name):
    section = PAGE.read_text().split(f"## kquota {name}\n")[1].split("\n## ")[0]
    assert "Example:" in section


@pytest.mark.parametrize("name", OVERRIDES)
def test_subcommands_have_a_help_text_with_an_example(name, capsys):
    assert main([*name.split(), "--help"]) == 0
    assert f"kquota {name}" in capsys.readouterr().out
