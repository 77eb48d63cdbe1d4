"""Splits alterations into requests of at most ``MAX_OPERATIONS`` operations and 1 MB each. Pure.

A broker applies the valid entities of a request as one atomic batch of at most 10,000 records and 8 MiB
(QuorumController.MAX_RECORDS_PER_USER_OP, 3.5+); much smaller requests keep each response quick.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from reconciler.quota.outcome import MAX_OPERATIONS, Alteration, OpenAlteration

MAX_BYTES: Final = 1_000_000


def split_into_chunks(
    alterations: Sequence[Alteration | OpenAlteration], sizes: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield ``(start, end)`` of each chunk, in order; an entity is never split.

    Args:
        sizes: Encoded bytes of each.
    """
    start = operations = size = 0
    for at, alteration in enumerate(alterations):
        operation_count = len(alteration.operations)
        full = operations + operation_count > MAX_OPERATIONS or size + sizes[at] > MAX_BYTES
        if full and at > start:
            yield start, at
            start, operations, size = at, 0, 0
        operations += operation_count
        size += sizes[at]
    if start < len(alterations):
        yield start, len(alterations)


def halves(start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Split a chunk in two; return () for a single entity."""
    if end - start < 2:
        return ()
    middle = (start + end) // 2
    return (start, middle), (middle, end)
