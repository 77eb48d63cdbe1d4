"""Leader election: one operator leads, the others stand by. A Lease is renewed in time or given up in time.

The official client's elector (37) is not used: it trusts wall clocks, waits without a limit for a hung renewal, and
never releases a Lease. The rules:

- A held Lease is respected until *this* replica has seen it unchanged for its whole duration; no clock of another machine counts.
- This replica's term starts before the last successful renewal was *sent*, and ends (``deadline``) well before any other
  candidate may take the Lease (``duration``).
- After ``deadline`` without a renewal nothing may be written. If no write to Kafka is in flight, leading pauses until
  the API server answers: a Lease with this identity was taken by no other candidate. Otherwise the process has to end.
- A holder is an identity plus a random suffix, so that two processes of one name do not share a Lease.
"""

import asyncio
import contextlib
import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Struct

from reconciler.app.loop.task_supervisor import wait_for_event
from reconciler.base.protocols import Clock
from reconciler.errors import KquotaError, KubernetesConflict, KubernetesError, LeaseLost, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Obj
from reconciler.kube.api.http_exchange import RequestTimeouts
from reconciler.kube.api.resource_paths import LEASES

T = TypeVar("T")

Connect = Callable[[], Awaitable[AbstractAsyncContextManager[KubernetesApi]]]
"""Opens a connection to the API server, in the loop that uses it."""

RELEASED_BY: Final = "kafka-quotas.io/released-by"
"""Annotation with the identity that released a Lease in order."""

ONE_TRY: Final = RequestTimeouts(seconds=10.0, tries=1)
"""Of the connection for the Lease: this module counts attempts and deadlines itself."""

_RETRY_SECONDS: Final = 0.5
_RELEASE_SECONDS: Final = 3.0
_LONGEST_FOREIGN: Final = 300.0
"""A longer duration in another holder's Lease counts as invalid."""

_log = logging.getLogger(__name__)


class ElectionSettings(Struct, frozen=True, kw_only=True):
    """The Lease, its candidate and its timing in seconds."""

    namespace: str  # namespace of the Lease
    name: str
    identity: str  # readable name of this candidate; need not be unique
    duration: float = 15.0  # how long others respect the Lease after its last renewal
    renew: float = 2.0  # interval at which it is renewed, or checked by candidates that stand by
    # Time without a renewal after which it counts as lost; the rest of `duration` is for ending.
    deadline: float = 10.0
    # Time after a takeover in which writes of the previous leader may still take effect.
    fence: float = 90.0
    # Time without progress of the program's event loop after which the Lease is no longer renewed.
    stall: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.renew < self.deadline < self.duration:
            raise ValueError("renew < deadline < duration is needed, in seconds above 0")


class _ObservedLease(Struct, frozen=True, kw_only=True):
    """A Lease as observed, and since when (monotonic seconds) it is unchanged."""

    lease: Obj
    since: float

    @property
    def spec(self) -> dict[str, Any]:
        return self.lease.get("spec") or {}

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")

    @property
    def mark(self) -> tuple[object, ...]:
        return (self.holder, self.spec.get("renewTime"), self.spec.get("leaseTransitions"))


class Leader:
    """A candidate that may become the leader once.

    Args:
        connect: Opens the connection for the Lease alone.
        report: Called with whether this process leads, whenever that changes.
        is_writing: Whether a write to Kafka may be in flight; called in any thread.

    Attributes:
        elected: Set when this process leads; never cleared.
        leadership_lost: Set when this process led and must end at once; never cleared.
    """

    _api: KubernetesApi

    def __init__(
        self,
        connect: Connect,
        election: ElectionSettings,
        *,
        clock: Clock,
        report: Callable[[bool], None] = lambda _: None,
        is_writing: Callable[[], bool] = lambda: True,
    ) -> None:
        self.elected, self.leadership_lost = asyncio.Event(), asyncio.Event()
        self._connect, self._election, self._clock = connect, election, clock
        self._report, self._is_writing = report, is_writing
        self._holder = f"{election.identity[:200]}_{secrets.token_hex(4)}"
        self._observed: _ObservedLease | None = None
        self._certain_until: float | None = None
        self._fenced_until = 0.0
        self._from_another = False

    @property
    def leading(self) -> bool:
        """Whether this process certainly leads now; correct also if the loop is late."""
        return self._certain_until is not None and self._clock.monotonic() < self._certain_until

    @property
    def certain_until(self) -> float | None:
        """Until when (monotonic seconds) this process leads without another renewal; ``None`` if it does not lead."""
        return self._certain_until

    @property
    def fence_seconds(self) -> float:
        """Seconds for which writes of the previous leader may still take effect; 0 = none."""
        return max(0.0, self._fenced_until - self._clock.monotonic())

    async def run(self, resign: asyncio.Event) -> None:
        """Stand by, lead, and release the Lease when ``resign`` is set. If cancelled, it does not release the Lease.

        Args:
            resign: Set it only after all work has ended: from then on another candidate leads.

        Raises:
            LeaseLost: This process led and is no longer certain to lead; ``leadership_lost`` is set.
        """
        async with await self._connect() as self._api:
            if not await self._campaign(resign):
                return
            _log.info("leading as %s", self._holder)
            self._changed(leads=True)
            try:
                await self._hold(resign)
                await self._release()
                self._certain_until = None
            except LeaseLost as error:
                _log.error("%s", error)
                # Not None: the watchdog keeps counting until the process has ended.
                self._certain_until = min(self._certain_until or 0.0, self._clock.monotonic())
                self._tell(self.leadership_lost.set)
                raise
            finally:
                self._changed(leads=False)

    def _changed(self, *, leads: bool) -> None:
        self._tell(partial(self._report, leads))
        if leads:
            self._tell(self.elected.set)

    def _tell(self, work: Callable[[], object]) -> None:
        """Call what the operator's event loop has to know."""
        _ = work()

    def _block_reason(self) -> str:
        """Return why the Lease must not be taken or renewed now, "" if it may be."""
        return ""

    # ---- standing by ------------------------------------------------------------------------

    async def _campaign(self, resign: asyncio.Event) -> bool:
        """Wait until this replica has the Lease (True) or ``resign`` is set (False)."""
        while not resign.is_set():
            began = self._clock.monotonic()
            try:
                if not self._block_reason() and await self._within(
                    self._election.deadline / 2, self._attempt
                ):
                    self._certain_until = began + self._election.deadline
                    return True
            except KquotaError as error:
                _log.warning("standby: the Lease cannot be acquired: %s", error)
            await wait_for_event(self._clock, self._election.renew, resign)
        return False

    async def _attempt(self) -> bool:
        """Read the Lease, and take it if it is free; return whether this replica has it."""
        try:
            lease = await self._api.get(LEASES, *self._place)
        except NotFound:
            with contextlib.suppress(KubernetesConflict):
                await self._create()
                return True
            return False
        observed = self._note(lease)
        if observed.holder and observed.holder != self._holder and not self._ran_out(observed):
            return False
        if observed.holder != self._holder:
            self._from_another = not self._given_back_by_us(observed)
        # Otherwise this replica already holds it, because an earlier response was lost: ``_from_another`` keeps its value.
        with contextlib.suppress(KubernetesConflict):
            await self._write(
                observed.lease, holder=self._holder, is_taken=observed.holder != self._holder
            )
            if self._from_another:
                self._fenced_until = self._clock.monotonic() + self._election.fence
            return True
        return False

    def _note(self, lease: Obj) -> _ObservedLease:
        observed = _ObservedLease(lease=lease, since=self._clock.monotonic())
        if self._observed is not None and self._observed.mark == observed.mark:
            observed = _ObservedLease(lease=lease, since=self._observed.since)
        self._observed = observed
        return observed

    def _ran_out(self, observed: _ObservedLease) -> bool:
        duration_value = observed.spec.get("leaseDurationSeconds")
        usable = isinstance(duration_value, int) and 0 < duration_value <= _LONGEST_FOREIGN
        duration = (
            float(duration_value)
            if usable and duration_value is not None
            else self._election.duration
        )
        return self._clock.monotonic() - observed.since >= duration

    def _given_back_by_us(self, observed: _ObservedLease) -> bool:
        annotations = observed.lease["metadata"].get("annotations") or {}
        return not observed.holder and annotations.get(RELEASED_BY) == self._election.identity

    # ---- leading ----------------------------------------------------------------------------

    async def _hold(self, resign: asyncio.Event) -> None:
        while not resign.is_set():
            await wait_for_event(self._clock, self._election.renew, resign)
            if not resign.is_set():
                await self._renew()

    async def _renew(self) -> None:
        """Renew the Lease; retry until the deadline."""
        while True:
            if block_reason := self._block_reason():
                raise LeaseLost(f"the Lease is no longer renewed: {block_reason}")
            began = self._clock.monotonic()
            if self._certain_until is not None and self._certain_until <= began:
                self._pause_leading()
            remaining = (self._certain_until or began + self._election.deadline) - began
            try:
                await self._within(remaining, self._renew_once)
            except LeaseLost:
                raise
            except KquotaError as error:
                _log.warning("the Lease was not renewed: %s", error)
                await self._clock.sleep(min(_RETRY_SECONDS, remaining))
            else:
                if self._certain_until is None:
                    _log.warning("the Lease is renewed again; this replica is still the leader")
                    self._changed(leads=True)
                self._certain_until = began + self._election.deadline
                return

    def _pause_leading(self) -> None:
        """Stop leading until the Lease is renewed.

        Raises:
            LeaseLost: A write to Kafka may be in flight.
        """
        message = (
            f"the Lease {self._election.namespace}/{self._election.name} was not renewed"
            f" for {self._election.deadline:g} s"
        )
        if self._is_writing():
            raise LeaseLost(f"{message}, and a write to Kafka may be in progress")
        _log.error("%s; nothing is written to Kafka until it is renewed", message)
        self._certain_until = None
        self._changed(leads=False)

    async def _renew_once(self) -> None:
        assert self._observed is not None  # noqa: S101 - who leads has written the Lease
        try:
            await self._write(self._observed.lease, holder=self._holder, is_taken=False)
        except (NotFound, KubernetesConflict):
            # The API server also reports a conflict when a deleted object is replaced.
            try:
                observed = self._note(await self._api.get(LEASES, *self._place))
            except NotFound:
                if self._certain_until is None:
                    raise LeaseLost("the Lease was deleted while leading paused") from None
                # Deleted during leadership. If creating it succeeds, no other candidate has it.
                await self._create()
                return
            if observed.holder != self._holder:
                raise LeaseLost(
                    f"the Lease {self._election.namespace}/{self._election.name} was taken"
                    f" by {observed.holder or 'no holder'}"
                ) from None
            await self._write(observed.lease, holder=self._holder, is_taken=False)

    async def _release(self) -> None:
        """Release the Lease, so that the next candidate need not wait; if that fails, it expires."""
        assert self._observed is not None  # noqa: S101 - who leads has written the Lease
        lease = self._observed.lease
        try:
            await self._within(
                _RELEASE_SECONDS, lambda: self._write(lease, holder="", is_taken=False)
            )
        except KquotaError as error:
            _log.warning("the Lease was not released and will expire: %s", error)

    # ---- writing ----------------------------------------------------------------------------

    @property
    def _place(self) -> tuple[str, str]:
        return self._election.namespace, self._election.name

    async def _create(self) -> None:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self._election.name, "namespace": self._election.namespace},
            "spec": self._spec({}, holder=self._holder, is_taken=True),
        }
        _ = self._note(await self._api.create(LEASES, self._election.namespace, body))

    async def _write(self, lease: Obj, *, holder: str, is_taken: bool) -> None:
        metadata = dict(lease["metadata"])
        annotations = dict(metadata.get("annotations") or {})
        _ = annotations.pop(RELEASED_BY, None)
        if not holder:
            annotations[RELEASED_BY] = self._election.identity
        metadata["annotations"] = annotations
        spec = self._spec(lease.get("spec") or {}, holder=holder, is_taken=is_taken)
        body = {**lease, "metadata": metadata, "spec": spec}
        _ = self._note(await self._api.replace(LEASES, *self._place, body))

    def _spec(self, before: dict[str, Any], *, holder: str, is_taken: bool) -> dict[str, Any]:
        # For people and other electors; these times are never compared with a clock.
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        transitions = int(before.get("leaseTransitions") or 0)
        return {
            **before,
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(self._election.duration if holder else 1.0),
            "renewTime": now,
            "acquireTime": now if is_taken else before.get("acquireTime", now),
            "leaseTransitions": transitions + (1 if is_taken and before else 0),
        }

    # ---- time -------------------------------------------------------------------------------

    async def _within(self, seconds: float, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``work`` if it ends in time, by the clock that the deadlines use.

        Raises:
            KubernetesError: The time is up.
        """
        task = asyncio.ensure_future(work())
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            _ = await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise KubernetesError(f"no answer about the Lease within {seconds:.1f} s")
        finally:
            for future in (task, timer):
                _ = future.cancel()
