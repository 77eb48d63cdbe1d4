"""Records of a run: settled intents of earlier runs, the outcome of a run that ends early, and the final outcome."""

import asyncio
from collections.abc import Collection

from msgspec.structs import replace

from reconciler.errors import Interrupted, InventoryError, KquotaError
from reconciler.quota.outcome import Applied, Unknown
from reconciler.quota.ownership import Pair, RecordChange
from reconciler.quota.results.report import Outcome, PairOutcome, Preview
from reconciler.reconcile import audit_entries, ownership_records
from reconciler.reconcile.observation import Observation
from reconciler.reconcile.options import ReconcileOptions, ReconcilePorts


def close_settled(
    ports: ReconcilePorts,
    observation: Observation,
    options: ReconcileOptions,
    record_changes: Collection[RecordChange],
) -> None:
    """Write the outcome of settled intents to the audit log, if the settlement is about to be recorded.

    The log is written before the records: after a crash in between, the next run settles the intents again.

    Raises:
        InventoryError: The log cannot be read or written.
    """
    if ports.audit is None or not observation.owned.intents:
        return
    recorded = frozenset(record_changes)
    changes = [change for change in observation.settlement.changes if change in recorded]
    outcomes = list(audit_entries.settled_pairs(changes))
    if outcomes:
        ports.audit.append(
            audit_entries.settlement_entries(
                outcomes,
                observation.owned,
                ports.audit.open_intents(observation.cluster_id, {pair for pair, _ in outcomes}),
                now=ports.clock.now(),
                origin=options.origin,
            )
        )


def lost_outcome(
    preview: Preview,
    intended: Collection[Pair],
    options: ReconcileOptions,
    *,
    started: float,
    record_count: int,
) -> Outcome:
    """Return the outcome of a run that ends without a result: intended changes may have been written."""
    plan, reason = preview.plan, "the run ended before it recorded a result"
    return Outcome(
        cluster_id=plan.cluster_id,
        digest=preview.digest,
        pairs=tuple(
            PairOutcome(
                change=change,
                result=Unknown(reason=reason) if change.pair in intended else None,
            )
            for change in plan.changes
        ),
        bookkeeping=record_count,
        failure=reason,
        started_at=started,
        ended_at=started,
        origin=options.origin,
    )


async def record(
    ports: ReconcilePorts,
    outcome: Outcome,
    waiting: Collection[Pair],
    intended: Collection[Pair],
    refused_overrides: Collection[RecordChange] = (),
) -> Outcome:
    """Write the outcome to the audit log and the records; a failure to write becomes part of the returned outcome.

    The audit log is written before the records: a crash in between leaves an intent in the records, which the next run
    settles, and no change without an outcome in the log. Records may be files, git or Kubernetes objects with different
    errors; log and records are written independently of each other's failure.

    A first request to stop does not end the write, and becomes part of the returned outcome; a second one ends it.
    """
    final_outcome = outcome
    # A pair whose earlier write may still take effect, and that was not sent again, stays open in the log.
    open_still = frozenset(
        pair
        for pair_outcome in outcome.pairs
        if (pair := pair_outcome.change.pair) in waiting
        and not isinstance(pair_outcome.result, Applied | Unknown)
    )
    try:
        if ports.audit is not None:
            ports.audit.append(audit_entries.entries(outcome, frozenset(intended) - open_still))
    except InventoryError as error:
        final_outcome = replace(
            final_outcome, recorded=False, failure=final_outcome.failure or str(error)
        )
    results = ownership_records.results(outcome.pairs, waiting=waiting)
    writing = asyncio.ensure_future(
        ports.inventory.write(outcome.cluster_id, (*results, *refused_overrides))
    )
    try:
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            if outcome.interrupted:
                _ = writing.cancel()
                _ = await asyncio.gather(writing, return_exceptions=True)
                raise
            final_outcome = replace(final_outcome, interrupted=True)
            await writing
    except KquotaError as error:
        final_outcome = replace(
            final_outcome, recorded=False, failure=final_outcome.failure or str(error)
        )
    return final_outcome


def interruption(outcome: Outcome) -> Interrupted:
    """Return the error of a run that was stopped, with what became of its changes."""
    counts = [
        f"{outcome.count(word)} {word.lower()}"
        for word in ("APPLIED", "UNKNOWN", "REJECTED", "HELD", "NOT SENT")
        if outcome.count(word)
    ]
    return Interrupted(
        "interrupted: " + (", ".join(counts) or "nothing was sent"),
        outcome=outcome,
        hint="every change was applied; kquota plan shows the current state"
        if outcome.is_applied
        else "run it again to continue",
    )
