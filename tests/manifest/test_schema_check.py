"""The interpreter of schema words: each word says yes and no as JSON Schema does."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reconciler.manifest import schema_check
from reconciler.manifest.schema_check import ambiguous_keys, fits, matching
from tests.manifest.syntax.test_yaml_parser import reading

WORDS: tuple[tuple[dict[str, Any], tuple[Any, ...], tuple[Any, ...]], ...] = (
    ({"type": "string"}, ("", "a"), (1, None, True, [], {})),
    ({"type": "integer"}, (0, -1, 10**30), (True, "1", None)),
    ({"type": "number"}, (0, 0.5), (True, "1")),
    ({"type": "boolean"}, (True, False), (0, 1, "true")),
    ({"type": ["integer", "string"]}, (1, "a"), (True, None, 0.5)),
    ({"type": "object"}, ({},), ([], None)),
    ({"type": "array"}, ([],), ({}, "a")),
    ({"const": "a"}, ("a",), ("b", None)),
    ({"enum": [True]}, (True,), (1, "true", False)),
    ({"required": ["a"]}, ({"a": None}, 5, []), ({}, {"b": 1})),
    ({"properties": {"a": {"type": "string"}}}, ({"a": "x"}, {"b": 1}, {}, 5), ({"a": 1},)),
    ({"properties": {"a": {}}, "additionalProperties": False}, ({"a": 1}, {}, 5), ({"b": 1},)),
    ({"additionalProperties": {"type": "string"}}, ({"a": "x"}, {}), ({"a": 1},)),
    ({"items": {"type": "string"}}, ([], ["a"], 5), ([1], ["a", 1])),
    ({"pattern": "^a$"}, ("a", 5), ("b", "aa")),
    ({"minLength": 1}, ("a", 5), ("",)),
    ({"maxLength": 2}, ("ab", "", 500), ("abc",)),
    ({"minItems": 1}, ([1], "a"), ([],)),
    ({"maxItems": 1}, ([1], []), ([1, 2],)),
    ({"minProperties": 1}, ({"a": 1},), ({},)),
    ({"maxProperties": 1}, ({"a": 1}, {}), ({"a": 1, "b": 2},)),
    ({"minimum": 1}, (1, 2.5, "a"), (0, 0.5)),
    ({"maximum": 1}, (1, 0.5, "a"), (2,)),
    ({"exclusiveMinimum": 0}, (0.1, 1), (0, -1)),
    ({"uniqueItems": True}, ([1, 2], [], ["a", 1]), (["a", "a"],)),
    ({"$schema": "x", "$id": "y", "title": "t", "description": "d"}, (1, "a", None), ()),
)


@pytest.mark.parametrize(("schema", "good", "bad"), WORDS)
def test_a_word_says_yes_and_no_as_jsonschema_does(
    schema: dict[str, Any], good: tuple[Any, ...], bad: tuple[Any, ...]
) -> None:
    judge = Draft202012Validator(
        {name: one for name, one in schema.items() if not name.startswith("$")}
    )
    assert [(one, fits(schema, one), judge.is_valid(one)) for one in good] == [
        (one, True, True) for one in good
    ]
    assert [(one, fits(schema, one), judge.is_valid(one)) for one in bad] == [
        (one, False, False) for one in bad
    ]


def test_every_word_of_the_interpreter_is_in_the_table() -> None:
    assert {word for schema, _, _ in WORDS for word in schema} == set(schema_check._WORDS)


def test_a_pattern_ends_where_the_text_ends_as_on_the_api_server() -> None:
    assert fits({"pattern": "^a$"}, "a")
    assert not fits({"pattern": "^a$"}, "a\n")
    assert fits({"pattern": "a"}, "ba\n")


def test_a_word_that_nobody_taught_it_is_an_error_and_not_a_yes() -> None:
    with pytest.raises(KeyError):
        fits({"multipleOf": 2}, 3)


def test_a_path_with_stars_meets_every_item() -> None:
    document = {"a": [{"b": 1}, {"c": 2}, {"b": 3}], "b": {"b": 4}}
    assert list(matching(document, ("a", "*", "b"))) == [(("a", 0, "b"), 1), (("a", 2, "b"), 3)]
    assert list(matching(document, ("a", "b"))) == []
    assert list(matching(document, ("b", "*"))) == []


def test_keys_that_readers_disagree_on_are_found_but_not_in_what_is_ignored() -> None:
    (root,), _ = reading(
        "metadata: {labels: {on: a, 'on ': b, x: c}, managedFields: {1: a}}\nstatus: {yes: a}\n"
    )
    assert list(ambiguous_keys(root)) == [("metadata", "labels", "on")]
