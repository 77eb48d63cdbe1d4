"""Compact JSON equals the output of the standard encoder, and the same values are refused."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.compact_json import compact
from reconciler.quota.keys import Key

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(list(Key)),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans())
def test_the_encoder_writes_the_same_text_as_the_standard_encoder(value, sort_keys):
    assert compact(sort_keys=sort_keys)(value) == json.dumps(
        value, separators=(",", ":"), sort_keys=sort_keys, allow_nan=False
    )


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}])
def test_values_that_json_cannot_represent_are_refused(value):
    with pytest.raises(ValueError, match="JSON compliant"):
        _ = compact()(value)


def test_without_the_encoder_in_c_the_text_is_the_same(monkeypatch):
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    assert (
        compact(sort_keys=True)({"b": (1, None), "a": "\u202e"}) == '{"a":"\\u202e","b":[1,null]}'
    )
