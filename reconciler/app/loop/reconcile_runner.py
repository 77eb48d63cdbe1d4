"""Runs reconciliations with state between them: removals of the window for the guards, drift observations, corrections."""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from reconciler.app.loop.cluster_loop import LoopOutcome
from reconciler.app.loop.removal_window import RemovalWindow
from reconciler.base.protocols import Clock
from reconciler.errors import Interrupted, KquotaError
from reconciler.quota.drift_tracker import CorrectionHistory, DriftTracker
from reconciler.quota.outcome import Applied, Rejected, Unknown
from reconciler.quota.ownership import OwnershipRecords, Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.removal_budgets import (
    RemovalAllowance,
    counts_as_removal,
    counts_of,
    tenant_of,
)
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Outcome, PairVisibility, Reconciliation
from reconciler.reconcile import ReconcileOptions, ReconcilePorts, reconcile_cluster, refuse_nothing

CLOCK_SECONDS: Final = 1.0
"""A removal is made this much later than its budget allows it, because the clocks of a wait and of the day differ."""


class CorrectionStore(Protocol):
    """Stores corrections of drift beyond the process, so that a restart does not reset the limit of corrections of a pair."""

    async def load(self) -> Sequence[CorrectionHistory]:
        """Return the corrections of earlier processes."""
        ...

    async def save(self, histories: Sequence[CorrectionHistory]) -> None:
        """Replace all corrections."""
        ...


class ReconcileRunner:
    """Runs all reconciliations of one cluster, one after the other.

    Args:
        window: Removals of the window; may be replaced between reconciliations when its length changes.
        tracker: Drift observations; the attribute has those after the latest reconciliation.
        corrections: Stores corrections beyond the process; ``None`` = not stored.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        window: RemovalWindow,
        tracker: DriftTracker | None = None,
        corrections: CorrectionStore | None = None,
    ) -> None:
        self.name = name
        self.window = window
        self.tracker = DriftTracker() if tracker is None else tracker
        self._clock = clock
        self._corrections = corrections
        self._saved_corrections: Sequence[CorrectionHistory] | None = None
        # Removals that the previous reconciliation counted and whose outcome is unknown.
        self._open: frozenset[Pair] = frozenset()
        self._asked_since: dict[Pair, float] = {}

    async def run(
        self,
        ports: ReconcilePorts,
        options: ReconcileOptions,
        desired: DesiredState,
        *,
        counts_drift: bool = True,
        refuses_removals: Callable[[Plan], Awaitable[str]] = refuse_nothing,
    ) -> Reconciliation:
        """Reconcile once. Errors are returned in the result, never raised.

        Args:
            desired: The desired state of all documents, without conflicts.
            counts_drift: Whether differences count as drift now; not while an earlier leader's writes may take effect.
            refuses_removals: Returns why no removal of a plan is allowed now; "" = allowed.

        Returns:
            The reconciliation with the drift observations. A window that cannot be read or written is its error.
        """
        at = self._clock.now()
        try:
            history = await self.window.history(at)
            await self._load_corrections()
        except KquotaError as error:
            ended = self._clock.now()
            return Reconciliation(
                cluster=self.name,
                error=error,
                observations=self.tracker.observations,
                started_at=at,
                ended_at=ended,
            )
        counted_pairs: dict[Pair, str] = {}

        def corrects(change: QuotaChange) -> bool:
            return counts_drift and self.tracker.corrects(change, at)

        async def count(plan: Plan, owned: OwnershipRecords) -> None:
            # Before anything is sent, so that a crash cannot hide a removal from the budget. A retry was counted
            # before.
            new = [
                change
                for change in plan.changes
                if counts_as_removal(change) and change.pair not in self._open
            ]
            counted_pairs.update({change.pair: tenant_of(change) for change in new})
            await self.window.add(counts_of(new, owned, at=at), at)

        reconciliation = await reconcile_cluster(
            ports,
            options,
            desired,
            cluster=self.name,
            corrects=corrects,
            before_sending=count,
            refuses_removals=refuses_removals,
            allowance=RemovalAllowance(
                history=history,
                now=at,
                window=self.window.seconds,
                paid=self._open,
                asked_since=self._asked_since,
            ),
            fenced=not counts_drift,
        )
        self._remember_waiting(reconciliation, at)
        tracker = self._tracker_after(reconciliation)
        if counts_drift:
            self.tracker = tracker
        try:
            await self._settle(counted_pairs, reconciliation.outcome, at)
            await self._save_corrections()
        except KquotaError as error:
            reconciliation = replace(reconciliation, error=reconciliation.error or error)
        # Known drift is reported also while differences do not count as drift; else it would appear to be over.
        return replace(reconciliation, observations=tracker.observations)

    def _tracker_after(self, reconciliation: Reconciliation) -> DriftTracker:
        if reconciliation.preview is None:
            return self.tracker
        return self.tracker.after(
            reconciliation.preview.plan,
            corrected=corrected_pairs(reconciliation.outcome),
            now=reconciliation.started_at,
            first_seen=reconciliation.drift_since,
        )

    async def _load_corrections(self) -> None:
        if self._corrections is not None and self._saved_corrections is None:
            self._saved_corrections = await self._corrections.load()
            self.tracker = self.tracker.with_histories(self._saved_corrections)

    async def _save_corrections(self) -> None:
        histories = self.tracker.histories
        if self._corrections is not None and histories != tuple(self._saved_corrections or ()):
            await self._corrections.save(histories)
            self._saved_corrections = histories

    def _remember_waiting(self, reconciliation: Reconciliation, at: float) -> None:
        """Record since when removals wait for their budget, so that later ones do not overtake them."""
        if reconciliation.preview is None:
            return
        waiting = (
            withheld.change.pair
            for withheld in reconciliation.withheld
            if counts_as_removal(withheld.change)
        )
        self._asked_since = {pair: self._asked_since.get(pair, at) for pair in waiting}

    async def _settle(
        self, counted_pairs: Mapping[Pair, str], outcome: Outcome | None, at: float
    ) -> None:
        """Take back counted removals that were not sent."""
        sent_pairs: set[Pair] = set()
        unknown: set[Pair] = set()
        for pair_outcome in () if outcome is None else outcome.pairs:
            pair = pair_outcome.change.pair
            if isinstance(pair_outcome.result, Applied | Unknown):
                sent_pairs.add(pair)
            if (
                isinstance(pair_outcome.result, Unknown)
                and pair_outcome.visibility is not PairVisibility.VISIBLE
            ):
                unknown.add(pair)
        self._open = frozenset(unknown)
        unsent = Counter(tenant for pair, tenant in counted_pairs.items() if pair not in sent_pairs)
        await self.window.take_back(unsent, at)


def corrected_pairs(outcome: Outcome | None) -> Collection[Pair]:
    """Return the pairs whose drift was corrected, or may have been."""
    return frozenset(
        pair_outcome.change.pair
        for pair_outcome in (() if outcome is None else outcome.pairs)
        if pair_outcome.change.cause is Cause.DRIFT
        and isinstance(pair_outcome.result, Applied | Unknown)
    )


def loop_outcome_of(reconciliation: Reconciliation) -> LoopOutcome:
    """Return whether the reconciliation is retried soon, and the log message.

    Changes that a guard withholds or the broker refuses, and those held because of them, wait for a key, the resync
    or room in a removal budget: a retry would not change them.
    """
    error = reconciliation.error
    if isinstance(error, Interrupted):
        return LoopOutcome()
    if error is not None:
        hint = f"; {error.hint}" if error.hint and not error.retriable else ""
        return LoopOutcome(retry=error.retriable, note=f"{error}{hint}")
    note = (
        ""
        if reconciliation.outcome is None or reconciliation.outcome.complete
        else _unfinished_text(reconciliation, reconciliation.outcome)
    )
    return LoopOutcome(
        retry=bool(note),
        note=note,
        confirm=needs_confirmation(reconciliation),
        removal_after=removal_after(reconciliation),
    )


def removal_after(reconciliation: Reconciliation) -> float | None:
    """Return the seconds until a removal that waits for its budget can be made; ``None`` = none waits for one alone."""
    times = [
        max((violation.retry_at or math.inf for violation in withheld.violations), default=math.inf)
        for withheld in reconciliation.withheld
    ]
    next_at = min(times, default=math.inf)
    if next_at == math.inf:
        return None
    return max(next_at - reconciliation.ended_at, 0.0) + CLOCK_SECONDS


def needs_confirmation(reconciliation: Reconciliation) -> bool:
    """Whether drift has to be observed again before it counts, or a limit may have to be removed after its override."""
    is_confirmed = all(observation.confirmed for observation in reconciliation.observations)
    return reconciliation.error is None and (not is_confirmed or reconciliation.has_restored_owned)


def _unfinished_text(reconciliation: Reconciliation, outcome: Outcome) -> str:
    """Return in words what a retry may complete; "" = nothing."""
    unknown = outcome.count("UNKNOWN") + outcome.count("NOT SENT")
    unseen = sum(
        isinstance(pair_outcome.result, Applied)
        and pair_outcome.visibility in {PairVisibility.NOT_YET, PairVisibility.UNCHECKED}
        for pair_outcome in outcome.pairs
    )
    is_refused = bool(reconciliation.withheld) or any(
        isinstance(pair_outcome.result, Rejected) for pair_outcome in outcome.pairs
    )
    held_count = 0 if is_refused else outcome.count("HELD")
    words = [
        f"{count} {adjective}"
        for count, adjective in (
            (unknown, "unknown or not sent"),
            (unseen, "not yet shown by every broker"),
            (held_count, "waiting for others"),
        )
        if count
    ]
    if outcome.failure:
        words.append(outcome.failure)
    if not outcome.recorded and not outcome.failure:
        words.append("the records could not be written")
    return ", ".join(words)
