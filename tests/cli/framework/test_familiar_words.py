"""Words of other tools have a hint that names a command or option that exists."""

import re

import pytest

from reconciler.cli.framework.familiar_words import COMMANDS, OPTIONS
from reconciler.cli.main import cli


@pytest.mark.parametrize("word", COMMANDS)
def test_a_command_of_another_tool_is_answered_with_ours(kquota, word):
    assert word not in cli.list_commands(None)
    ran = kquota(word)
    assert ran.code == 1
    assert f"unknown command '{word}'; use {COMMANDS[word]}" in ran.err
    for name in re.findall(r"kquota ([a-z]+)", COMMANDS[word]):
        assert name in cli.list_commands(None)


@pytest.mark.parametrize("word", OPTIONS)
def test_an_option_of_another_tool_is_answered_with_ours(kquota, word):
    ran = kquota("apply", word)
    assert ran.code == 1
    assert f"hint: use {OPTIONS[word]}\n" in ran.err
