"""docs/commands.md is what the commands say of themselves."""

from pathlib import Path

import pytest

from reconciler.cli import command_docs
from reconciler.cli.main import COMMANDS, main

PAGE = Path(__file__).parents[2] / command_docs.PATH
OVERRIDES = ("override set", "override list", "override end")


def test_the_page_is_up_to_date():
    assert command_docs.check(PAGE), "run python -m reconciler.cli.command_docs --write"


@pytest.mark.parametrize("name", [*COMMANDS, *OVERRIDES])
def test_every_command_stands_in_the_page_with_an_example(name):
    section = PAGE.read_text().split(f"## kquota {name}\n")[1].split("\n## ")[0]
    assert "Example:" in section


@pytest.mark.parametrize("name", OVERRIDES)
def test_sub_commands_explain_themselves_with_an_example(name, capsys):
    assert main([*name.split(), "--help"]) == 0
    assert f"kquota {name}" in capsys.readouterr().out


def test_a_page_that_is_out_of_date_is_noticed(tmp_path):
    (tmp_path / "commands.md").write_text(PAGE.read_text() + "\n")
    assert not command_docs.check(tmp_path / "commands.md")
    assert not command_docs.check(tmp_path / "none.md")
