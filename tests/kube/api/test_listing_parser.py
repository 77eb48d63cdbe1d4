"""A listing that is parsed while it is received equals the listing that is parsed at once."""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.api.listing_parser import ITEMS, LARGEST_OBJECT, ListingParser

texts = st.text(max_size=8) | st.sampled_from([ITEMS, "]", "}],", "\\", '"', "ü😀", "\ud7ff"])
objects = st.fixed_dictionaries(
    {"metadata": st.dictionaries(texts, texts, max_size=2)},
    optional={"spec": st.dictionaries(texts, st.integers() | st.lists(texts, max_size=2))},
)


def encoded(items: list[Any], metadata: Mapping[str, Any], *, order: int = 1) -> bytes:
    answer = {"items": items, "kind": "List", "metadata": metadata}
    text = json.dumps(dict([*answer.items()][::order]), separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def parsed(body: bytes, size: int) -> tuple[list[dict[str, Any]], str] | None:
    parser = ListingParser(lambda obj: obj)
    for begin in range(0, len(body), size):
        parser.feed(body[begin : begin + size])
    return parser.listing()


@given(
    st.lists(objects, max_size=4), st.integers(1, 40), st.sampled_from([1, -1]), st.integers(0, 60)
)
def test_the_objects_are_the_same_wherever_a_response_is_divided(
    items: list[Any], size: int, order: int, cut: int
) -> None:
    body = encoded(items, {"resourceVersion": "5"}, order=order)
    assert parsed(body, size) == (items, "5")
    assert cut == 0 or parsed(body[: -1 - cut], size) is None


def test_only_the_kept_part_of_an_object_is_kept_without_managed_fields() -> None:
    obj = {"metadata": {"name": "a", "managedFields": [1]}, "spec": {}}
    parser = ListingParser(lambda item: item["metadata"])
    parser.feed(encoded([obj], {"resourceVersion": "5"}))
    assert parser.listing() == ([{"name": "a"}], "5")


def test_an_object_that_is_too_large_is_not_collected() -> None:
    def with_text(length: int) -> bytes:
        return encoded([{"a": "x" * length}], {"resourceVersion": "5"})

    assert parsed(with_text(LARGEST_OBJECT // 2), 1 << 18) is not None
    assert parsed(with_text(LARGEST_OBJECT * 2), 1 << 18) is None
