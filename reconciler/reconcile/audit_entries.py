"""Entries of the audit log: one per change before it is sent, and one with its outcome.

An entry ``INTENDED`` is written before the first request of a run. The run itself writes the outcome of each
change; after a crash, the next run that settles the intent writes it (``APPLIED`` or ``NOT LANDED``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import UNSET, UnsetType, structs

from reconciler.quota.entity import parts
from reconciler.quota.outcome import Held, Rejected, Unknown
from reconciler.quota.ownership import (
    Intent,
    IntentEnded,
    OwnershipRecords,
    Pair,
    RecordChange,
    RecordDropped,
    Recorded,
)
from reconciler.quota.results.audit_entry import ENTRY_VERSION, INTENDED, NOT_LANDED, AuditEntry
from reconciler.quota.results.report import Outcome, PairOutcome, PairVisibility, RunOrigin
from reconciler.render.cause_text import waits_text
from reconciler.render.json_values import written_value
from reconciler.render.units import instant


def intent_entries(outcome: Outcome, pairs: Collection[Pair]) -> tuple[AuditEntry, ...]:
    """Return an entry for each change that is about to be sent.

    Args:
        outcome: The outcome from before the first request.
        pairs: The pairs that are about to be sent.
    """
    time = instant(outcome.started_at)
    return tuple(
        _entry(outcome, pair, time, INTENDED, pair.change.note)
        for pair in outcome.pairs
        if pair.change.pair in pairs
    )


def entries(outcome: Outcome, pairs: Collection[Pair] = ()) -> tuple[AuditEntry, ...]:
    """Return the outcome entries of every change that was intended, sent or held.

    Args:
        pairs: Pairs with an entry ``INTENDED``; their outcome is written even if they were never sent.
    """
    time, began = instant(outcome.ended_at), instant(outcome.started_at)
    return tuple(
        _entry(
            outcome,
            pair,
            time,
            pair.status_text,
            _result_text(pair),
            intended_at=began if was_intended else UNSET,
        )
        for pair in outcome.pairs
        if (was_intended := pair.change.pair in pairs) or pair.result is not None
    )


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
                structs.replace(
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
        instant(intent.at or now),
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
    *,
    intended_at: str | UnsetType = UNSET,
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
        intended_at=intended_at,
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
