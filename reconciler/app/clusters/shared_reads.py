"""Values that several clusters of one run share, each read once."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")


class SharedReads:
    """Values that were read in this run, by key. Lives as long as the targets of one command."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def once(self, key: Hashable, read: Callable[[], Value]) -> Value:
        """Return the value of a key, read on first use. An error is not stored.

        ``key``: what is read, and from where.
        """
        if key not in self._values:
            self._values[key] = read()
        value: Value = self._values[key]
        return value
