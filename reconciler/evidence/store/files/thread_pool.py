"""Processes several files at the same time, because object stores have a high latency per request."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

A = TypeVar("A")
B = TypeVar("B")

AT_ONCE: Final = 8
"""Number of files that are read at the same time."""


def each(work: Callable[[A], B], arguments: Sequence[A]) -> list[B]:
    """Apply ``work`` to the arguments concurrently; return the results in order, or raise the first error."""
    if len(arguments) < 2:
        return [work(argument) for argument in arguments]
    with ThreadPoolExecutor(min(AT_ONCE, len(arguments))) as pool:
        return list(pool.map(work, arguments))
