"""Passes with a memory: removals of the window before the guards, drift of earlier looks before a correction."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace

from reconciler.errors import KquotaError
from reconciler.loop.removals import RemovalWindow
from reconciler.ports import Clock
from reconciler.quota.budgets import Allotment, counts_as_removal, counts_of, tenant_of
from reconciler.quota.change import Change, Plan
from reconciler.quota.desired import Desired
from reconciler.quota.outcome import Applied, Unknown
from reconciler.quota.owned import Owned, Pair
from reconciler.quota.policy import Cause
from reconciler.quota.report import Outcome, Pass, Seen
from reconciler.quota.vigil import Vigil
from reconciler.reconcile import Orders, Ports, run_pass, unrefused


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
        self._asked_since: dict[Pair, float] = {}

    async def run(
        self,
        ports: Ports,
        orders: Orders,
        desired: Desired,
        *,
        counts_drift: bool = True,
        refuses_removals: Callable[[Plan], Awaitable[str]] = unrefused,
    ) -> Pass:
        """One pass. Never raises for what happened in it.

        Args:
            ports: The outside world.
            orders: What it is told.
            desired: All documents, without conflicts.
            counts_drift: Whether differences may count as drift now; not while an earlier leader's writes may land.
            refuses_removals: Why no removal of a plan may be made now; "" = nothing is known against them.

        Returns:
            The pass with what is remembered of drift. A window that cannot be read or written is its error.
        """
        at = self._clock.now()
        try:
            history = await self.window.history(at)
        except KquotaError as error:
            ended = self._clock.now()
            return Pass(
                cluster=self.name,
                error=error,
                sightings=self.vigil.sightings,
                started_at=at,
                ended_at=ended,
            )
        counted: dict[Pair, str] = {}

        def corrects(change: Change) -> bool:
            return counts_drift and self.vigil.corrects(change, at)

        async def count(plan: Plan, owned: Owned) -> None:
            # Before anything is sent, so that a crash cannot hide a removal from the budget. What is tried again was counted.
            new = [
                change
                for change in plan.changes
                if counts_as_removal(change) and (change.entity, change.key) not in self._open
            ]
            counted.update({(change.entity, change.key): tenant_of(change) for change in new})
            await self.window.add(counts_of(new, owned, at=at), at)

        made = await run_pass(
            ports,
            orders,
            desired,
            cluster=self.name,
            corrects=corrects,
            before_sending=count,
            refuses_removals=refuses_removals,
            allotment=Allotment(
                history=history,
                now=at,
                window=self.window.seconds,
                paid=self._open,
                asked_since=self._asked_since,
            ),
            fenced=not counts_drift,
        )
        self._remember_waiting(made, at)
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

    def _remember_waiting(self, made: Pass, at: float) -> None:
        """Since when removals wait for their budget, so that those that come later do not go first."""
        if made.preview is None:
            return
        waiting = (
            (held.change.entity, held.change.key)
            for held in made.withheld
            if counts_as_removal(held.change)
        )
        self._asked_since = {pair: self._asked_since.get(pair, at) for pair in waiting}

    async def _settle(
        self, counted: Mapping[Pair, str], outcome: Outcome | None, at: float
    ) -> None:
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
        unsent = Counter(tenant for pair, tenant in counted.items() if pair not in sent)
        await self.window.take_back(unsent, at)


def corrected(outcome: Outcome | None) -> Collection[Pair]:
    """The pairs whose drift was written over, or may have been."""
    return frozenset(
        (one.change.entity, one.change.key)
        for one in (() if outcome is None else outcome.pairs)
        if one.change.cause is Cause.DRIFT and isinstance(one.result, Applied | Unknown)
    )
