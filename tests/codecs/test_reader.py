"""JSON documents: equal facts give equal bytes; edited or truncated ones are refused with their place."""

import json
import math
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, Struct, UnsetType

from reconciler.codecs.reader import typed
from reconciler.errors import ConfigError
from reconciler.render.json_values import dump, read_value, value_json


@given(st.floats(width=64))
def test_every_value_reads_back_bit_by_bit(value):
    back = read_value(json.loads(json.dumps(value_json(value))))
    assert back is not None
    assert (
        math.isnan(back)
        if math.isnan(value)
        else (back, math.copysign(1, back)) == (value, math.copysign(1, value))
    )


def test_a_value_nested_deeper_than_any_document_is_refused():
    with pytest.raises(ConfigError, match="nested"):
        thing(dump(THING).replace("1.5", "[" * 100_000 + "]" * 100_000))


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
    tables: dict[str, dict[str, int]] = {}


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
        ({"named": {"n": "1"}}, r"named\.n should be int, not str"),
        (
            {"tables": {"a": {}, "b.c": {"d": 1, "e": ""}}},
            r"tables\.b\.c\.e should be int, not str",
        ),
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
