"""Runs reconciliations with state between them: removals of the last hour for the guards, drift observations, corrections."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import LoopOutcome
from reconciler.base.protocols import Clock
from reconciler.errors import Interrupted, KquotaError
from reconciler.quota.drift_tracker import CorrectionHistory, DriftTracker
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.removal_guard import RemovalCount, counts_after
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import Outcome, PairVisibility, Reconciliation
from reconciler.quota.state import Applied, Rejected, Unknown
from reconciler.reconcile import ReconcileOptions, ReconcilePorts, reconcile_cluster, refuse_nothing

Row = TypeVar("Row")


class RowStore(Protocol[Row]):
    """Stores rows of a loop beyond the process, so that a restart does not reset what they count."""

    async def load(self) -> Sequence[Row]:
        """Return all rows; empty if none were ever stored.

        Raises:
            KquotaError: They exist and cannot be read; an empty result is never returned instead.
        """
        ...

    async def save(self, rows: Sequence[Row], /) -> None:
        """Replace all rows durably."""
        ...


class ReconcileRunner:
    """Runs all reconciliations of one cluster, one after the other.

    Args:
        removals: Stores the counts of removals beyond the process; ``None`` = not stored.
        tracker: Drift observations; the attribute has those after the latest reconciliation.
        corrections: Stores corrections beyond the process; ``None`` = not stored.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        removals: RowStore[RemovalCount] | None = None,
        tracker: DriftTracker | None = None,
        corrections: RowStore[CorrectionHistory] | None = None,
    ) -> None:
        self.name = name
        self.tracker = DriftTracker() if tracker is None else tracker
        self._clock = clock
        self._corrections = corrections
        self._saved_corrections: Sequence[CorrectionHistory] | None = None
        # Removals that the previous reconciliation counted and whose outcome is unknown.
        self._open: frozenset[Pair] = frozenset()
        self._removals = removals
        self._counts: Sequence[RemovalCount] | None = None if removals else ()

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
            The reconciliation with the drift observations. Counts that cannot be read or written are its error.
        """
        at = self._clock.now()
        try:
            counts = await self._load_counts()
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
        planned: list[QuotaChange] = []

        def corrects(change: QuotaChange) -> bool:
            return counts_drift and self.tracker.corrects(change, at)

        async def count(plan: Plan) -> None:
            # Before anything is sent, so that a crash cannot hide a removal. A retry was counted before.
            planned.extend(change for change in plan.changes if change.pair not in self._open)
            await self._save_counts(counts_after(counts, planned, now=at))

        reconciliation = await reconcile_cluster(
            ports,
            options,
            desired,
            cluster=self.name,
            corrects=corrects,
            before_sending=count,
            refuses_removals=refuses_removals,
            removal_counts=counts,
            counted=self._open,
            fenced=not counts_drift,
        )
        tracker = self._tracker_after(reconciliation)
        if counts_drift:
            self.tracker = tracker
        try:
            sent_pairs = self._sent_pairs(reconciliation.outcome)
            if planned:
                sent = [change for change in planned if change.pair in sent_pairs]
                await self._save_counts(counts_after(counts, sent, now=at))
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

    async def _load_counts(self) -> Sequence[RemovalCount]:
        if self._counts is None and self._removals is not None:
            self._counts = await self._removals.load()
        return self._counts or ()

    async def _save_counts(self, counts: Sequence[RemovalCount]) -> None:
        if self._removals is not None and counts != self._counts:
            await self._removals.save(counts)
        self._counts = counts

    def _sent_pairs(self, outcome: Outcome | None) -> Collection[Pair]:
        """Return the pairs that were sent, and remember those whose outcome is unknown."""
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
        return sent_pairs


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

    Changes that a guard withholds or the broker refuses, and those held because of them, wait for a key or the
    resync: a retry would not change them.
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
    )


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
