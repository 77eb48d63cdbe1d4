"""Which limits sizing tries: whole numbers from one table, so that every engine tries the same, and the search among them.

First round: ``ceil(peak * 2^(-k/8))``, k = 0..23, from the peak down to a seventh of it. Second: ten equal steps
between the smallest candidate that holds and the next one below, which are 9 % apart. A larger limit never throttles
more, so what holds, holds from some candidate upwards.
"""

from collections.abc import Callable, Sequence
from typing import Final

POWERS: Final = (100_000, 91_700, 84_090, 77_111, 70_711, 64_842, 59_460, 54_525)
"""2^(-k/8) in hundred-thousandths, k = 0..7: small enough for the largest rate to fit 64 bits."""

COARSE: Final = 24
FINE: Final = 10


def coarse(peak: int) -> tuple[int, ...]:
    """The first round, from the peak down; ``-(-a // b)`` rounds up. Small peaks repeat themselves.

    Args:
        peak: Largest rate in units, above 0.
    """
    eighths = len(POWERS)
    return tuple(
        -(-peak * POWERS[k % eighths] // (POWERS[0] << k // eighths)) for k in range(COARSE)
    )


def fine(below: int, holds: int) -> tuple[int, ...]:
    """The second round, ascending; the last is ``holds`` itself.

    Args:
        below: A candidate that does not hold.
        holds: The next larger one, which does.
    """
    return tuple(below - (below - holds) * step // FINE for step in range(1, FINE + 1))


def second_round(peak: int, holds: Callable[[int], bool]) -> tuple[int, ...]:
    """What the first round leaves to try, ascending; one that holds if nothing is left, none if nothing holds.

    Where the peak itself fails, which only its rounding can cause, that one unit more is tried.

    Args:
        peak: Largest rate in units, above 0.
        holds: Whether a limit of the first round keeps its promise; true for every limit above one for which it is.
    """
    first = coarse(peak)
    if not holds(first[0]):
        return (peak + 1,) if holds(peak + 1) else ()
    last = _last(first, holds)
    if last + 1 == len(first):
        return (first[last],)
    return fine(first[last + 1], first[last])


def smallest(peak: int, holds: Callable[[int], bool]) -> int | None:
    """The smallest candidate that holds; ``None`` if not even one unit above the peak does; arguments as above."""
    second = second_round(peak, holds)[::-1]
    return second[_last(second, holds)] if second else None


def _last(descending: Sequence[int], holds: Callable[[int], bool]) -> int:
    """Where the last candidate that holds stands; the first one does."""
    low, high = 0, len(descending)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(descending[middle]):
            low = middle
        else:
            high = middle
    return low


def three_digits(value: int, *, up: bool) -> int:
    """The nearest number with three significant digits that is not below (``up``), or not above."""
    step: int = 10 ** max(0, len(str(value)) - 3)
    return -(-value // step) * step if up else value // step * step
