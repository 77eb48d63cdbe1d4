"""One serial loop over one cluster: what changed, when a reconciliation is due, why, and when the next one follows."""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.app.loop.task_supervisor import unless, until_ended, wait_for_event
from reconciler.base.protocols import Clock
from reconciler.errors import ConfigError, KquotaError


class KeyBatch(Struct, frozen=True, kw_only=True):
    """The content of a mailbox."""

    keys: tuple[str, ...] = ()  # each key once, in order of first arrival
    # Whether keys were dropped because there were too many: anything may have changed.
    everything: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the mailbox was empty."""
        return not self.keys and not self.everything


class Mailbox:
    """A bounded set of keys for one reader. All methods belong to one event loop.

    Args:
        clock: For lingering and timeouts.
        limit: Maximum number of keys; beyond it all keys are dropped and "everything" is set.
    """

    def __init__(self, *, clock: Clock, limit: int = 10_000) -> None:
        if limit < 1:
            raise ConfigError(f"a mailbox holds at least one key, not {limit}", key="limit")
        self._clock = clock
        self._limit = limit
        self._keys: dict[str, None] = {}
        self._everything = False
        self._arrived = asyncio.Event()

    def put(self, key: str) -> None:
        """Add a key; never blocks, and ignores a key that is present."""
        if not self._everything and key not in self._keys:
            if len(self._keys) >= self._limit:
                self.put_everything()
                return
            self._keys[key] = None
        self._arrived.set()

    def put_everything(self) -> None:
        """Record that anything may have changed, instead of single keys."""
        self._everything = True
        self._keys.clear()
        self._arrived.set()

    @property
    def depth(self) -> int:
        """The number of waiting keys; the limit if they are no longer counted."""
        return self._limit if self._everything else len(self._keys)

    async def batch(self, *, linger: float, timeout: float | None) -> KeyBatch:  # noqa: ASYNC109 - an empty batch means timeout
        """Return all waiting keys, once there is one.

        Args:
            linger: Seconds to wait for more after the first key.
            timeout: Seconds to wait for the first key; ``None`` = without limit, 0 or less = only present keys.

        Returns:
            The keys; an empty batch after the timeout. If the caller is cancelled meanwhile, every key stays.
        """
        if await wait_for_event(self._clock, timeout, self._arrived) and not self._everything:
            await self._clock.sleep(linger)
        batch = KeyBatch(keys=tuple(self._keys), everything=self._everything)
        self._keys.clear()
        self._everything = False
        self._arrived.clear()
        return batch


_LOG: Final = logging.getLogger("reconciler.loop")

_SLACK_SECONDS: Final = 0.001
"""Event loops may wake up to one clock tick early; this much too early counts as in time."""


Random: TypeAlias = Callable[[], float]
"""A random number from 0 up to, not including, 1; such as ``random.random``."""

_MOST_DOUBLINGS: Final = 64
"""More doublings than any wait can use; bounds the power."""


class LoopIntervals(Struct, frozen=True, kw_only=True):
    """The intervals of one loop; all times in seconds.

    Raises:
        ConfigError: A number is NaN or out of range.
    """

    interval: float = 120.0  # between two resyncs, which compare everything
    # Fraction by which a wait varies either way, so that many loops are not synchronised.
    jitter: float = 0.1
    gap: float = 1.0  # minimum rest between the end of one reconciliation and the start of the next
    linger: float = 0.1  # time that a batch waits for more keys after its first
    # Wait after the first consecutive failure; each further one waits twice as long.
    first_retry: float = 1.0
    last_retry: float = 300.0  # maximum wait after a failure, before jitter
    confirm: float = 3.0  # wait before a reconciliation that repeats an unconfirmed observation

    def __post_init__(self) -> None:
        for name, fits, words in (
            ("interval", 0 < self.interval < math.inf, "a positive number of seconds"),
            ("jitter", 0 <= self.jitter < 1, "a share from 0 up to 1"),
            ("gap", 0 <= self.gap < math.inf, "seconds, 0 or more"),
            ("confirm", 0 < self.confirm < math.inf, "a positive number of seconds"),
            ("linger", 0 <= self.linger < math.inf, "seconds, 0 or more"),
            ("first_retry", 0 < self.first_retry < math.inf, "a positive number of seconds"),
            ("last_retry", self.first_retry <= self.last_retry < math.inf, "at least first_retry"),
        ):
            if not fits:
                raise ConfigError(f"{name} must be {words}, not {getattr(self, name)}", key=name)

    def resync_after(self, random: Random) -> float:
        """Return seconds from one resync to the next."""
        return self._vary(self.interval, random)

    def retry_after(self, failures: int, random: Random) -> float:
        """Return seconds to wait after ``failures`` (at least 1) consecutive failures."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        return self._vary(min(self.first_retry * 2.0**doublings, self.last_retry), random)

    def _vary(self, seconds: float, random: Random) -> float:
        return seconds * (1 + self.jitter * (2 * random() - 1))


class LoopTrigger(Struct, frozen=True, kw_only=True):
    """Why the work is called."""

    keys: tuple[str, ...] = ()  # what changed, in order of arrival
    everything: bool = False  # whether there were too many keys to store
    resync: bool = False  # whether the interval has passed, or this is the first reconciliation
    retry: bool = False  # whether an earlier reconciliation failed and is repeated
    # When the next resync is due, in seconds since the epoch; None = unknown.
    next_resync_at: float | None = None


class LoopOutcome(Struct, frozen=True, kw_only=True):
    """The end of a reconciliation as the loop needs it."""

    retry: bool = False  # whether it failed in a way that a retry may correct
    note: str = ""  # the problem, for the log; "" = none
    # Whether it observed something that needs another observation soon, such as drift.
    confirm: bool = False
    # Seconds until that observation can prove something; None = as the intervals have it.
    confirm_after: float | None = None


Work: TypeAlias = Callable[[LoopTrigger], Awaitable[LoopOutcome]]


# Keys only say why a loop runs; it compares everything: docs/adr/level-triggered-loops.md.
class ClusterLoop:
    """Calls the work repeatedly, never concurrently.

    A reconciliation follows a key at once (after lingering), the interval, a retriable failure (after a growing
    wait), or an observation that needs another one (after a few seconds). A key also ends the wait after a failure,
    because the change may correct it; ``gap`` limits the rate, and the failures still count. A terminal failure waits
    for a key or the resync.

    Args:
        work: One reconciliation. A ``KquotaError`` it raises is a failure, retriable or terminal; anything else is a
            bug.
        pace: Returns the intervals; called before each wait.
    """

    def __init__(
        self,
        name: str,
        *,
        work: Work,
        pace: Callable[[], LoopIntervals],
        clock: Clock,
        random: Random = random.random,
    ) -> None:
        self.name = name
        self.mailbox = Mailbox(clock=clock)  # a key wakes the loop
        # When the latest reconciliation started and ended, in seconds since the epoch; ``None`` = none yet.
        self.last_started: float | None = None
        self.last_ended: float | None = None
        self.is_running = False  # whether a reconciliation is running
        self.failures = 0  # consecutive retriable failures
        self._work, self._pace, self._clock, self._random = work, pace, clock, random
        # In monotonic seconds; the first reconciliation is a resync and due at once.
        self._rested_at = clock.monotonic()
        self._resync_at = clock.monotonic()
        self._retry_at: float | None = None
        self._confirm_at: float | None = None

    @property
    def interval(self) -> float:
        """Seconds between two resyncs at present."""
        return self._pace().interval

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile repeatedly until ``stop`` is set; a running reconciliation is then cancelled and awaited.

        Raises:
            Exception: The work raised something other than a ``KquotaError``: a bug.
        """
        while not stop.is_set():
            trigger = await unless(stop, self._next())
            if trigger is None:
                return
            task = asyncio.ensure_future(self._pass(trigger))
            stopping = asyncio.ensure_future(stop.wait())
            cancelled = False
            try:
                _ = await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                cancelled = True
            _ = stopping.cancel()
            _ = task.cancel()
            cancelled = await until_ended(task, cancelled=cancelled)
            if not task.cancelled():
                task.result()
            if cancelled:
                raise asyncio.CancelledError

    # -- when ---------------------------------------------------------------------------------------

    async def _next(self) -> LoopTrigger:
        """Wait until a reconciliation is due; keys stay in the mailbox until then."""
        pace = self._pace()
        remaining_rest = self._rested_at - self._clock.monotonic()
        if remaining_rest > 0:
            await self._clock.sleep(remaining_rest)
        while True:
            times = self._resync_at, self._retry_at, self._confirm_at
            due = min(due_time for due_time in times if due_time is not None)
            batch = await self.mailbox.batch(
                linger=pace.linger, timeout=due - self._clock.monotonic()
            )
            now = self._clock.monotonic() + _SLACK_SECONDS
            if not batch.is_empty or now >= due:
                return LoopTrigger(
                    keys=batch.keys,
                    everything=batch.everything,
                    resync=now >= self._resync_at,
                    retry=self.failures > 0,
                )

    # -- and then -----------------------------------------------------------------------------------

    async def _pass(self, trigger: LoopTrigger) -> None:
        self.is_running, self.last_started = True, self._clock.now()
        started = self._clock.monotonic()
        if trigger.resync:
            self._resync_at = started + self._pace().resync_after(self._random)
        next_resync_at = self.last_started + self._resync_at - started
        try:
            loop_outcome = await self._work(replace(trigger, next_resync_at=next_resync_at))
        except KquotaError as error:
            loop_outcome = LoopOutcome(retry=error.retriable, note=str(error))
        self.is_running, self.last_ended = False, self._clock.now()
        self._follow(loop_outcome)

    def _follow(self, loop_outcome: LoopOutcome) -> None:
        pace, ended = self._pace(), self._clock.monotonic()
        self._rested_at = ended + pace.gap
        after = loop_outcome.confirm_after
        confirm = pace.confirm if after is None else after
        self._confirm_at = ended + confirm if loop_outcome.confirm else None
        if not loop_outcome.retry:
            self.failures, self._retry_at = 0, None
            if loop_outcome.note:
                _LOG.warning("%s: %s", self.name, loop_outcome.note)
            return
        self.failures += 1
        wait = pace.retry_after(self.failures, self._random)
        self._retry_at = ended + wait
        _LOG.warning("%s: %s; next try in %.1f s", self.name, loop_outcome.note or "failed", wait)
