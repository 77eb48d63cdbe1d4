"""A saved plan reads back equal; edited, truncated, foreign and newer ones are refused with their place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.codecs.plan import read_plan, saved_plan
from reconciler.errors import ConfigError, StalePlan
from reconciler.render.json_values import dump
from tests.render.previews import empty, sample

TEXT = dump(saved_plan(sample()))


def read(text: str):
    return read_plan(text, location="plan.json")


def test_changes_and_fallbacks_of_a_plan_read_back():
    result, expected = read(TEXT), sample()
    assert result.digest == expected.digest
    assert result.fallbacks == expected.fallbacks
    assert (result.created_at, result.origin, result.policy) == (
        expected.created_at,
        expected.origin,
        expected.policy,
    )
    for change, expected_change in zip(result.plan.changes, expected.plan.changes, strict=True):
        assert replace(change, claim=None, recorded=None) == replace(
            expected_change, claim=None, recorded=None
        )
        assert (change.claim is None) == (expected_change.claim is None)
        if change.claim is not None:
            assert change.claim.place(change.key) == expected_change.claim.place(
                expected_change.key
            )
            assert change.claim.document == expected_change.claim.document


def test_an_empty_plan_reads_back():
    assert read(dump(saved_plan(empty()))).plan.changes == ()


@given(st.integers(min_value=0))
def test_a_plan_truncated_at_any_place_is_refused(place):
    with pytest.raises(ConfigError, match=r"plan\.json: "):
        read(TEXT[: place % (len(TEXT) - 2)])


def test_another_format_is_stale_and_not_malformed():
    with pytest.raises(StalePlan, match="its format is 2"):
        read(TEXT.replace('"format": 1', '"format": 2'))


def test_another_kind_is_not_a_plan():
    with pytest.raises(ConfigError, match="not a kquota-plan document"):
        read('{"kind": "kquota-outcome", "format": 1}')


def edited(change) -> tuple[str, str]:
    """An edited plan as arbitrary JSON, and in the layout of the writer."""
    document = json.loads(TEXT)
    change(document)
    return json.dumps(document), dump(document)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["changes"][0].update(after=7), "edited"),
        (lambda d: d["changes"][0].update(entity=[["user", "mallory"]]), "edited"),
        (lambda d: d.update(clusterId="other"), "edited"),
        (lambda d: d["changes"].pop(), "edited"),
        (lambda d: d.update(digest="sha256:0"), "edited"),
        (lambda d: d["changes"][0].update(after=d["changes"][0]["before"]), r"changes\[0\]\.after"),
        (
            lambda d: d["changes"][0].update(actions=["remove"]),
            "unknown field 'actions'",
        ),
        (lambda d: d["changes"][0].update(key="x"), r"changes\[0\]\.key should be one of"),
        (lambda d: d["changes"][0].update(extra=1), "unknown field 'extra'"),
        (
            lambda d: d["changes"][1].pop("cause"),
            r"changes\[1\] should be an object with the field 'cause'",
        ),
        (lambda d: d.update(extra=1), "unknown field 'extra'"),
        (lambda d: d.pop("reliedOn"), "the field 'reliedOn'"),
        (lambda d: d["changes"][0]["owner"].update(since="now"), r"changes\[0\]\.owner\.since"),
        (lambda d: d.update(policy="Anything"), "policy should be one of"),
        (lambda d: d["counts"].pop("owned"), "the field 'owned'"),
        (lambda d: d["counts"].update(owned=1.5), "whole number"),
    ],
)
def test_an_edit_is_refused_with_its_place(change, words):
    for text in edited(change):
        with pytest.raises(ConfigError, match=words):
            read(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", 1),
        ("reason", None),
        ("level", "1"),
        ("note", None),
        ("line", "8"),
        ("file", 3),
        ("document", 4),
        ("before", "1"),
        ("after", True),
        ("key", ["producer_byte_rate"]),
        ("cause", None),
        ("entity", "user=alice"),
        ("entity", [["user", 1]]),
        ("entity", [["user", "a", "b"]]),
        ("owner", []),
        ("owner", {"document": 1, "deletionPolicy": None, "since": 1.0}),
        ("owner", {"document": "a", "deletionPolicy": "Never", "since": 1.0}),
        ("record", [1, 2]),
        ("record", {"value": 1, "document": 2}),
        ("record", {"value": "x", "document": "a"}),
        ("actions", "create"),
    ],
)
def test_a_field_of_a_change_with_another_type_is_refused(field, value):
    for text in edited(lambda document: document["changes"][1].update({field: value})):
        with pytest.raises(ConfigError, match=r"changes\[1\]"):
            read(text)


@pytest.mark.parametrize("twice", ['"line":1,"line":', '"impact": {"known": 1, '])
def test_a_repeated_name_is_refused(twice):
    name = twice.partition(":")[0]
    place = '"impact": {' if "impact" in twice else f"{name}:"
    with pytest.raises(ConfigError, match="is given twice"):
        read(TEXT.replace(place, twice, 1))
