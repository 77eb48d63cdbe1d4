"""A thread that ends the process before the Lease expires if the event loop of a leader hangs."""

import logging
import os
import threading
from collections.abc import Callable
from typing import Final, Self

from reconciler.base.protocols import Clock

CHECK_SECONDS: Final = 0.5
EXIT_CODE: Final = 1

_log = logging.getLogger(__name__)


def _end_now() -> None:
    os._exit(EXIT_CODE)


class Watchdog:
    """Ends the process if its certain leadership has expired and it has not ended in order.

    A loop that is late by ``grace`` seconds cannot renew, cannot notice that it did not, and cannot stop requests
    that it began to send. Only a thread can.
    """

    def __init__(
        self,
        certain_until: Callable[[], float | None],
        *,
        clock: Clock,
        grace: float = 3.0,
        end: Callable[[], None] = _end_now,
    ) -> None:
        """Do not start yet; the context starts the thread.

        Args:
            certain_until: ``Leader.certain_until``; ``None`` while this process does not lead.
            clock: Monotonic time.
            grace: Seconds for ending in order. Together with the deadline it must stay below the Lease's duration.
            end: Ends the process.
        """
        self._certain_until = certain_until
        self._clock = clock
        self._grace = grace
        self._end = end
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lease-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def overdue(self) -> bool:
        """Whether the process should have ended by now."""
        until = self._certain_until()
        return until is not None and self._clock.monotonic() >= until + self._grace

    def _watch(self) -> None:
        while not self._closed.wait(CHECK_SECONDS):
            if self.overdue():
                _log.critical("the Lease expires and the process has not ended: killed")
                self._end()
                return
