"""Faults that a test plans ahead: what goes wrong, with which request, how often. No I/O.

A broker takes the faults that fit a request once it has read the request's header; every effect then acts
at its own point: before the request is judged, on the answer's content, or on the bytes of the answer.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.broker_rules.image import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Waits before the request is judged; seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CutBefore:
    """Closes the connection and forgets the request: nothing is carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutAfter:
    """Carries the request out, then closes the connection without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Carries the request out and sends only the first ``keep`` bytes of the answer's frame."""

    keep: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Answers at once with this throttle time and reads nothing more until it has passed (KIP-219)."""

    milliseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answers with an error code.

    Attributes:
        failure: Code and words.
        names: The entity of an alteration that is refused alone; ``None`` refuses the whole request.
        applied: Whether the alteration is carried out all the same, as after a time-out on the way.
    """

    failure: BrokerFailure
    names: Names | None = None
    applied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """Describes the image from before the last alteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongCorrelation:
    """Answers with the request's correlation id plus ``by``."""

    by: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """Sends the answer in pieces of ``size`` bytes with a pause of ``seconds`` after each."""

    size: int
    seconds: float

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("a piece has at least one byte")


Effect: TypeAlias = (
    Delay | CutBefore | CutAfter | Truncate | Throttle | Refuse | Stale | WrongCorrelation | Slow
)

FOREVER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An effect and the requests that it befalls.

    Attributes:
        effect: What goes wrong.
        api: Key of the API, ``None`` for any.
        node: Id of the broker, ``None`` for any.
        skip: How many fitting requests pass unharmed first.
        times: How many fitting requests it then befalls; ``FOREVER`` for all.
    """

    effect: Effect
    api: int | None = None
    node: int | None = None
    skip: int = 0
    times: int = 1


@dataclass(slots=True)
class _Armed:
    fault: Fault
    skip: int
    times: int


@dataclass(slots=True)
class Faults:
    """The faults of one sandbox; the only mutable thing here, counted down as requests arrive."""

    _armed: list[_Armed] = field(default_factory=list[_Armed])

    def add(self, fault: Fault) -> None:
        """Arms one more fault; those added first act first."""
        self._armed.append(_Armed(fault=fault, skip=fault.skip, times=fault.times))

    def clear(self) -> None:
        """Disarms everything."""
        self._armed.clear()

    def effects_for(self, api: int, node: int) -> tuple[Effect, ...]:
        """Effects for one request, which count as used by it."""
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
