"""Equal parts of parsed objects are one object, and the JSON stays the same."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.api.custom_resources import (
    shared,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
CONDITIONS = st.fixed_dictionaries(
    {"lastTransitionTime": st.sampled_from(["2026-01-01T00:00:00Z", "", 1, True, 1.0])},
    optional={"observedGeneration": st.sampled_from([0, 1, True, False, 1.0]), "status": SCALARS},
)
VALUES = st.recursive(
    SCALARS | CONDITIONS,
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=20,
)


@given(st.lists(VALUES, max_size=5))
def test_shared_values_have_the_same_json(values: list[Any]) -> None:
    for value in values:
        assert json.dumps(shared(value)) == json.dumps(value)
