"""Compact JSON and typed rows equal the output of the standard encoder, and the same values are refused."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.compact_json import compact, exact, lines
from reconciler.quota.keys import Key


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}])
def test_values_that_json_cannot_represent_are_refused(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        _ = compact()(value)


def test_without_the_encoder_in_c_the_text_is_the_same(monkeypatch):
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    assert (
        compact(sort_keys=True)({"b": (1, None), "a": "\u202e"}) == '{"a":"\\u202e","b":[1,null]}'
    )


class Row(msgspec.Struct, rename="camel"):
    a_name: str
    key: Key
    number: int | float | None
    inner: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET


TEXTS = st.text() | st.sampled_from(["", "\ud800", "\x7f", "\U0001f600", "a\n\u2028"])
NUMBERS = st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False).map(exact)
ROWS = st.builds(
    Row, TEXTS, st.sampled_from(Key), NUMBERS, st.just(msgspec.UNSET) | st.tuples(TEXTS)
)


@given(st.lists(ROWS))
def test_typed_rows_are_the_lines_of_the_standard_encoder(rows):
    expected = [
        json.dumps(
            {
                "aName": row.a_name,
                "key": row.key,
                "number": row.number,
                **({} if row.inner is msgspec.UNSET else {"inner": row.inner}),
            },
            separators=(",", ":"),
        )
        for row in rows
    ]
    assert lines(rows).decode("ascii").split("\n") == [*expected, ""]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["plain", "\u202e", "\ud800"])
def test_a_row_never_has_null_in_place_of_a_number_that_json_cannot_represent(name, value):
    with pytest.raises(ValueError, match="JSON compliant"):
        _ = lines([Row(name, Key.REQUEST_PERCENTAGE, exact(value))])
