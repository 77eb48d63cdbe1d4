"""Faults that a test configures: their effect, the requests they apply to, how often. No I/O.

A broker takes the faults that match a request once it has read the request's header; every effect then applies at its
own point: before the request is processed, to the response's content, or to its bytes.
"""

import asyncio
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.broker_rules.image import Names


class Delay(Struct, frozen=True, kw_only=True):
    """Waits before the request is processed; seconds."""

    seconds: float


class Hold(Struct, frozen=True, kw_only=True):
    """Waits for an event before the request is processed, or, if ``executed``, before the response is sent."""

    until: asyncio.Event
    executed: bool = False


class CutBefore(Struct, frozen=True, kw_only=True):
    """Closes the connection and drops the request without executing it."""


class CutAfter(Struct, frozen=True, kw_only=True):
    """Executes the request, then closes the connection without a response."""


class Truncate(Struct, frozen=True, kw_only=True):
    """Executes the request and sends only the first ``keep`` bytes of the response's frame."""

    keep: int


class Throttle(Struct, frozen=True, kw_only=True):
    """Responds at once with this throttle time and reads nothing more until it has passed (KIP-219)."""

    milliseconds: int


class Refuse(Struct, frozen=True, kw_only=True):
    """Responds with an error code."""

    failure: BrokerFailure
    # The entity whose alteration alone is refused; None refuses the whole request.
    names: Names | None = None
    applied: bool = False  # whether the alteration is executed nevertheless, as after a time-out


class Stale(Struct, frozen=True, kw_only=True):
    """Describes the image from before the last alteration."""


class WrongCorrelation(Struct, frozen=True, kw_only=True):
    """Responds with the request's correlation id plus ``by``."""

    by: int = 1


class Slow(Struct, frozen=True, kw_only=True):
    """Sends the response in pieces of ``size`` bytes with a pause of ``seconds`` after each."""

    size: int
    seconds: float

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("a piece has at least one byte")


Effect: TypeAlias = (
    Delay
    | Hold
    | CutBefore
    | CutAfter
    | Truncate
    | Throttle
    | Refuse
    | Stale
    | WrongCorrelation
    | Slow
)

FOREVER: Final = -1


class Fault(Struct, frozen=True, kw_only=True):
    """An effect and the requests that it applies to."""

    effect: Effect
    api: int | None = None  # key of the API, None for any
    node: int | None = None  # id of the broker, None for any
    skip: int = 0
    times: int = 1  # number of matching requests that it then applies to; `FOREVER` for all


class _Armed(Struct):
    fault: Fault
    skip: int
    times: int


class Faults:
    """The faults of one sandbox, counted down as requests arrive."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []

    def add(self, fault: Fault) -> None:
        """Add a fault; those added first apply first."""
        self._armed.append(_Armed(fault=fault, skip=fault.skip, times=fault.times))

    def clear(self) -> None:
        """Remove all faults."""
        self._armed.clear()

    def effects_for(self, api: int, node: int) -> tuple[Effect, ...]:
        """Return the effects for one request and count it."""
        effects: list[Effect] = []
        for armed in self._armed:
            if armed.fault.api not in (None, api) or armed.fault.node not in (None, node):
                continue
            if armed.skip > 0:
                armed.skip -= 1
            elif armed.times != 0:
                armed.times -= 1 if armed.times > 0 else 0
                effects.append(armed.fault.effect)
        self._armed = [armed for armed in self._armed if armed.times != 0]
        return tuple(effects)
