"""Records of a run and its entries of the audit log: intents, settled intents of earlier runs, the final outcome.

An entry ``INTENDED`` is written before the first request of a run. The run itself writes the outcome of each
change; after a crash, the next run that settles the intent writes it (``APPLIED`` or ``NOT LANDED``).
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.errors import Interrupted, InventoryError, KquotaError
from reconciler.quota.entity import parts
from reconciler.quota.ownership import (
    SENDING_SECONDS,
    Intent,
    IntentEnded,
    OwnershipRecords,
    Pair,
    RecordChange,
    RecordDropped,
    Recorded,
)
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.results.audit_entry import ENTRY_VERSION, INTENDED, NOT_LANDED, AuditEntry
from reconciler.quota.results.report import Outcome, PairOutcome, PairVisibility, Preview, RunOrigin
from reconciler.quota.state import Applied, Held, Rejected, Unknown
from reconciler.reconcile import ownership_records
from reconciler.reconcile.observation import Observation
from reconciler.reconcile.options import ReconcileOptions, ReconcilePorts
from reconciler.render.cause_text import waits_text
from reconciler.render.json_values import written_value
from reconciler.render.units import instant


def intent_entries(outcome: Outcome, pairs: Collection[Pair]) -> dict[Pair, AuditEntry]:
    """Return an entry for each change that is about to be sent, in plan order.

    Args:
        outcome: The outcome from before the first request.
        pairs: The pairs that are about to be sent.
    """
    time = instant(outcome.started_at)
    return {
        pair: _entry(outcome, pair_outcome, time, INTENDED, pair_outcome.change.note)
        for pair_outcome in outcome.pairs
        if (pair := pair_outcome.change.pair) in pairs
    }


def entries(outcome: Outcome, intents: Mapping[Pair, AuditEntry]) -> Iterator[AuditEntry]:
    """Yield the outcome entries of every change that was intended, sent or held.

    Args:
        intents: The entries ``INTENDED`` of this run; their outcome is written even if they were never sent.
    """
    time = instant(outcome.ended_at)
    for pair_outcome in outcome.pairs:
        intent = intents.get(pair_outcome.change.pair)
        if intent is not None:
            yield replace(
                intent,
                time=time,
                outcome=pair_outcome.status_text,
                visibility=pair_outcome.visibility,
                observed_value=written_value(pair_outcome.observed_value),
                note=_result_text(pair_outcome),
                intended_at=intent.time,
            )
        elif pair_outcome.result is not None:
            word, note = pair_outcome.status_text, _result_text(pair_outcome)
            yield _entry(outcome, pair_outcome, time, word, note)


def settlement_entries(
    outcomes: Iterable[tuple[Pair, str]],
    owned: OwnershipRecords,
    open_intents: Mapping[Pair, AuditEntry] | None,
    *,
    now: float,
    origin: RunOrigin,
) -> tuple[AuditEntry, ...]:
    """Return the outcome entries for intents of earlier runs that ended before they recorded a result.

    Args:
        outcomes: The pairs of the settled intents, with their outcomes.
        owned: The records with those intents.
        open_intents: The entries of the log that wait for an outcome; ``None`` = the log cannot be read back: then the
            entry lacks the earlier value, which its ``INTENDED`` has.
        now: Seconds since the epoch.
        origin: The run that settles them.
    """
    audit_entries: list[AuditEntry] = []
    for pair, outcome in outcomes:
        entry = (
            _bare(owned.cluster_id, pair, owned.intents[pair], origin, now)
            if open_intents is None
            else open_intents.get(pair)
        )
        if entry is not None:
            audit_entries.append(
                replace(
                    entry,
                    outcome=outcome,
                    note="determined by a later describe",
                    settled_at=instant(now),
                    settled_by=origin.author,
                    intended_at=entry.time,
                )
            )
    return tuple(audit_entries)


def settled_pairs(changes: Iterable[RecordChange]) -> Iterator[tuple[Pair, str]]:
    """Yield the pairs whose intents these record changes settle, with the outcome."""
    for change in changes:
        match change:
            case Recorded() | RecordDropped():
                yield (change.entity, change.key), "APPLIED"
            case IntentEnded():
                yield (change.entity, change.key), NOT_LANDED
            case _:
                pass


def _bare(cluster_id: str, pair: Pair, intent: Intent, origin: RunOrigin, now: float) -> AuditEntry:
    """Return the entry of an intent from the records alone: no digest, no cause and no earlier value."""
    return AuditEntry(
        ENTRY_VERSION,
        instant(intent.at if intent.at <= now else intent.at - SENDING_SECONDS),
        origin.author,
        "",
        cluster_id,
        "",
        entity=parts(pair[0]),
        key=pair[1],
        after=written_value(intent.value),
        cause="",
        document=intent.owner.document,
        outcome=INTENDED,
        visibility=PairVisibility.UNCHECKED,
    )


def _entry(
    outcome: Outcome,
    pair: PairOutcome,
    time: str,
    word: str,
    note: str,
) -> AuditEntry:
    change, origin = pair.change, outcome.origin
    return AuditEntry(
        ENTRY_VERSION,
        time,
        origin.author,
        origin.commit,
        outcome.cluster_id,
        outcome.digest,
        entity=parts(change.entity),
        key=change.key,
        before=written_value(change.before),
        after=written_value(change.after),
        cause=change.cause,
        document=change.document,
        outcome=word,
        visibility=pair.visibility,
        observed_value=written_value(pair.observed_value),
        note=note,
    )


def _result_text(pair_outcome: PairOutcome) -> str:
    match pair_outcome.result:
        case Rejected(name=name, message=message):
            return f"{name}: {message}"
        case Held(waits_for=waits_for):
            return waits_text(pair_outcome.change.entity, waits_for)
        case Unknown(reason=reason):
            return reason
        case _:
            return pair_outcome.change.note


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
    outcomes = list(settled_pairs(changes))
    if outcomes:
        ports.audit.append(
            settlement_entries(
                outcomes,
                observation.owned,
                ports.audit.open_intents(observation.cluster_id, {pair for pair, _ in outcomes}),
                now=ports.clock.now(),
                origin=options.origin,
            )
        )


def lost_outcome(
    preview: Preview,
    changes: Iterable[QuotaChange],
    intended: Collection[Pair],
    options: ReconcileOptions,
    *,
    at: float,
    records: int,
) -> Outcome:
    """Return the outcome of a run that ends without a result: intended changes may have been written.

    Args:
        preview: The plan.
        changes: Its changes, with the records from before it.
        intended: The pairs that are about to be sent.
        options: The options of the run.
        at: When it begins, in seconds since the epoch.
        records: The number of record changes.
    """
    plan, reason = preview.plan, "the run ended before it recorded a result"
    return Outcome(
        cluster_id=plan.cluster_id,
        digest=preview.digest,
        pairs=tuple(
            PairOutcome(
                change=change,
                result=Unknown(reason=reason) if change.pair in intended else None,
            )
            for change in changes
        ),
        bookkeeping=records,
        failure=reason,
        started_at=at,
        ended_at=at,
        origin=options.origin,
    )


async def record(
    ports: ReconcilePorts,
    outcome: Outcome,
    waiting: Collection[Pair],
    intents: Mapping[Pair, AuditEntry],
    refused_overrides: Collection[RecordChange] = (),
) -> Outcome:
    """Write the outcome to the audit log and the records; a failure to write becomes part of the returned outcome.

    The audit log is written before the records: a crash in between leaves an intent in the records, which the next run
    settles, and no change without an outcome in the log. Records may be files, git or Kubernetes objects with different
    errors; log and records are written independently of each other's failure.

    A first request to stop does not end the write, and becomes part of the returned outcome; a second one ends it.
    """
    final_outcome = outcome
    if waiting:
        # A pair whose earlier write may still take effect, and that was not sent again, stays open in the log.
        sent = {
            pair.change.pair for pair in outcome.pairs if isinstance(pair.result, Applied | Unknown)
        }
        intents = {
            pair: entry for pair, entry in intents.items() if pair in sent or pair not in waiting
        }
    try:
        if ports.audit is not None:
            ports.audit.append(tuple(entries(outcome, intents)))
    except InventoryError as error:
        final_outcome = replace(
            final_outcome, recorded=False, failure=final_outcome.failure or str(error)
        )
    results = ownership_records.results(outcome.pairs, waiting=waiting, until=outcome.ended_at)
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
