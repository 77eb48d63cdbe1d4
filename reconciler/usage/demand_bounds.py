"""Censoring: a throttled client records less than it wants. When that is so, and what then may be said of a new limit."""

from enum import StrEnum

from reconciler.usage.samples import Censored, QuotaType


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


def censored(
    kind: QuotaType,
    *,
    throttle_ms: int | None,
    rate_units: int,
    limit: int | None,
    request_throttled: bool | None,
) -> Censored:
    """Whether a recorded rate is less than the client wanted.

    The throttle time alone does not say so: it is a mean over a minute and lingers, so the rate must also be near the
    limit. And where bytes and request time are both over, only the quota with the longer delay records it, so a
    client held back by its request quota looks content here.

    A consumer that is held back need not come near its limit: a fetch that does not fit is answered empty and its bytes
    are taken off the record, so with large fetches it gets half of it. Throttled and far from the limit says nothing.

    Args:
        kind: What is limited.
        throttle_ms: As recorded beside the rate; ``None`` = not recorded.
        rate_units: As recorded.
        limit: In force at that moment, in units; ``None`` = unlimited.
        request_throttled: Whether a request quota that covers these clients was throttled; ``None`` = not known.
    """
    if request_throttled:
        return Censored.YES
    near = limit is not None and 10 * rate_units >= 9 * limit
    if near and throttle_ms:
        return Censored.YES
    far = kind is QuotaType.FETCH and limit is not None and bool(throttle_ms)
    if request_throttled is None or far or (near and throttle_ms is None):
        return Censored.UNKNOWN
    return Censored.NO


def move(before: int | None, after: int | None) -> LimitMove:
    """Which way a limit goes, in units; ``None`` = unlimited."""
    if before == after:
        return LimitMove.EQUAL
    if before is None:
        return LimitMove.TIGHTER
    return LimitMove.TIGHTER if after is not None and after < before else LimitMove.LOOSER
