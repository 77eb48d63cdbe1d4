"""Every command in a message, a hint or a help text exists, with the options that the text names."""

import ast
import functools
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reconciler.cli.framework import familiar_words
from reconciler.cli.main import cli
from reconciler.render.table import Style, fold_lines
from tests.cli.command_tree import OPTION, command_of, options_of

SOURCE = Path(__file__).parents[2] / "reconciler"
MENTION = re.compile(r"(?<![\w./-])kquota +([a-z](?:(?!(?<![\w./-])kquota )[^\n`|;&>)])*)")
SHELL = {"|", "&&", ">", "<", ";"}
NO_COMMANDS = {"and", "are", "expects", "here", "here,", "knows", "reads", "that", "wrote"}
"""Words after the name of the program in sentences about the program itself."""


@functools.cache
def texts() -> tuple[tuple[str, str], ...]:
    """Place and text of each string except docstrings; formatted values are an ellipsis."""
    return tuple(row for path in sorted(SOURCE.rglob("*.py")) for row in texts_of(path))


def texts_of(path: Path) -> Iterator[tuple[str, str]]:
    """Place and text of the strings of one module."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    name = path.relative_to(SOURCE)
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # and of constants
    skipped |= {id(v) for node in nodes if isinstance(node, ast.JoinedStr) for v in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            values = [str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values]
            yield f"{name}:{node.lineno}", "".join(values)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield f"{name}:{node.lineno}", node.value


@functools.cache
def mentions() -> list[tuple[str, str, str]]:
    """Place and words of each ``kquota …`` in a text; for an example, also its line. Continued lines are joined."""
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


def unknown_options(text: str) -> str:
    """The unknown options of a command in a text, or nothing."""
    words = text.split()
    if words[0] in NO_COMMANDS or words[0].startswith("…"):
        return ""
    command = command_of(words)
    if command is None:
        return f"there is no command kquota {words[0]}"
    unknown = [flag for flag in OPTION.findall(text) if flag not in options_of(command)]
    return f"kquota {text}: no option {', '.join(unknown)}" if unknown else ""


def unparsed_words(line: str) -> str:
    """The words of an example that the parser of its command does not accept, or nothing."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    _program, *words = itertools.takewhile(lambda word: word not in SHELL, lexer)
    command = command_of(words)
    if command is None:
        return f"there is no command in: {line}"
    depth = next(at for at in range(1, len(words) + 1) if command_of(words[:at]) is command)
    if command.name == "set" and words[depth - 1] != "set":
        depth -= 1  # `kquota override ENTITY` is `kquota override set ENTITY`
    _values, arguments, _order = command.make_parser(click.Context(command)).parse_args(
        words[depth:]
    )
    return f"{line}: {' '.join(arguments)}" if arguments else ""


def test_commands_in_printed_texts_exist_with_their_options() -> None:
    mentioned = mentions()
    assert len(mentioned) > 100
    assert [
        f"{place}: {problem}" for place, text, _ in mentioned if (problem := unknown_options(text))
    ] == []


OTHER_PROGRAMS = {
    "other tools": " ".join(word for word in familiar_words.OPTIONS if word.startswith("--")),
    "kafka-client-quotas": "--add --alter --any --defaults --delete --describe --names --resolve --validate-only",
    "Kafka's tools": "--allow-principal --entity-type --operation",
    "kubectl, helm": "--all-namespaces --as --create-namespace --from-file --from-literal --no-hooks --overwrite"
    " --patch --patch-file --previous --replicas --reset-then-reuse-values --selector --set --show-labels"
    " --type --values --wait",
    "Spark": "--archives --conf --deploy-mode --driver-memory --executor-cores --executor-memory"
    " --num-executors --output --py-files",
    "Docker, buildah, pip": "--build-arg --digestfile --isolation --no-deps"
    " --storage-driver --tag --volume --wheel-dir",
    "systemctl, git, gh": "--all --body-file --cached --comment --delete-branch --depth --exit-code --force --head --jq"
    " --json --message --now --quiet",
    "tools that others wrote": "--dry",
    "programs of this repository": "--broker --config --divide --documents --first --include --keep --recording"
    " --matrix --table --variant --write",
}
"""Options in texts that are not those of kquota, by their program."""

ROOT = SOURCE.parent
PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "tests/*.md",
        "tests/bench/*.md",
        "examples/**/*",
        "charts/**/*",
    )
    for path in ROOT.glob(pattern)
    if path.is_file() and path.suffix in {".md", ".yaml", ".yml", ".txt", ".service", ".py", ".sh"}
)


def all_options() -> set[str]:
    """All options that a text may name; ``--config-`` is the prefix of several."""
    return options_of(cli).union({"--config-"}, *map(str.split, OTHER_PROGRAMS.values()))


def test_every_option_that_an_error_or_a_hint_names_exists() -> None:
    printed = ("other tools", "kafka-client-quotas", "Kafka's tools", "kubectl, helm")
    own = options_of(cli).union(*(OTHER_PROGRAMS[program].split() for program in printed))
    programs = (
        "git/",
        "app/clusters/state_files.py",
        "evidence/spark/",
        "spark/",
        "evidence/ingest/readers/prometheus.py",
        "manifest/foreign/kafka_configs.py",
    )  # their options
    unknown = {
        f"{place}: {option}"
        for place, text in texts()
        if not place.startswith(programs)
        for option in OPTION.findall(text)
        if option not in own
    }
    assert unknown == set()


def test_every_option_that_a_page_or_an_example_names_exists() -> None:
    known_options = all_options()
    assert len(PAGES) > 80
    assert [
        f"{path.relative_to(ROOT)}: {option}"
        for path in PAGES
        for option in OPTION.findall(path.read_text(encoding="utf-8"))
        if option not in known_options
    ] == []


def test_each_named_command_of_another_program_has_its_options() -> None:
    named = {
        option for path in PAGES for option in OPTION.findall(path.read_text(encoding="utf-8"))
    }
    named.update(option for _, text in texts() for option in OPTION.findall(text))
    foreign_options = {option for options in OTHER_PROGRAMS.values() for option in options.split()}
    assert foreign_options - named == set()


def test_examples_of_help_texts_can_be_parsed() -> None:
    lines = [(place, line) for place, _, line in mentions() if line]
    assert len(lines) > 20
    assert [
        f"{place}: {problem}" for place, line in lines if (problem := unparsed_words(line))
    ] == []


@pytest.mark.parametrize(
    "text", ["no-such-command --yes", "plan --no-such-option", "apply --cluster prod --no-such"]
)
def test_the_check_reports_an_unknown_command_or_option(text: str) -> None:
    assert unknown_options(text)


SHELL_COMMAND = re.compile(
    r"(?<![\w./$`-])(?:(?:kquota|kubectl|helm|git|sed|pip|python3?|openssl|chmod|kafka-[a-z]+) "
    r"(?:-|[a-z]+-[a-z]+ |(?:apply|config|describe|fetch|get|install|override|plan|push|rollback) )[^`\n;,]*)"
)


def test_a_command_that_is_printed_to_be_run_is_never_folded() -> None:
    folded = []
    for place, text in texts():
        for line in text.split("\n"):
            lines = fold_lines([f"hint: {line}"], Style(width=40), is_message=True)
            commands = [match[0].strip() for match in SHELL_COMMAND.finditer(line)]
            folded += [
                f"{place}: {command}"
                for command in commands
                if not any(" ".join(command.split()) in part for part in lines)
            ]
    assert folded == []
