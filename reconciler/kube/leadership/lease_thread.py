"""Runs the candidate for the Lease in a separate thread, so that a busy event loop cannot lose the Lease.

The thread has its own event loop and connection to the API server. It renews the Lease while the program's event loop
is busy: if that loop makes no progress for ``ElectionSettings.stall`` seconds, it counts as hung, the Lease is lost,
and the watchdog, a thread of its own, ends the process before the Lease expires. ``election`` implements how a Lease is taken, held and released.
"""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Final, Self

from reconciler.base.protocols import Clock
from reconciler.kube.leadership.election import Leader

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


BEAT_SECONDS: Final = 0.5
"""Seconds between reports of progress of the program's event loop; at least eight per ``ElectionSettings.stall``."""

END_SECONDS: Final = 5.0
"""Seconds that the thread may take to end; as a daemon thread it does not block the exit."""


# No work of tenants may lose the Lease: docs/adr/tenant-cost.md.
class LeaseThread(Leader):
    """A leader in a thread; its events are set, and changes are reported, in the loop that runs it."""

    _caller_loop: asyncio.AbstractEventLoop
    _beat_at = 0.0

    async def run(self, resign: asyncio.Event) -> None:
        """Stand by, lead, and release the Lease when ``resign`` is set. If cancelled, it does not release the Lease.

        Args:
            resign: Set it only after all work has ended: from then on another candidate leads.

        Raises:
            LeaseLost: This process led and is no longer certain to lead; ``leadership_lost`` is set.
            KquotaError: The API server cannot be reached.
        """
        thread_loop, resign_leader = asyncio.new_event_loop(), asyncio.Event()
        self._beat_at = self._clock.monotonic()
        thread = threading.Thread(target=_serve, args=(thread_loop,), name="lease", daemon=True)
        thread.start()
        self._caller_loop = asyncio.get_running_loop()
        leading = super().run(resign_leader)
        ended = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(leading, thread_loop))
        beat_task = asyncio.ensure_future(self._beat())
        resign_task = asyncio.ensure_future(resign.wait())
        try:
            _ = await asyncio.wait({ended, resign_task}, return_when=asyncio.FIRST_COMPLETED)
            _call(thread_loop, resign_leader.set)
            await asyncio.shield(ended)
        except BaseException:
            self.leadership_lost.set()
            raise
        finally:
            _ = beat_task.cancel()
            _ = resign_task.cancel()
            _call(thread_loop, thread_loop.stop)  # A candidate that was cancelled releases nothing.
            await asyncio.to_thread(thread.join, END_SECONDS)

    async def _beat(self) -> None:
        pause = min(BEAT_SECONDS, self._election.stall / 8)
        while True:
            self._beat_at = self._clock.monotonic()
            await self._clock.sleep(pause)

    # ---- in the thread -----------------------------------------------------------------------

    def _tell(self, work: Callable[[], object]) -> None:
        _call(self._caller_loop, work)

    def _block_reason(self) -> str:
        """Return why the Lease must not be taken or renewed now, "" if it may be."""
        silent = self._clock.monotonic() - self._beat_at
        if silent < self._election.stall:
            return ""
        return f"the event loop has made no progress for {silent:.1f} s"


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped; tasks that have not ended are cancelled."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


def _call(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Call ``work`` in another thread's loop, unless that loop is closed."""
    with contextlib.suppress(RuntimeError):
        _ = loop.call_soon_threadsafe(work)
