"""Strict YAML: what is refused, with its exact position; splitting a file at its markers changes nothing."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import Problem
from reconciler.manifest.syntax import yaml_parser
from reconciler.manifest.syntax.nodes import Json, Node, to_json
from reconciler.manifest.syntax.yaml_parser import (
    MAX_ALIASED_NODES,
    PARSER,
    DocumentText,
    pieces,
    read,
)


def reading(text: str) -> tuple[list[Node], list[Problem]]:
    problems: list[Problem] = []
    nodes = [node for piece in pieces(text) for node in read(piece, "f", problems)]
    return nodes, problems


REFUSED = {
    "a key twice": ("a: 1\nb: 2\na: 3\n", 3, 1, "key 'a' is given twice, first on line 1"),
    "a key twice in a flow mapping": (
        "x: {a: 1, b: 2, a: 3}\n",
        1,
        17,
        "is given twice, first on line 1",
    ),
    "a key twice, once in quotes": ('a: 1\n"a": 2\n', 2, 1, "is given twice"),
    "a tag": ("a: !!str 1\n", 1, 4, "tags are not used"),
    "a local tag": ("a: !x {b: c}\n", 1, 4, "tags are not used"),
    "a tag on a list": ("- !!seq [a]\n", 1, 3, "tags are not used"),
    "a merge key": ("a: &x {b: c}\nd:\n  <<: *x\n", 3, 3, "merge keys"),
    "a mapping as key": ("? {a: b}\n: c\n", 1, 3, "a key must be a plain name"),
    "an alias without anchor": ("a: *x\n", 1, 4, ""),
    "an alias inside its anchor": ("a: &x\n  b: *x\n", 2, 6, "its own anchor"),
    "a version directive": ("%YAML 1.1\n---\na: b\n", 1, 1, "directives"),
    "a tag directive": ("%TAG ! tag:x,2000:\n---\na: b\n", 1, 1, "directives"),
    "an unclosed bracket": ("a: [1\n", 2, 1, "not YAML"),
    "an unclosed quote": ('a: "b\n', 2, 1, "while scanning a quoted scalar from line 1"),
    "a tab as indent": (
        "a:\n\tb: c\n",
        2,
        1,
        "a tab is before the text; only blanks may indent it",
    ),
    "a second document without a marker": (
        "apiVersion: a\napiVersion: b\n",
        2,
        1,
        "given twice, first on line 1; a line --- separates documents",
    ),
    "two values on a line": ("a: b: c\n", 1, 5, "not YAML"),
    "a control character": ("a: b\nc: \x07d\n", 2, 4, r"U+0007 is not allowed in YAML; write \x07"),
    "a next-line character": ("a: b\x85c\n", 1, 5, r"write \x85 in double quotes"),
    "a line separator": ("a: b\nc: d\u2028e\n", 2, 5, r"write \u2028 in double quotes"),
    "a lone carriage return": ("a: b\rc: d\n", 1, 5, "; end lines with a line feed, or"),
    "a byte order mark inside": ("a: b\ufeff\n", 1, 5, "U+FEFF"),
    "half a surrogate pair": ("a: \ud800\n", 1, 4, "U+D800"),
}


@pytest.mark.parametrize(("text", "line", "column", "words"), REFUSED.values(), ids=REFUSED)
def test_yaml_that_readers_interpret_differently_is_refused_with_its_place(
    text: str, line: int, column: int, words: str
) -> None:
    _, problems = reading(text)
    assert (problems[0].line, problems[0].column) == (line, column), problems
    assert words in problems[0].message


@pytest.mark.parametrize(
    ("text", "line", "column"), [row[:3] for row in REFUSED.values() if not row[0].startswith("%")]
)
def test_line_numbers_count_from_the_start_of_the_file(text: str, line: int, column: int) -> None:
    _, problems = reading("---\nfirst: document\n---\n" + text)
    assert (problems[0].line, problems[0].column) == (line + 3, column)


def test_a_syntax_error_affects_one_document_and_not_the_rest() -> None:
    nodes, problems = reading("a: [\n---\nb: 1\n---\nc: }\n---\nd: 2\n")
    assert [to_json(node) for node in nodes] == [{"b": 1}, {"d": 2}]
    assert [problem.line for problem in problems] == [2, 5]


def test_anchors_that_expand_too_far_are_refused_before_anything_is_built() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    _, problems = reading("\n".join(lines))
    assert str(MAX_ALIASED_NODES) in problems[0].message


def test_deep_nesting_is_refused() -> None:
    _, problems = reading("[" * 40 + "]" * 40)
    assert "levels deep" in problems[0].message


def test_empty_documents_are_skipped() -> None:
    nodes, problems = reading("---\n# only a comment\n---\n\n---\na: b\n")
    assert not problems
    assert [to_json(node) for node in nodes] == [{"a": "b"}]


def test_a_byte_order_mark_at_the_start_is_skipped() -> None:
    nodes, problems = reading("\ufeffa: b\n")
    assert not problems
    assert to_json(nodes[0]) == {"a": "b"}


def test_windows_line_ends_are_accepted() -> None:
    nodes, problems = reading("a: b\r\n---\r\nc: d\r\ne: !x f\r\n")
    assert [to_json(node) for node in nodes] == [{"a": "b"}, {"c": "d", "e": "f"}]
    assert [problem.line for problem in problems] == [4]


def test_the_c_parser_is_used_if_available() -> None:
    assert PARSER.__name__ == "CParser"


@pytest.mark.parametrize(("text", "line", "column", "words"), REFUSED.values(), ids=REFUSED)
def test_the_parser_without_libyaml_refuses_the_same(
    monkeypatch: pytest.MonkeyPatch, text: str, line: int, column: int, words: str
) -> None:
    monkeypatch.setattr(yaml_parser, "PARSER", yaml_parser._PythonYamlParser)
    _, problems = reading(text)
    assert problems
    if "not YAML" not in words:
        assert (problems[0].line, problems[0].column) == (line, column)


# ---- the cut at document markers ------------------------------------------------------------

fragments = st.sampled_from(
    [
        "---\n",
        "--- a\n",
        "---",
        "\n",
        "a: b\n",
        "  c: d\n",
        "- e\n",
        "'x\n",
        "y'\n",
        '"',
        "|\n",
        "a: |\n",
        "  ---\n",
        " ---\n",
        "# ---\n",
        "...\n",
        "{",
        "}",
        "[",
        "a: >-\n",
        "--\n",
        "----\n",
        "---#\n",
        "\t",
        "%YAML 1.1\n",
        "&a ",
        "*a\n",
    ]
)
yaml_like = st.lists(fragments, max_size=12).map("".join)


def documents_of(text: str) -> list[Json] | None:
    problems: list[Problem] = []
    nodes = read(DocumentText(text, 1), "f", problems)
    return None if problems else [to_json(node) for node in nodes]


@given(yaml_like)
def test_a_file_split_at_its_markers_contains_the_same_documents(text: str) -> None:
    nodes, problems = reading(text)
    assert (None if problems else [to_json(node) for node in nodes]) == documents_of(text)


@given(yaml_like)
def test_pieces_together_equal_the_text_and_have_their_line_numbers(text: str) -> None:
    cut = list(pieces(text))
    assert "".join(piece.text for piece in cut) == text
    line = 1
    for piece in cut:
        assert piece.line == line
        line += piece.text.count("\n")


@given(yaml_like)
def test_the_parser_returns_the_same_as_pyyaml(text: str) -> None:
    documents = documents_of(text)
    if documents is not None:
        expected = [document for document in yaml.load_all(text, yaml.CBaseLoader) if document]
        assert [document for document in map(_as_text, documents) if document] == expected


def _as_text(value: object) -> object:
    match value:
        case dict():
            return {key: _as_text(child) for key, child in value.items()}
        case list():
            return [_as_text(child) for child in value]
        case None:
            return ""
        case _:
            return value
