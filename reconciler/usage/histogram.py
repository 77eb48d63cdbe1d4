"""The buckets of integer histograms that merge by addition: bounds grow by 2^(1/32), weights are whole milliseconds.

For reports only; sizing reads the series. Bucket 0 is zero. Bucket i contains the whole numbers x with
BOUNDS[i-1] <= x < BOUNDS[i], where BOUNDS[n] is the smallest whole number not below 2^(n/32). For a whole number that
is i = 1 + floor(32 * log2(x)), but logarithms differ between machines at the bounds: an implementation must correct its
estimate against BOUNDS. Low buckets without a whole number stay empty.
"""

from math import isqrt
from typing import Final

from reconciler.usage.samples import MAX_UNITS

STEPS: Final = 32
"""Buckets per doubling: a bucket is at most 2.2 % wide."""


def _root_up(power: int) -> int:
    """Return the smallest whole number not below 2^(power/32): five exact integer square roots."""
    value = 1 << power
    root = value
    for _ in range(5):
        root = isqrt(root)
    return root if root**STEPS == value else root + 1


def _bounds() -> tuple[int, ...]:
    upper_bounds: list[int] = []
    while not upper_bounds or upper_bounds[-1] <= MAX_UNITS:
        upper_bounds.append(_root_up(len(upper_bounds)))
    return tuple(upper_bounds)


BOUNDS: Final = _bounds()
"""The lowest whole number of each bucket from 1 on, and one more above the largest rate."""
