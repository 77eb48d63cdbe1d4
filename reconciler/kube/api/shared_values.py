"""JSON whose equal parts are one object in memory.

Each object of the API server is parsed separately, so 5,000 of them would contain 5,000 copies of the key
``conditions``, of the reference to their cluster, and of each condition. Documents that were written in the same second
have equal conditions, and documents of one tier equal limits, which are two thirds of a cached document.
"""

from functools import lru_cache
from sys import intern
from typing import Any, Final

SHARED_CHARACTERS: Final = 64
"""Longer texts are rarely equal and are not shared."""

SHARED_OBJECTS: Final = 1024
"""Number of recent objects of which equal ones are shared; bounds, with their size, what they occupy."""

SHARED_ITEMS: Final = 16
"""Objects with more items are not shared: their authors could fill the memory with labels that change again and again."""


def shared(value: Any) -> Any:  # noqa: ANN401 - JSON in, the same JSON out
    """Return equal JSON that shares keys, short texts and small objects with earlier results; it must not be changed."""
    kind = type(value)
    if kind is str:
        return intern(value) if len(value) <= SHARED_CHARACTERS else value
    if kind is dict:
        items = {intern(key): shared(item) for key, item in value.items()}
        is_shared = len(items) <= SHARED_ITEMS and all(map(_is_small, items.values()))
        return _object(*items.items()) if is_shared else items
    if kind is list:
        return [shared(item) for item in value]
    return value


def _is_small(value: object) -> bool:
    """Whether equal values are the same JSON: short texts and integers, but not 1, 1.0 and true."""
    return type(value) is int or (type(value) is str and len(value) <= SHARED_CHARACTERS)


@lru_cache(maxsize=SHARED_OBJECTS)
def _object(*items: tuple[str, str | int]) -> dict[str, str | int]:
    return dict(items)
