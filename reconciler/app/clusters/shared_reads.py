"""What the clusters of one run read together: each thing once, however many clusters need it."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

Value = TypeVar("Value")


class SharedReads:
    """Values that were read in this run, by key. It lives as long as the targets of one command."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def once(self, key: Hashable, read: Callable[[], Value]) -> Value:
        """The value of a key, read when it is needed for the first time. An error is not kept.

        Args:
            key: What is read, and from where.
            read: Reads it.
        """
        if key not in self._values:
            self._values[key] = read()
        value: Value = self._values[key]
        return value
