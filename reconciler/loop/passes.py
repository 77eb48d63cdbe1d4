"""Passes with a memory: removals of the window before the guards, drift of earlier looks before a correction."""

from collections.abc import Collection
from dataclasses import replace

from reconciler.errors import KquotaError
from reconciler.loop.removals import RemovalWindow, removals_of
from reconciler.ports import Clock
from reconciler.quota.change import Change, Plan
from reconciler.quota.desired import Desired
from reconciler.quota.outcome import Applied, Unknown
from reconciler.quota.owned import Pair
from reconciler.quota.policy import Cause
from reconciler.quota.report import Outcome, Pass, Seen
from reconciler.quota.vigil import Vigil
from reconciler.reconcile import Orders, Ports, run_pass


class Passes:
    """All passes over one cluster, one after the other.

    Args:
        name: Of the QuotaCluster.
        clock: Time.
        window: Removals of the last while; may be replaced between passes when its length changes.
        vigil: What is remembered of drift.

    Attributes:
        vigil: What is remembered of drift after the newest pass.
        window: See above.
    """

    def __init__(
        self, name: str, *, clock: Clock, window: RemovalWindow, vigil: Vigil | None = None
    ) -> None:
        self.name = name
        self.window = window
        self.vigil = Vigil() if vigil is None else vigil
        self._clock = clock
        # Removals of the pass before that were counted and whose fate is unknown.
        self._open: frozenset[Pair] = frozenset()

    async def run(
        self, ports: Ports, orders: Orders, desired: Desired, *, counts_drift: bool = True
    ) -> Pass:
        """One pass. Never raises for what happened in it.

        Args:
            ports: The outside world.
            orders: What it is told; ``guards.removals_before`` is filled in here.
            desired: All documents, without conflicts.
            counts_drift: Whether differences may count as drift now; not while an earlier leader's writes may land.

        Returns:
            The pass with what is remembered of drift. A window that cannot be read or written is its error.
        """
        at = self._clock.now()
        try:
            # What may be tried again is among the planned removals then, and must not count twice.
            before = max(await self.window.count(at) - len(self._open), 0)
        except KquotaError as error:
            ended = self._clock.now()
            return Pass(
                cluster=self.name,
                error=error,
                sightings=self.vigil.sightings,
                started_at=at,
                ended_at=ended,
            )
        counted: frozenset[Pair] = frozenset()

        def corrects(change: Change) -> bool:
            return counts_drift and self.vigil.corrects(change, at)

        async def count(plan: Plan) -> None:
            # Before anything is sent, so that a crash cannot hide a removal from the guard.
            nonlocal counted
            counted = removals_of(plan) - self._open
            await self.window.add(len(counted), at)

        made = await run_pass(
            ports,
            replace(orders, guards=replace(orders.guards, removals_before=before)),
            desired,
            cluster=self.name,
            corrects=corrects,
            before_sending=count,
            fenced=not counts_drift,
        )
        vigil = self.vigil
        if made.preview is not None:
            vigil = vigil.after(
                made.preview.plan,
                corrected=corrected(made.outcome),
                now=made.started_at,
                first_seen=made.drift_since,
            )
        # Drift that was known before is still shown while nothing counts, or it would be taken for over.
        sightings = vigil.sightings
        if counts_drift:
            self.vigil = vigil
        try:
            await self._settle(counted, made.outcome, at)
        except KquotaError as error:
            made = replace(made, error=made.error or error)
        return replace(made, sightings=sightings)

    async def _settle(self, counted: frozenset[Pair], outcome: Outcome | None, at: float) -> None:
        """Take back what was counted and did not happen."""
        sent: set[Pair] = set()
        unknown: set[Pair] = set()
        for one in () if outcome is None else outcome.pairs:
            pair = one.change.entity, one.change.key
            if isinstance(one.result, Applied | Unknown):
                sent.add(pair)
            if isinstance(one.result, Unknown) and one.seen is not Seen.VISIBLE:
                unknown.add(pair)
        self._open = frozenset(unknown)
        await self.window.add(-len(counted - sent), at)


def corrected(outcome: Outcome | None) -> Collection[Pair]:
    """The pairs whose drift was written over, or may have been."""
    return frozenset(
        (one.change.entity, one.change.key)
        for one in (() if outcome is None else outcome.pairs)
        if one.change.cause is Cause.DRIFT and isinstance(one.result, Applied | Unknown)
    )
