"""Whether watch events arrive in the order in which the objects were changed."""

from collections import deque
from typing import Final

from reconciler.base.protocols import Clock

BURST_EVENTS: Final = 32
BURST_SECONDS: Final = 2.0
"""This many events within this many seconds are a burst: Kopf's 64 workers, one per object, may then reorder them."""

ORDER_SECONDS: Final = 0.25
"""Without a burst, Kopf delivers events of several objects in another order only within this time."""


class WatchOrder:
    """The order of the events of one kind.

    Args:
        watches: Number of watches that report the kind: several have no common order.
    """

    def __init__(self, clock: Clock, *, watches: int) -> None:
        self._clock, self._watches = clock, watches
        self._recent: deque[float] = deque(maxlen=BURST_EVENTS)

    def note_event(self) -> None:
        """Record the arrival of an event."""
        self._recent.append(self._clock.monotonic())

    async def is_certain(self) -> bool:
        """Wait until every event has arrived that was sent before the last one that has; return whether there was no burst."""
        if self._recent:
            until = self._recent[-1] + ORDER_SECONDS
            await self._clock.sleep(max(until - self._clock.monotonic(), 0.0))
        return self.is_kept()

    def is_kept(self) -> bool:
        """Whether there is exactly one watch and no recent burst of events."""
        is_burst = (
            len(self._recent) == BURST_EVENTS
            and self._clock.monotonic() - self._recent[0] < BURST_SECONDS
        )
        return not is_burst and self._watches == 1
