"""The plain part of YAML is read as the parser of all YAML reads it, with the same places; the rest is left to that."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import Problem
from reconciler.manifest.syntax.block_reader import MOST_LEVELS, read_block
from reconciler.manifest.syntax.yaml_parser import (
    FORBIDDEN,
    DocumentText,
    NodeBudget,
    parse,
    pieces,
    read,
)

ROOT = Path(__file__).parents[3]
MANIFESTS = sorted((ROOT / "examples" / "quotas").rglob("*.yaml"))
DOCUMENTS = [path for path in MANIFESTS if "kind: List" not in path.read_text(encoding="utf-8")]

WORDS = st.sampled_from(
    [
        *(
            "a",
            "b-c",
            "1",
            "2.5",
            "1Ki",
            "a:b",
            "a: b",
            "a :b",
            "a #b",
            "a#b",
            "-",
            "- a",
            "~",
            "a  b",
        ),
        *(
            "'a'",
            '"a: #b"',
            '"a\\n"',
            "'it''s'",
            '"',
            "{a: b}",
            "{a: 'b'}",
            "{a: b:c}",
            "{a: b, c: d}",
        ),
        *(
            "{}",
            "[a]",
            "&x a",
            "*x",
            "!t a",
            "|",
            ">-",
            "? a",
            "é",
            '"é"',
            "%a",
            "@a",
            "`a`",
            "a,b",
        ),
        *("a ", ""),
    ]
)
KEYS = st.sampled_from(["a", "b", "c.d/e", "<<", "'a'", '"b"', "1", "?", "- a", "é", "a b", "y"])
COMMENTS = st.one_of(
    st.sampled_from(["", "", "", " ", " # é", "#", " #", "\t"]),
    st.characters().map(" # {}".format),
)
LINES = st.one_of(
    st.builds(
        lambda depth, key, between, value, comment: f"{' ' * depth}{key}{between}{value}{comment}",
        st.integers(0, 5),
        KEYS,
        st.sampled_from([": ", ": ", ": ", ":", ":  ", " : ", ":\t"]),
        WORDS,
        COMMENTS,
    ),
    st.sampled_from(["", "  ", "# a", "   # a: b", "---", "--- a: b", "...", "\t", "a", "  a"]),
)
TEXTS = st.lists(LINES, min_size=1, max_size=7).map("\n".join)


def assert_as_parsed(text: str, first_line: int = 3) -> None:
    block = read_block(text, first_line)
    if block is not None:
        assert FORBIDDEN.search(text) is None
        problems: list[Problem] = []
        budget = NodeBudget()
        documents = parse(DocumentText(text, first_line), "f", problems, budget)
        root, count = block
        assert (documents, problems) == ([root], [])
        assert count == budget.total - budget.remaining
        # The order of the fields is that of the file, too.
        assert str(documents) == str([root])


@given(TEXTS)
@example("a: b\n  c: d")
@example("a:\nb: c")
@example("a:\n # c\n    b: d\n  e: f")
@example("a: {b: c}\na: d")
@example("  a: b\nc: d")
@example("a: b # \x85")
@example("a: '\u2028'")
def test_what_is_read_is_what_the_parser_reads(text):
    assert_as_parsed(text)


@given(st.data())
def test_a_manifest_with_any_line_or_character_changed_is_read_as_the_parser_reads_it(data):
    text = data.draw(st.sampled_from(MANIFESTS)).read_text(encoding="utf-8")
    at = data.draw(st.integers(0, len(text)))
    changed = data.draw(st.sampled_from(["", " ", "\n", ":", "#", "'", "-", "{", "}", "a", "\n  "]))
    until = at + data.draw(st.integers(0, 3))
    for piece in pieces(text[:at] + changed + text[until:]):
        assert_as_parsed(*piece)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_manifests_of_the_examples_are_read_without_the_parser(path):
    assert all(read_block(*piece) for piece in pieces(path.read_text(encoding="utf-8")))


def test_a_document_with_more_nodes_than_are_left_is_reported_by_the_parser():
    problems: list[Problem] = []
    assert not read(DocumentText("a: b\nc: d\n", 1), "f", problems, NodeBudget(file=4, total=4))
    assert [problem.line for problem in problems] == [2]


def test_deep_nesting_is_left_to_the_parser():
    levels = "\n".join(f"{' ' * depth}a:" for depth in range(MOST_LEVELS + 2)) + " b"
    assert read_block(levels, 1) is None
    assert_as_parsed("\n".join(f"{' ' * depth}a:" for depth in range(MOST_LEVELS)) + " b")
