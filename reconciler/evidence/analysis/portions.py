"""Splits work into tasks of about equal numbers of rows."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from reconciler.evidence.analysis.engine import TASK_ROWS

T = TypeVar("T")


def portions(
    items: Iterable[T], rows_of: Callable[[T], int]
) -> Iterator[tuple[tuple[T, ...], int]]:
    """Yield consecutive items with about :data:`TASK_ROWS` rows, and that number.

    Args:
        rows_of: The number of rows that an item needs.
    """
    part: list[T] = []
    total = 0
    for item in items:
        need = rows_of(item)
        if part and total + need > TASK_ROWS:
            yield tuple(part), total
            part, total = [], 0
        part.append(item)
        total += need
    if part:
        yield tuple(part), total
