import ast
import json
from pathlib import Path

import pytest

from reconciler.base import bounded_json
from reconciler.base.bounded_json import MOST_DEPTH, InvalidJson, parse

ROOT = Path(__file__).parents[2] / "reconciler"

READERS = {
    "base/bounded_json.py": "the reader itself",
    "manifest/schema.py": "a file of this package",
    "manifest/foreign/json_nodes.py": "one string that a regular expression has matched already",
}
"""Modules that call `json.loads`, with the reason."""


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value, line 1 column 1"),
        ("{", "line 1 column 2"),
        ('{"a": NaN}', "NaN is no JSON"),
        ("[Infinity]", "Infinity is no JSON"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"[1]" + b" " * 100, "more than 100 bytes"),
        ("[" + "[]," * 20 + "1]", "more than 25 items"),
        ("1" * 99, None),
        (nested(24), None),
    ],
)
def test_every_fault_raises_the_same_error_with_one_sentence(
    text: str | bytes, words: str | None
) -> None:
    if words is None:
        assert parse(text, most_bytes=100) == json.loads(text)
        return
    with pytest.raises(InvalidJson, match=words) as caught:
        parse(text, most_bytes=100)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("levels", [MOST_DEPTH + 2, 5_000, 200_000])
def test_json_that_is_nested_too_deep_is_refused(levels: int) -> None:
    for text in (nested(levels), '{"abc":' * levels + "1" + "}" * levels):
        with pytest.raises(InvalidJson, match="nested"):
            parse(text, most_bytes=bounded_json.DOCUMENT)


def test_json_of_usual_depth_is_read() -> None:
    assert parse(nested(MOST_DEPTH), most_bytes=10_000) == json.loads(nested(MOST_DEPTH))


def test_a_number_with_too_many_digits_is_refused() -> None:
    with pytest.raises(InvalidJson):
        parse("1" * 5_000, most_bytes=10_000)


def test_objects_are_built_by_the_callers_function() -> None:
    assert parse('{"a": 1, "a": 2}', most_bytes=100, pairs=tuple) == (("a", 1), ("a", 2))

    def refuse(pairs: object) -> object:
        raise ValueError("a name is given twice")

    with pytest.raises(InvalidJson, match="twice"):
        parse("{}", most_bytes=100, pairs=refuse)


def test_no_other_module_parses_json() -> None:
    readers = set()
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text if "json" in text else "")):
            match node:
                case ast.Attribute(value=ast.Name(id="json"), attr="loads" | "load"):
                    readers.add(str(path.relative_to(ROOT)))
                case ast.ImportFrom(module="json"):
                    readers.add(str(path.relative_to(ROOT)))
    assert readers == set(READERS)
