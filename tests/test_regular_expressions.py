"""No regular expression of the package can backtrack for long: a text of n characters takes about n steps.

Each expression becomes a graph of its character classes. Two loops around one class with the same text take exponential
time; a text that can stay in one class, stay in another one and go from the first to the second takes quadratic time. A
search that may begin at every character counts as an expression with a repetition in front of it.
"""

import ast
import functools
import importlib
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from re import _constants as codes
from re import _parser as parser
from typing import Any

import pytest

ROOT = Path(__file__).parents[1] / "reconciler"
ANYWHERE = {"search", "findall", "finditer", "sub", "subn", "split"}
AT_START = {"match", "fullmatch"}
ALPHABET = (*map(chr, range(128)), "\u00e9", "\u0416", "\u2028", "\ufeff", "\U0001f600")
LETTERS = (1 << len(ALPHABET)) - 1
NOTHING = 0
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)

Letters = int
"""A set of letters: bit n is the letter n of `ALPHABET`."""


def letters_where(is_inside: Callable[[str], object]) -> Letters:
    """The letters for which a condition is true."""
    return sum(1 << place for place, letter in enumerate(ALPHABET) if is_inside(letter))


@dataclass
class Part:
    """A part of an expression: classes with which it can start and end.

    Attributes:
        first: Class and the letters with which it can be entered.
        last: Class and the letters that cannot follow, because a possessive repetition would have taken them.
        empty: The letters that may follow where the part matches nothing, ``None`` if it cannot.
    """

    first: list[tuple[int, Letters]]
    last: list[tuple[int, Letters]]
    empty: Letters | None


@dataclass
class Graph:
    """The classes of an expression, and which one may follow which, with which letters."""

    flags: int
    edges: dict[int, list[tuple[int, Letters]]] = field(default_factory=dict)
    asserts: bool = False
    loops: int = 0
    ambiguous: bool = False

    def add_class(self, letters: Letters) -> Part:
        place = len(self.edges)
        self.edges[place] = []
        return Part([(place, letters)], [(place, NOTHING)], None)

    def connect(self, before: Part, after: Part) -> None:
        for (source, excluded_letters), (target, letters) in itertools.product(
            before.last, after.first
        ):
            if letters & ~excluded_letters:
                self.edges[source].append((target, letters & ~excluded_letters))

    def sequence(self, items: Iterable[Any]) -> Part:
        result = Part([], [], LETTERS)
        for code, argument in items:
            part = self.part(code, argument)
            self.connect(result, part)
            first, last, empty = list(result.first), list(part.last), None
            if result.empty is not None:
                first += [(place, letters & result.empty) for place, letters in part.first]
            if part.empty is not None:
                last += [
                    (place, excluded_letters | (LETTERS & ~part.empty))
                    for place, excluded_letters in result.last
                ]
            if result.empty is not None and part.empty is not None:
                empty = result.empty & part.empty
            result = Part(first, last, empty)
        return result

    def part(self, code: Any, argument: Any) -> Part:  # noqa: C901, PLR0911 - a case for each kind of node
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY):
            return self.add_class(self.letters(code, argument))
        if code in REPEATS:
            return self.repeat(*argument, possessive=code is codes.POSSESSIVE_REPEAT)
        if code is codes.SUBPATTERN:
            return self.sequence(argument[3])
        if code is codes.ATOMIC_GROUP:
            return self.sequence(argument)
        if code is codes.BRANCH:
            parts = [self.sequence(branch) for branch in argument[1]]
            self.ambiguous |= self.loops > 0 and sum(part.empty is not None for part in parts) > 1
            empties = [part.empty for part in parts if part.empty is not None]
            return Part(
                [entry for part in parts for entry in part.first],
                [entry for part in parts for entry in part.last],
                union(empties) if empties else None,
            )
        if code is codes.GROUPREF:
            self.asserts = True
            return self.add_class(LETTERS)
        if code is codes.AT and argument in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING):
            if not self.flags & re.MULTILINE:
                return self.add_class(NOTHING)
            return Part([], [], LETTERS)
        if code in (codes.ASSERT, codes.ASSERT_NOT) and argument[0] > 0:
            self.sequence(argument[1])
        if code in (codes.AT, codes.ASSERT, codes.ASSERT_NOT):
            self.asserts = True
            return Part([], [], LETTERS)
        raise NotImplementedError(code)

    def repeat(self, least: int, most: int, items: Any, *, possessive: bool) -> Part:
        unbounded = most is codes.MAXREPEAT
        copies = max(1, min(int(least), 2)) if unbounded else min(int(most), max(int(least), 2), 3)
        optional = [(codes.MAX_REPEAT, (0, -1, items))]
        if most == -1:  # one copy that may be left out
            once = self.sequence(items)
            return Part(once.first, once.last, LETTERS)
        if not unbounded or copies > 1:
            once = [(codes.SUBPATTERN, (None, 0, 0, items))]
            needed = min(int(least), copies - 1 if unbounded else copies)
            tail = [(codes.MAX_REPEAT, (1, codes.MAXREPEAT, items))] if unbounded else []
            return self.sequence(
                [*once * needed, *optional * (0 if unbounded else copies - needed), *tail]
            )
        self.loops += 1
        loop = self.sequence(items)
        self.loops -= 1
        self.connect(loop, loop)
        begin = union(letters for _, letters in loop.first)
        excluded_letters = begin if possessive else NOTHING
        last = [(place, before | excluded_letters) for place, before in loop.last]
        empty = LETTERS & ~excluded_letters if least == 0 else loop.empty
        return Part(loop.first, last, empty)

    def letters(self, code: Any, argument: Any) -> Letters:
        if code is codes.ANY:
            return (
                LETTERS if self.flags & re.DOTALL else letters_where(lambda letter: letter != "\n")
            )
        items = argument if code is codes.IN else [(code, argument)]
        negated, inside = False, set[str]()
        for kind, value in items:
            if kind is codes.NEGATE or kind is codes.NOT_LITERAL:
                negated = True
            if kind in (codes.LITERAL, codes.NOT_LITERAL):
                inside |= {letter for letter in ALPHABET if ord(letter) == value}
            elif kind is codes.RANGE:
                inside |= {letter for letter in ALPHABET if value[0] <= ord(letter) <= value[1]}
            elif kind is codes.CATEGORY:
                category = re.compile(CATEGORIES[value], self.flags & re.ASCII)
                inside |= {letter for letter in ALPHABET if category.fullmatch(letter)}
        if self.flags & re.IGNORECASE:
            inside |= {letter for letter in ALPHABET if {letter.lower(), letter.upper()} & inside}
        return letters_where(lambda letter: (letter in inside) is not negated)


CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_NOT_WORD: r"\W",
}


def union(sets: Iterable[Letters]) -> Letters:
    """The letters of several sets."""
    return functools.reduce(operator.or_, sets, NOTHING)


def steps(graph: Graph, states: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The next states of a tuple of classes after one letter."""
    for choice in itertools.product(*(graph.edges[state] for state in states)):
        common = LETTERS
        for _, letters in choice:
            common &= letters
        if common:
            yield tuple(target for target, _ in choice)


def reached(
    graph: Graph, start: tuple[int, ...], inside: tuple[set[int], ...]
) -> Iterator[tuple[int, ...]]:
    """The tuples of classes that a text can reach within the given sets, each once."""
    numbers: set[tuple[int, ...]] = set()
    todo = [start]
    while todo:
        for states in steps(graph, todo.pop()):
            if states not in numbers and all(map(operator.contains, inside, states)):
                numbers.add(states)
                todo.append(states)
                yield states


def backtracking(pattern: str, flags: int = 0, *, anywhere: bool = False) -> str:
    """The part that takes more than linear time, "" if there is none."""
    parsed = parser.parse(pattern, flags)
    graph = Graph(parsed.state.flags)
    part = graph.sequence(parsed)
    if graph.ambiguous:
        return "exponential: two ways through a branch"
    ends = set() if graph.asserts else {place for place, _ in part.last}
    start = -1
    if anywhere:
        begin = [(place, letters) for place, letters in part.first if letters]
        graph.edges[start] = [(start, LETTERS), *begin]
    after = {
        place: {state for (state,) in reached(graph, (place,), (set(graph.edges),))}
        for place in graph.edges
    }
    loops = [place for place in graph.edges if place in after[place]]
    around = {
        place: {
            other_loop
            for other_loop in loops
            if other_loop in after[place] and place in after[other_loop]
        }
        for place in loops
    }
    for place in loops:
        ways = [edge for edge in graph.edges[place] if edge[0] in around[place]]
        for (first, letters), (second, second_letters) in itertools.combinations(ways, 2):
            if letters & second_letters and (
                first == second
                or (place, place) in reached(graph, (first, second), (around[place],) * 2)
            ):
                return "exponential: two ways around one repetition"
    for place, second in itertools.product(loops, loops):
        if place == second or second not in after[place]:
            continue
        if place == start and around[second] <= ends:
            continue  # An attempt that reaches this point has matched.
        between = {state for state in after[place] if second in after[state]} | {place, second}
        inside = (around[place], between, around[second])
        if (place, second, second) in reached(graph, (place, place, second), inside):
            return "quadratic: " + ("a search begins anew" if place == start else "two repetitions")
    return ""


@dataclass(frozen=True)
class Use:
    pattern: str
    flags: int
    anywhere: bool


@functools.cache
def texts() -> dict[str, str]:
    """Path and text of each module."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(ROOT.rglob("*.py"))
    }


@functools.cache
def nodes(path: str) -> tuple[ast.AST, ...]:
    """All nodes of a module."""
    return tuple(ast.walk(ast.parse(texts()[path])))


def methods(name: str, home: str) -> set[str]:
    """Methods of a compiled expression that are used in its module, or anywhere if others may import it."""
    return {
        node.attr
        for path, text in texts().items()
        if path == home or (not name.startswith("_") and name in text)
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name | ast.Attribute)
        and name == (node.value.id if isinstance(node.value, ast.Name) else node.value.attr)
    }


@functools.cache
def collect() -> tuple[dict[str, Use], set[str]]:
    """Expressions by module and name (or text), and places where one is built from variable text."""
    uses: dict[str, Use] = {}
    dynamic: set[str] = set()
    for path, text in texts().items():
        if not re.search(r"\bre\.", text):
            continue
        name = "reconciler." + path.removesuffix(".py").replace("/", ".")
        for variable, value in vars(importlib.import_module(name)).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                called = methods(variable, path)
                anywhere = bool(called & ANYWHERE) or not called & AT_START
                uses[f"{path}:{variable}"] = Use(value.pattern, value.flags, anywhere)
        for function in nodes(path):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id="re"), attr=method), args=[first, *_]
                    ) if method in {*ANYWHERE, *AT_START, "compile"}:
                        if isinstance(first, ast.Constant) and isinstance(first.value, str):
                            flags = re.MULTILINE if "re.MULTILINE" in ast.unparse(node) else 0
                            uses[f"{path}:{first.value}"] = Use(
                                first.value, flags, method not in AT_START
                            )
                        else:
                            dynamic.add(f"{path}:{function.name}")
    return uses, dynamic


CLEARED = {
    "client/auth/jaas.py:_TOKEN": "a comment or a quote without an end is an error at once, so it is looked for once",
    "client/configuration/references.py:_REFERENCE": "it is only given text that ends with a brace, so no search for one is in vain",
    "kube/configuration/credentials.py:_QUOTED": "only the last quote of each of the two kinds has no partner",
    "manifest/project/cluster.py:([0-9]+)(ms|[smh])": "the schema of QuotaCluster has refused any other text and long numbers",
    "base/redaction.py:_ESCAPE": "an attempt that begins a run of escapes matches all of it, so none is read twice",
    "base/output_text.py:_WORKFLOW_COMMAND": "it begins at the begin of a line and does not leave the line",
    "manifest/syntax/block_reader.py:_LINES": "every match begins where a line begins or the last one ended, and the last group takes the rest",
    "render/table.py:_PARTS": "every character belongs to a part; only the last backquote of a line has no partner",
    "sandbox/broker_rules/ip_literals.py:_LEADING_ZEROS": "it begins only where no digit is in front",
    r"evidence/spark/jvm.py:^ *java\.specification\.version = (?:1\.)?(\d+)": "it begins at the begin of a line of Java's own",
}
"""Expressions that the check cannot prove, with the reason why they take at most linear time."""

DYNAMIC = {
    "client/configuration/references.py:variable": "of the command's own caller",
    "base/durable_files.py:remove_drafts": "a name is escaped, and one repetition ends with another character",
    "git/repository.py:tree": "a constant over bytes: one class",
    "manifest/files.py:_matcher": "globs of the trusted project file, over names of files",
    "manifest/explanation.py:_compile": "patterns of the schemas of this package, over texts of bounded length",
    "evidence/ingest/dialect_tables.py:_pattern": "of the caller's own file of dialects",
    "evidence/ingest/cluster_sources.py:__post_init__": "of the caller's own settings",
    "evidence/ingest/cluster_sources.py:parsed": "of the caller's own settings",
    "wire/sasl/scram.py:__init__": "a constant of the module: one class",
}
"""Functions that build an expression from variable text, and the source of the text."""


@pytest.mark.parametrize(
    ("pattern", "anywhere"),
    [
        ("(a+)+$", False),
        ("a*a*b", False),
        ("(a|a)*b", False),
        (r"\s*$", True),
        (r"\s+:", True),
        ("(a*b*)*c", False),
        (r"(\w+)*-", False),
        (r"\w*[^#]*!", False),
        ("a*(?:x?)a*b", False),
        ("[\"'`)\\]}>:;,.]*$", True),
        (r"[?#;&][^\s=]*=", True),
        (r"[a-zA-Z_:][\w:]*(?:\{(?:[^\"{}]|\"(?:[^\"\\]|\\.)*\")*\})?[^#\"{}]*#", False),
    ],
)
def test_backtracking_expressions_are_reported(pattern: str, anywhere: bool) -> None:
    assert backtracking(pattern, anywhere=anywhere)


@pytest.mark.parametrize(
    ("pattern", "anywhere"),
    [(r"\s+:", False), ('"[^"]*"', True), ("a*+a*+b", False), (r"\S+", True), ("(?:a|b)*c", False)],
)
def test_linear_expressions_are_accepted(pattern: str, anywhere: bool) -> None:
    assert not backtracking(pattern, anywhere=anywhere)


def test_no_expression_of_the_package_backtracks() -> None:
    uses, _ = collect()
    assert len(uses) > 100
    slow = {
        place: reason
        for place, use in uses.items()
        if (reason := backtracking(use.pattern, use.flags, anywhere=use.anywhere))
    }
    assert {place: reason for place, reason in slow.items() if place not in CLEARED} == {}
    assert set(CLEARED) <= set(slow), "no longer needed"


def test_expressions_of_variable_text_are_listed() -> None:
    _, dynamic = collect()
    assert set(DYNAMIC) == dynamic
