"""Equal parts of parsed objects are one object, and the JSON stays the same."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.api.shared_values import (
    SHARED_CHARACTERS,
    SHARED_ITEMS,
    SHARED_OBJECTS,
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


def condition(message: str = "in sync", *, second: int = 0) -> dict[str, Any]:
    """A parsed condition: none of its parts is shared."""
    text = json.dumps(
        {
            "type": "Ready",
            "status": "True",
            "reason": "Synced",
            "message": message,
            "observedGeneration": 1,
            "lastTransitionTime": f"2026-01-01T00:00:{second:06}Z",
        }
    )
    return dict(json.loads(text))


@given(st.lists(VALUES, max_size=5))
def test_shared_values_have_the_same_json(values: list[Any]) -> None:
    for value in values:
        assert json.dumps(shared(value)) == json.dumps(value)


def test_equal_conditions_of_two_documents_share_one_object() -> None:
    first, second = (shared({"status": {"conditions": [condition()]}}) for _ in range(2))
    assert first["status"]["conditions"][0] is second["status"]["conditions"][0]
    assert first["status"]["conditions"] is not second["status"]["conditions"]


def test_equal_limits_share_one_object_and_their_order_stays() -> None:
    texts = (
        '{"producerByteRate": 1024, "consumerByteRate": "20Mi"}',
        '{"consumerByteRate": "20Mi", "producerByteRate": 1024}',
    )
    first, same, turned = (shared(json.loads(text)) for text in (texts[0], *texts))
    assert first is same
    assert list(turned) == ["consumerByteRate", "producerByteRate"]


def test_a_condition_with_a_long_message_is_not_shared() -> None:
    long = "x" * (SHARED_CHARACTERS + 1)
    assert shared(condition(long)) is not shared(condition(long))


def test_a_map_of_many_labels_is_not_cached_for_sharing() -> None:
    """Else a namespace could fill the memory of the operator by labels that it changes again and again."""
    labels = {f"label-{number}": "" for number in range(SHARED_ITEMS + 1)}
    assert shared(labels) is not shared(labels)


def test_only_recent_objects_are_cached_for_sharing() -> None:
    oldest = shared(condition())
    for second in range(1, SHARED_OBJECTS + 1):
        _ = shared(condition(second=second))
    assert shared(condition()) is not oldest
