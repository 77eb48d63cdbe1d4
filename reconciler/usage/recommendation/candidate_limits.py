"""The limits that sizing tries, derived from one integer table so that all implementations try the same, and the search among them.

First round: ``ceil(peak * 2^(-k/8))``, k = 0..23, from the peak down to a seventh of it. Second: ten equal steps
between the smallest candidate that passes and the next one below, which are 9 % apart. A larger limit never throttles
more, so all candidates above a passing one pass.
"""

from collections.abc import Callable, Sequence
from typing import Final

POWERS: Final = (100_000, 91_700, 84_090, 77_111, 70_711, 64_842, 59_460, 54_525)
"""2^(-k/8) in hundred-thousandths, k = 0..7: small enough for the largest rate to fit 64 bits."""

COARSE: Final = 24
FINE: Final = 10


def coarse(peak: int) -> tuple[int, ...]:
    """Return the first round, from the peak down; ``-(-a // b)`` rounds up. Small peaks give duplicates.

    Args:
        peak: Largest rate in units, above 0.
    """
    eighths = len(POWERS)
    return tuple(
        -(-peak * POWERS[k % eighths] // (POWERS[0] << k // eighths)) for k in range(COARSE)
    )


def fine(below: int, holds: int) -> tuple[int, ...]:
    """Return the second round, ascending; the last is ``holds`` itself.

    Args:
        below: A candidate that fails.
        holds: The next larger one, which passes.
    """
    return tuple(below - (below - holds) * step // FINE for step in range(1, FINE + 1))


def second_round(peak: int, holds: Callable[[int], bool]) -> tuple[int, ...]:
    """Return the candidates left by the first round, ascending; only one if none is between, none if all fail.

    If the peak itself fails, which only its rounding can cause, one unit more is tried.

    Args:
        peak: Largest rate in units, above 0.
        holds: Whether a limit passes; must be true for every limit above a passing one.
    """
    first = coarse(peak)
    if not holds(first[0]):
        return (peak + 1,) if holds(peak + 1) else ()
    last = _last(first, holds)
    if last + 1 == len(first):
        return (first[last],)
    return fine(first[last + 1], first[last])


def smallest(peak: int, holds: Callable[[int], bool]) -> int | None:
    """Return the smallest candidate that passes; ``None`` if even one unit above the peak fails. Arguments as for :func:`second_round`."""
    second = second_round(peak, holds)[::-1]
    return second[_last(second, holds)] if second else None


def _last(descending: Sequence[int], holds: Callable[[int], bool]) -> int:
    """Return the index of the last candidate that passes; the first one does."""
    low, high = 0, len(descending)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(descending[middle]):
            low = middle
        else:
            high = middle
    return low


def three_digits(value: int, *, up: bool) -> int:
    """Round to three significant digits, up or down."""
    step: int = 10 ** max(0, len(str(value)) - 3)
    return -(-value // step) * step if up else value // step * step
