"""Several files at the same time: object stores answer slowly, one by one."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

A = TypeVar("A")
B = TypeVar("B")

AT_ONCE: Final = 8
"""Files that are read at the same time."""


def each(work: Callable[[A], B], arguments: Sequence[A]) -> list[B]:
    """The results in order, several made at the same time; the first error is raised."""
    if len(arguments) < 2:
        return [work(argument) for argument in arguments]
    with ThreadPoolExecutor(min(AT_ONCE, len(arguments))) as pool:
        return list(pool.map(work, arguments))
