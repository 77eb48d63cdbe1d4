"""JSON documents: equal facts give equal bytes; edited or truncated ones are refused with their place."""

import json
import math
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Struct, UnsetType

from reconciler.codecs.reader import DocumentReader, load, typed
from reconciler.errors import ConfigError
from reconciler.render.json_values import dump, value_json


def top(text: str) -> DocumentReader:
    return load(text, kind="thing", format_version=2, location="thing.json")


def good(**more: object) -> str:
    return dump({"kind": "thing", "format": 2, **more})


@given(st.floats(width=64))
def test_every_value_reads_back_bit_by_bit(value):
    text = json.dumps(value_json(value))
    back = DocumentReader(json.loads(text)).set_value()
    assert (
        math.isnan(back)
        if math.isnan(value)
        else (back, math.copysign(1, back)) == (value, math.copysign(1, value))
    )


@pytest.mark.parametrize(
    ("value", "read", "words"),
    [
        ({"a": "x"}, lambda r: r.fields("a")["a"].integer(), "a should be a whole number"),
        ({"a": True}, lambda r: r.fields("a")["a"].integer(), "a should be a whole number"),
        ({"a": 10**400}, lambda r: r.fields("a")["a"].number(), "a should be a smaller number"),
        (
            {"a": [1, "x"]},
            lambda r: [i.number() for i in r.fields("a")["a"].items()],
            r"a\[1\] should be a number",
        ),
        ({}, lambda r: r.fields("a"), "an object with the field 'a'"),
        ({"b": 1}, lambda r: r.fields(), "without the unknown field 'b'"),
        ({"a": 1}, lambda r: r.fields("a")["a"].text(), "a should be a string"),
        ({"a": 1}, lambda r: r.fields("a")["a"].boolean(), "a should be true or false"),
        ({"a": "x"}, lambda r: r.fields("a")["a"].choice({"y": 1}), "a should be one of y"),
        ({"a": "Nan"}, lambda r: r.fields("a")["a"].set_value(), "a should be a quota value"),
        ({"a": 1}, lambda r: next(next(iter(r.pairs()))[1].items()), r'\["a"\] should be an array'),
        ([], lambda r: r.fields("a"), "the document should be an object"),
        ([], lambda r: list(r.pairs()), "the document should be an object"),
    ],
)
def test_a_malformed_field_is_named_by_its_place(value, read, words):
    with pytest.raises(ConfigError, match=words):
        read(DocumentReader(value, location="thing.json"))


@pytest.mark.parametrize("levels", [250, 900, 5_000])
def test_a_value_nested_deeper_than_any_document_is_refused(levels):
    text = good(a=1).replace("1", "[" * levels + "]" * levels)
    with pytest.raises(ConfigError):
        top(text)["a"].expect([1])


# ---- documents with types --------------------------------------------------------------------


class Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    a_number: Annotated[int, Meta(ge=0)]
    word: Literal["x", "y"] = "x"


class Thing(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="thing"
):
    anything: dict[str, Any] | None = None
    format: Literal[2]
    later: str | UnsetType = UNSET
    named: dict[Literal["n"], int] = {}
    parts: list[Part]


def thing(text: str) -> Thing:
    return typed(text, Thing, format_version=2, location="thing.json")


THING = Thing(format=2, parts=[Part(1), Part(2, "y")], anything={"b": [1.5], "a": None})


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"kind": "other"}, "this is not a thing document but 'other'"),
        ({"format": 3}, "its format is 3; this kquota reads format 2"),
        ({"parts": 1}, "parts should be array, not int"),
        ({"parts": [{"aNumber": 1.5}]}, r"parts\[0\]\.aNumber should be int, not float"),
        ({"parts": [{"aNumber": -1}]}, r"parts\[0\]\.aNumber should be int >= 0"),
        ({"parts": [{}]}, r"parts\[0\] should be an object with the field 'aNumber'"),
        (
            {"parts": [{"aNumber": 1, "word": "a\n`b"}]},
            r"parts\[0\]\.word should be another word than 'a\\n`b', which is unknown",
        ),
        ({"more": 1}, "the document should be an object without the unknown field 'more'"),
        ({"a\nb`": 1}, r"the document should be an object without the unknown field 'a\\nb`'"),
        ({"named": {"m": 1}}, "a name in named should be another word than 'm'"),
        ({"named": {"n": "1"}}, r"named\[\.\.\.\] should be int, not str"),
        ({"parts": [{"aNumber": 1, "word": "\ud800"}]}, "it has a value that no document has"),
        ({"later": None}, "later should be str, not null"),
    ],
)
def test_an_edited_document_with_a_type_is_refused_at_its_place(edit, words):
    document = json.loads(dump(THING)) | edit
    for layout in (json.dumps, dump):
        with pytest.raises(ConfigError, match=rf"thing\.json: {words}") as caught:
            thing(layout(document))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ['"format": 2', '"aNumber":1', '"a": null'])
def test_a_name_that_is_given_twice_in_a_document_with_a_type_is_refused(place):
    text = dump(THING).replace(place, f"{place}, {place}", 1)
    with pytest.raises(ConfigError, match="is given twice"):
        thing(text)
