"""Equal parts of parsed objects are one object, and the JSON stays the same."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.api.custom_resources import (
    SHARED_ITEMS,
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


def test_equal_limits_share_one_object_and_their_order_stays() -> None:
    texts = (
        '{"producerByteRate": 1024, "consumerByteRate": "20Mi"}',
        '{"consumerByteRate": "20Mi", "producerByteRate": 1024}',
    )
    first, same, turned = (shared(json.loads(text)) for text in (texts[0], *texts))
    assert first is same
    assert list(turned) == ["consumerByteRate", "producerByteRate"]


def test_a_map_of_many_labels_is_not_cached_for_sharing() -> None:
    """Else a namespace could fill the memory of the operator by labels that it changes again and again."""
    labels = {f"label-{number}": "" for number in range(SHARED_ITEMS + 1)}
    assert shared(labels) is not shared(labels)
