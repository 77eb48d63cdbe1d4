"""Trees with positions: to JSON and back, and lookup of a path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifest.syntax.nodes import from_json, to_json
from reconciler.manifest.syntax.scalars import AmbiguousScalar

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.text(max_size=5),
        st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0),
    ),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3)
    ),
    max_leaves=10,
)


@given(json_values)
def test_json_converted_to_a_tree_and_back_is_unchanged(value: object) -> None:
    assert to_json(from_json(value)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_an_invalid_number_becomes_a_scalar_that_no_field_accepts(value: float) -> None:
    assert isinstance(to_json(from_json(value)), AmbiguousScalar)


def test_a_value_without_a_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="set has no JSON form"):
        from_json({"a": {1}})
