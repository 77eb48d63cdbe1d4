"""The relation of a figure to the true value where clients were held back, and the direction in which a limit changes."""

from enum import StrEnum


class FigureBound(StrEnum):
    """The relation of a figure to the true value."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    BETWEEN = "between"
    """Of two figures one is the best case and the other the worst case."""


class LimitMove(StrEnum):
    """The direction in which a limit changes; no limit is above every limit."""

    TIGHTER = "tighter"
    EQUAL = "equal"
    LOOSER = "looser"


def move(before: int | None, after: int | None) -> LimitMove:
    """Return the direction of a change of a limit, in units; ``None`` = unlimited."""
    if before == after:
        return LimitMove.EQUAL
    if before is None:
        return LimitMove.TIGHTER
    return LimitMove.TIGHTER if after is not None and after < before else LimitMove.LOOSER
