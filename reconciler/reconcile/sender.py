"""Sends a plan level by level and request by request, holds dependent operations, and stops on request.

Each alteration gets a result: acknowledged, refused, held or unknown; without a result it was never sent. A request to
stop (Ctrl-C cancels the task) ends the sending after the current request: its response is awaited, because without it
the outcome would be unknown.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from reconciler.errors import KquotaError
from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.send_order import SendBatch, SendSchedule, chunks
from reconciler.quota.state import (
    Alteration,
    Applied,
    Held,
    QuotaState,
    Result,
    Unknown,
    Visibility,
)
from reconciler.reconcile.options import ReconcilePorts
from reconciler.reconcile.visibility import WITNESSES, VisibilityProbes, deadline_seconds

STOP_GRACE_SECONDS: Final = 10.0
"""Maximum wait for the response to the current request after Ctrl-C; responses take milliseconds."""

PACED_FROM_KEYS: Final = 50_000
"""Above this many changed keys each request waits until the one before is visible: 300,000 keys keep brokers
busy for 16 s after the acknowledgement.
"""

_KEY_OF: Final = {str(key): key for key in Key}

_T = TypeVar("_T")


class PlanSender:
    """Sends one plan. Call ``run`` once, then read ``results``.

    Args:
        obstacles: Writes of an earlier run without a known outcome, with their results: they hold others from the start.
        withheld: Changes that are withheld; the plan may have the end of an override in place of one.
        live: The limits before the plan.
        pace: Whether each request waits until the one before is visible.
        grace: Maximum seconds for the response to the current request after a request to stop.
    """

    def __init__(
        self,
        ports: ReconcilePorts,
        changes: Sequence[QuotaChange],
        *,
        live: QuotaState,
        obstacles: Iterable[tuple[Alteration, Result]] = (),
        withheld: Iterable[QuotaChange] = (),
        pace: bool = False,
        grace: float = STOP_GRACE_SECONDS,
    ) -> None:
        self._store, self._progress = ports.store, ports.progress
        self._schedule = SendSchedule(changes, live=live)
        self._pace = pace or len(changes) > PACED_FROM_KEYS
        self._grace = grace
        self._seconds = deadline_seconds(len(changes))
        self._total = len(changes)
        for alteration, result in obstacles:
            self._schedule.settle(alteration, result)
        for change in withheld:
            self._schedule.withhold(change)
        self.probes = VisibilityProbes(ports, changes)
        self.results: dict[Pair, Result] = {}
        self.acknowledged_keys = 0
        self.interrupted = False
        self.failure: KquotaError | None = None

    @property
    def was_sent(self) -> bool:
        """Whether a request may have reached the cluster."""
        return any(isinstance(result, Applied | Unknown) for result in self.results.values())

    async def run(self) -> None:
        """Send every operation that may be sent; failures are in ``failure`` and ``results``, not raised."""
        for batch in self._schedule.batches:
            if not self._may_continue():
                return
            try:
                await self._send_batch(batch)
            except KquotaError as error:
                self.failure = error

    def _may_continue(self) -> bool:
        return not self.interrupted and self.failure is None

    async def _send_batch(self, batch: SendBatch) -> None:
        if self._schedule.not_yet_visible(batch):
            visibility = await self._wait_until_visible()
            if visibility is not None and visibility.everywhere:
                self._schedule.mark_visible()
        if not self._may_continue():
            return
        for chunk in chunks(self._sendable(batch)):
            if not self._may_continue():
                return
            await self._send_chunk(chunk)

    def _sendable(self, batch: SendBatch) -> Sequence[Alteration]:
        """Return the operations of a batch that may be sent now; the others are held."""
        waits_by_pair = self._schedule.find_held(batch)
        if not waits_by_pair:
            return batch.alterations
        sendable: list[Alteration] = []
        for subject, operations in ((item.entity, item.operations) for item in batch.alterations):
            free = tuple(
                item for item in operations if (subject, Key(item[0])) not in waits_by_pair
            )
            for item in operations:
                if item not in free:
                    result = Held(waits_for=waits_by_pair[subject, Key(item[0])])
                    self._settle([Alteration(subject, (item,))], {subject: result})
            if free:
                sendable.append(Alteration(subject, free))
        return sendable

    async def _wait_until_visible(self) -> Visibility | None:
        """Wait until every live broker shows the acknowledged operations; ``None`` after a request to stop."""
        return await self._until_stopped(self.probes.wait(self._seconds))

    async def _send_chunk(self, chunk: tuple[Alteration, ...]) -> None:
        results: dict[Entity, Result] = {}
        request = asyncio.ensure_future(self._store.alter(chunk, results=results))
        try:
            _ = await self._until_stopped(request)
        finally:
            self._settle(chunk, results)
        if self._pace and self._may_continue():
            visibility = await self._wait_until_visible()
            if visibility is not None and not visibility.everywhere:
                lagging = ", ".join(map(str, visibility.lagging))
                self.failure = KquotaError(
                    "sending stopped: "
                    + (f"brokers that lag: {lagging}" if lagging else "no broker responds"),
                    hint="check the lagging brokers, then apply again; it continues where it stopped",
                )

    def _settle(self, alterations: Sequence[Alteration], results: Mapping[Entity, Result]) -> None:
        """Record the results of alterations; those without one were not sent."""
        answered = [
            (alteration, results[alteration.entity])
            for alteration in alterations
            if alteration.entity in results
        ]
        for alteration, result in answered:
            self.results.update(
                {(alteration.entity, _KEY_OF[name]): result for name, _ in alteration.operations}
            )
            self._schedule.settle(alteration, result)
        applied = [item for item, result in answered if isinstance(result, Applied)]
        self.acknowledged_keys += sum(len(alteration.operations) for alteration in applied)
        for alteration in applied[-WITNESSES:]:
            self.probes.add(alteration)
        self._progress("apply", len(self.results), self._total)

    async def _until_stopped(self, work: Awaitable[_T]) -> _T | None:
        """Await some work; after a request to stop, wait at most ``grace`` seconds and return ``None`` without a result."""
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            self.interrupted = True
        _ = await asyncio.wait({task}, timeout=self._grace)
        if not task.done():
            _ = task.cancel()
            _ = await asyncio.wait({task})
        if task.cancelled():
            return None
        return task.result()
