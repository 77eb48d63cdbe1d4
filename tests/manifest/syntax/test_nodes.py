"""Trees with positions: to JSON and back, and lookup of a path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifest.syntax.nodes import from_json, key_place, place, to_json
from reconciler.manifest.syntax.scalars import AmbiguousScalar
from tests.manifest.syntax.test_yaml_parser import reading

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


ROOT = reading("a: 1\nb:\n  - c: x\n    d: yes\n  - {e: [f]}\n")[0][0]


@pytest.mark.parametrize(
    ("path", "at", "key_at"),
    [
        ((), (1, 1), (1, 1)),
        (("a",), (1, 4), (1, 1)),
        (("b", 0, "c"), (3, 8), (3, 5)),
        (("b", 1, "e", 0), (5, 10), (5, 10)),
        (("b", 0, "missing"), (3, 5), (3, 5)),
        (("missing", "too"), (1, 1), (1, 1)),
    ],
)
def test_a_path_has_a_line_and_a_column(
    path: tuple[str | int, ...], at: tuple[int, int], key_at: tuple[int, int]
) -> None:
    assert place(ROOT, path) == at
    assert key_place(ROOT, path) == key_at
