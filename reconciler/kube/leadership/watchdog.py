"""The last resort of a leader whose event loop hangs: a thread that ends the process before the Lease runs out."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Final, Self

from reconciler.base.protocols import Clock

LOOKS_EVERY: Final = 0.5
EXIT_CODE: Final = 1

_log = logging.getLogger(__name__)


def _end_now() -> None:
    os._exit(EXIT_CODE)


class Watchdog:
    """Ends the process when leading was certain once, is not any more, and it has not ended in order.

    A loop that is late by ``grace`` seconds cannot renew, cannot notice that it did not, and cannot stop what it
    began to send. Only a thread can.
    """

    def __init__(
        self,
        certain_until: Callable[[], float | None],
        *,
        clock: Clock,
        grace: float = 3.0,
        end: Callable[[], None] = _end_now,
    ) -> None:
        """Watch nothing yet.

        Args:
            certain_until: ``Leader.certain_until``; ``None`` while we do not lead.
            clock: Its monotonic time counts.
            grace: Seconds for ending in order. With the deadline it must stay below the Lease's duration.
            end: Ends the process.
        """
        self._certain_until = certain_until
        self._clock = clock
        self._grace = grace
        self._end = end
        self._quiet = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lease-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._quiet.set()
        self._thread.join()

    def overdue(self) -> bool:
        """Whether the process should have ended by now."""
        until = self._certain_until()
        return until is not None and self._clock.monotonic() >= until + self._grace

    def _watch(self) -> None:
        while not self._quiet.wait(LOOKS_EVERY):
            if self.overdue():
                _log.critical("the Lease is running out and the program does not end: killed")
                self._end()
                return
