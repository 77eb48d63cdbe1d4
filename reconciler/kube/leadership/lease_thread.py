"""Runs the candidate for the Lease in a separate thread, so that a busy event loop cannot lose the Lease.

The thread has its own event loop and connection to the API server. It renews the Lease while the program's event loop
is busy: if that loop makes no progress for ``ElectionSettings.stall`` seconds, it counts as hung, the Lease is lost,
and the watchdog ends the process. ``election`` implements how a Lease is taken, held and released.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from reconciler.base.protocols import Clock
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.leadership.election import ElectionSettings, Leader

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
        self._commands = _ThreadCommands()

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
        caller_loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = caller_loop.create_future()
        self._beat_at = self._clock.monotonic()
        threading.Thread(
            target=self._body, args=(caller_loop, ended), name="lease", daemon=True
        ).start()
        beat_task = asyncio.ensure_future(self._beat())
        resign_task = asyncio.ensure_future(resign.wait())
        try:
            _ = await asyncio.wait({ended, resign_task}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                self._commands.resign()
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._commands.end()
            _ = await asyncio.wait({ended}, timeout=END_SECONDS)
            raise
        finally:
            _ = beat_task.cancel()
            _ = resign_task.cancel()
            if not ended.done() or ended.cancelled() or ended.exception() is not None:
                self.leadership_lost.set()

    async def _beat(self) -> None:
        pause = min(BEAT_SECONDS, self._election.stall / 8)
        while True:
            self._beat_at = self._clock.monotonic()
            await self._clock.sleep(pause)

    # ---- in the thread -----------------------------------------------------------------------

    def _body(self, caller_loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[None]") -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._lead(caller_loop))
        except BaseException as caught:  # noqa: BLE001 - raised again in the other thread
            error = caught

        def end() -> None:
            if ended.done():
                return
            if error is None or isinstance(error, asyncio.CancelledError):
                ended.set_result(None)
            else:
                ended.set_exception(error)

        _call(caller_loop, end)

    async def _lead(self, caller_loop: asyncio.AbstractEventLoop) -> None:
        resign = asyncio.Event()
        self._commands.take(resign)

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


class _ThreadCommands:
    """Commands of the caller to the thread; effective also if its loop has not started yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inner: tuple[asyncio.AbstractEventLoop, asyncio.Event, asyncio.Task[object]] | None
        self._inner = None
        self._resigns = False
        self._ends = False

    def take(self, resign: asyncio.Event) -> None:
        """Execute commands from now on, earlier ones included; called in the thread."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio.run made one
        with self._lock:
            self._inner = asyncio.get_running_loop(), resign, task
        self._carry_out()

    def resign(self) -> None:
        """Release the Lease and end."""
        self._resigns = True
        self._carry_out()

    def end(self) -> None:
        """End without releasing the Lease."""
        self._ends = True
        self._carry_out()

    def _carry_out(self) -> None:
        with self._lock:
            if self._inner is None:
                return
            loop, resign, task = self._inner
            if self._ends:
                _call(loop, task.cancel)
            elif self._resigns:
                _call(loop, resign.set)


def _call(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Call ``work`` in another thread's loop, unless that loop is closed."""
    with contextlib.suppress(RuntimeError):
        _ = loop.call_soon_threadsafe(work)
