"""What may be said of a new limit where clients were held back: what a figure is to the truth, and which way a limit goes."""

from enum import StrEnum


class FigureBound(StrEnum):
    """What a figure is to the truth."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    BETWEEN = "between"
    """Of two figures one is the best case and the other one the worst."""


class LimitMove(StrEnum):
    """Which way a limit goes; no limit is above every limit."""

    TIGHTER = "tighter"
    EQUAL = "equal"
    LOOSER = "looser"


def move(before: int | None, after: int | None) -> LimitMove:
    """Which way a limit goes, in units; ``None`` = unlimited."""
    if before == after:
        return LimitMove.EQUAL
    if before is None:
        return LimitMove.TIGHTER
    return LimitMove.TIGHTER if after is not None and after < before else LimitMove.LOOSER
