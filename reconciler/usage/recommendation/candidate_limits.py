"""The search for the smallest sufficient limit, and the rounding of limits."""

from collections.abc import Callable
from typing import Final

LEAST_PART: Final = 8
"""No limit below this part of the peak is tried."""

PRECISION: Final = 128
"""A found limit is too large by less than this part of it."""


def smallest(peak: int, holds: Callable[[int], bool]) -> int | None:
    """Return the smallest limit that passes; ``None`` if not even one unit above the peak does, which only rounding can cause.

    Args:
        peak: Largest rate in units, above 0.
        holds: Whether a limit passes; must be true for every limit above a passing one.
    """
    if not holds(peak):
        return peak + 1 if holds(peak + 1) else None
    too_small, sufficient = peak // LEAST_PART, peak
    while sufficient - too_small > max(1, sufficient // PRECISION):
        middle = (too_small + sufficient) // 2
        if holds(middle):
            sufficient = middle
        else:
            too_small = middle
    return sufficient


def three_digits(value: int, *, up: bool) -> int:
    """Round to three significant digits, up or down."""
    step: int = 10 ** max(0, len(str(value)) - 3)
    return -(-value // step) * step if up else value // step * step
