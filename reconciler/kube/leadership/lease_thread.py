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
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Self

from reconciler.base.protocols import Clock
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.leadership.election import ElectionSettings, Leader

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

Connect = Callable[[], Awaitable[AbstractAsyncContextManager[KubernetesApi]]]
"""Opens a connection to the API server, in the loop that uses it."""


# No work of tenants may lose the Lease: docs/adr/tenant-cost.md.
class LeaseThread:
    """A candidate that may become the leader once, with the events and times of a :class:`Leader`.

    Args:
        connect: Opens the connection; called in the thread.
        election: The Lease and its timing.
        clock: Time; used by both loops.
        report: Called in the caller's loop with whether this process leads, whenever that changes.
        is_writing: Whether a write to Kafka may be in flight; called in the thread.
    """

    def __init__(
        self,
        connect: Connect,
        election: ElectionSettings,
        *,
        clock: Clock,
        report: Callable[[bool], None] = lambda _: None,
        is_writing: Callable[[], bool] = lambda: True,
    ) -> None:
        # Both events belong to the caller's loop and are never cleared: this process leads; it led and must end at once.
        self.elected = asyncio.Event()
        self.leadership_lost = asyncio.Event()
        self._connect, self._election, self._clock, self._report = connect, election, clock, report
        self._is_writing = is_writing
        self._leader: Leader | None = None
        self._beat_at = clock.monotonic()

    @property
    def leading(self) -> bool:
        """Whether this process certainly leads now."""
        return self._leader is not None and self._leader.leading

    @property
    def certain_until(self) -> float | None:
        """Until when (monotonic seconds) this process leads without another renewal; ``None`` if it does not lead."""
        return None if self._leader is None else self._leader.certain_until

    @property
    def fence_seconds(self) -> float:
        """Seconds for which writes of the previous leader may still take effect; 0 = none."""
        return 0.0 if self._leader is None else self._leader.fence_seconds

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
        leading = self._lead(resign_leader, asyncio.get_running_loop())
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

    async def _lead(self, resign: asyncio.Event, caller_loop: asyncio.AbstractEventLoop) -> None:
        def report(leads: bool) -> None:  # noqa: FBT001 - a callback's only argument
            _call(caller_loop, lambda: self._changed(leads=leads))

        async with await self._connect() as api:
            self._leader = Leader(
                api,
                self._election,
                clock=self._clock,
                on_change=report,
                block_reason=self._block_reason,
                is_writing=self._is_writing,
            )
            await self._leader.run(resign)

    def _block_reason(self) -> str:
        """Return why the Lease must not be renewed, "" if it may be."""
        silent = self._clock.monotonic() - self._beat_at
        if silent < self._election.stall:
            return ""
        return f"the event loop has made no progress for {silent:.1f} s"

    def _changed(self, *, leads: bool) -> None:
        """Report a change of leadership; runs in the caller's loop."""
        self._report(leads)
        if leads:
            self.elected.set()
        elif self._leader is not None and self._leader.leadership_lost.is_set():
            self.leadership_lost.set()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped; tasks that have not ended are cancelled."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()


def _call(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Call ``work`` in another thread's loop, unless that loop is closed."""
    with contextlib.suppress(RuntimeError):
        _ = loop.call_soon_threadsafe(work)
