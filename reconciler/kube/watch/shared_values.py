"""JSON whose equal parts are one object in memory.

Each object of the API server is parsed separately, so 5,000 of them would contain 5,000 copies of the key
``conditions`` and of each condition. Documents that were written in the same second have equal conditions, which are
two thirds of a cached document.
"""

from functools import lru_cache
from sys import intern
from typing import Any, Final

SHARED_CHARACTERS: Final = 64
"""Longer texts are rarely equal and are not shared."""

SHARED_CONDITIONS: Final = 1024
"""Number of recent conditions of which equal ones are shared; bounds what they occupy."""


def shared(value: Any) -> Any:  # noqa: ANN401 - JSON in, the same JSON out
    """Return equal JSON that shares its keys, short texts and conditions with earlier results; it must not be changed."""
    kind = type(value)
    if kind is str:
        return intern(value) if len(value) <= SHARED_CHARACTERS else value
    if kind is dict:
        items = {intern(key): shared(item) for key, item in value.items()}
        return _condition(*items.items()) if _is_condition(items) else items
    if kind is list:
        return [shared(item) for item in value]
    return value


def _is_condition(items: dict[str, Any]) -> bool:
    """Whether this is a condition of short texts and integers, so that an equal one has the same JSON."""
    return "lastTransitionTime" in items and all(
        type(item) is int or (type(item) is str and len(item) <= SHARED_CHARACTERS)
        for item in items.values()
    )


@lru_cache(maxsize=SHARED_CONDITIONS)
def _condition(*items: tuple[str, str | int]) -> dict[str, str | int]:
    return dict(items)
