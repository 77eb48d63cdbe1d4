"""Every command that a message, a hint or a help text names: it exists, and it has the options that are named with it."""

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.command_tree import OPTION, command_of, options_of

SOURCE = Path(__file__).parents[2] / "reconciler"
MENTION = re.compile(r"(?<![\w./-])kquota +([a-z](?:(?!(?<![\w./-])kquota )[^\n`|;&>)])*)")
SHELL = {"|", "&&", ">", "<", ";"}
NO_COMMANDS = {"and", "are", "expects", "here", "here,", "knows", "reads", "that"}
"""Words that follow the name of the program in sentences about the program itself."""


def texts() -> Iterator[tuple[str, str]]:
    """Place and text of each string that is no docstring; values that are filled in are an ellipsis."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        parts = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in node.values}  # fmt: skip
        for node in ast.walk(tree):
            place = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                values = [str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values]
                yield place, "".join(values)
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docstrings | parts
            ):
                yield place, node.value


def mentions() -> list[tuple[str, str, str]]:
    """Place and words of each ``kquota …`` in a text; where it is an example, also its line. Continued lines are joined."""
    return [
        (
            place,
            match[1].strip(),
            joined[match.start() :].partition("\n")[0]
            if joined[: match.start()].endswith("\n  ")
            else "",
        )
        for place, text in texts()
        for joined in (text.replace("\\\n", " "),)
        for match in MENTION.finditer(joined)
    ]


MENTIONED = mentions()


def test_there_are_mentions_to_look_at():
    assert len(MENTIONED) > 100


@pytest.mark.parametrize(("place", "text", "_"), MENTIONED, ids=lambda value: str(value)[:60])
def test_a_command_that_a_text_names_exists_with_its_options(place: str, text: str, _: str) -> None:
    words = text.split()
    if words[0] in NO_COMMANDS or words[0].startswith("…"):
        return
    command = command_of(words)
    assert command is not None, f"{place}: there is no command kquota {words[0]}"
    unknown = [flag for flag in OPTION.findall(text) if flag not in options_of(command)]
    assert unknown == [], f"{place}: kquota {text}"


@pytest.mark.parametrize(
    ("place", "text"),
    [(place, line) for place, _, line in MENTIONED if line],
    ids=lambda value: value[:60],
)
def test_an_example_of_a_help_text_can_be_parsed(place: str, text: str) -> None:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    _program, *words = itertools.takewhile(lambda word: word not in SHELL, lexer)
    command = command_of(words)
    assert command is not None, place
    depth = next(at for at in range(1, len(words) + 1) if command_of(words[:at]) is command)
    if command.name == "set" and words[depth - 1] != "set":
        depth -= 1  # `kquota override ENTITY` is `kquota override set ENTITY`
    values, rest, _order = command.make_parser(click.Context(command)).parse_args(words[depth:])
    assert rest == [], f"{place}: {text}: {values}"
