"""JSON documents: equal facts give equal bytes; edited or truncated ones are refused with their place."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.codecs.reader import DocumentReader, load
from reconciler.errors import ConfigError
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.entity_forms import entity_json
from reconciler.render.json_values import dump, value_json


def top(text: str) -> DocumentReader:
    return load(text, kind="thing", format_version=2, location="thing.json")


def good(**more: object) -> str:
    return dump({"kind": "thing", "format": 2, **more})


def test_equal_values_are_written_as_equal_bytes():
    document = {"b": {"y": 1, "x": []}, "a": "ü\u202e", "c": [{"z": 1, "k": [1]}, 2]}
    assert dump(document) == (
        '{\n  "a": "\\u00fc\\u202e",\n  "b": {"x": [], "y": 1},\n'
        '  "c": [\n    {"k":[1],"z":1},\n    2\n  ]\n}\n'
    )
    assert dump({}) == "{\n\n}\n"


@given(st.floats(width=64))
def test_every_value_reads_back_bit_by_bit(value):
    text = json.dumps(value_json(value))
    back = DocumentReader(json.loads(text)).quota_value()
    assert back is not None
    assert (
        math.isnan(back)
        if math.isnan(value)
        else (back, math.copysign(1, back)) == (value, math.copysign(1, value))
    )


@pytest.mark.parametrize("name", ["alice", "", "<default>", "\ud800", DEFAULT])
def test_entities_read_back_and_remain_distinct(name):
    subject = entity(user=name, client_id="c")
    assert DocumentReader(json.loads(json.dumps(entity_json(subject)))).entity() == subject


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a complete JSON document"),
        (good(a=1)[:-4], "not a complete JSON document"),
        ('{"kind": "thing", "format": 2, "format": 2}', "'format' is given twice"),
        ('{"kind": "thing", "format": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "not a complete JSON document"),
        ("[]", "not a thing document"),
        ('{"kind": "other", "format": 2}', "not a thing document but 'other'"),
        ('{"kind": "thing", "format": 3}', "format is 3; this kquota reads format 2"),
        ('{"kind": "thing"}', "format is None"),
    ],
)
def test_incomplete_or_foreign_documents_are_refused(text, words):
    with pytest.raises(ConfigError, match=words) as caught:
        top(text)
    assert str(caught.value).startswith("thing.json: ")


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
        ({"a": "Nan"}, lambda r: r.fields("a")["a"].quota_value(), "a should be a quota value"),
        ({"a": [["user", 1]]}, lambda r: r.fields("a")["a"].entity(), r"a\[0\] should be a pair"),
        (
            {"a": [["group", "x"]]},
            lambda r: r.fields("a")["a"].entity(),
            "a should be an entity: .*unknown",
        ),
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


def test_a_document_of_more_than_64_mebibytes_is_read():
    """A plan of 150,000 changes is so large."""
    text = "x" * (65 << 20)
    assert top(good(text=text))["text"].text() == text
