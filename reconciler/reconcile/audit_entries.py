"""Entries of the audit log: one per change before it is sent, and one with its outcome.

An entry ``INTENDED`` is written before the first request of a run. The run itself writes the outcome of each
change; after a crash, the next run that settles the intent writes it (``APPLIED`` or ``NOT LANDED``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from reconciler.codecs.audit_log import INTENDED, NOT_LANDED
from reconciler.quota.entity_forms import entity_json
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
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.results.report import Outcome, PairOutcome, PairVisibility, RunOrigin
from reconciler.render.cause_text import waits_text
from reconciler.render.json_values import value_json
from reconciler.render.units import instant


def intent_entries(outcome: Outcome, pairs: Collection[Pair]) -> tuple[Mapping[str, object], ...]:
    """Return an entry for each change that is about to be sent.

    Args:
        pairs: The pairs that are about to be sent.
    """
    run, unchecked = _run(outcome, outcome.started_at), str(PairVisibility.UNCHECKED)
    return tuple(
        {
            **run,
            **_change(change := pair_outcome.change),
            "outcome": INTENDED,
            "seen": unchecked,
            "found": None,
            "words": change.note,
        }
        for pair_outcome in outcome.pairs
        if pair_outcome.change.pair in pairs
    )


def entries(outcome: Outcome, pairs: Collection[Pair] = ()) -> tuple[Mapping[str, object], ...]:
    """Return the outcome entries of every change that was intended, sent or held.

    Args:
        pairs: Pairs with an entry ``INTENDED``; their outcome is written even if they were never sent.
    """
    run, began = _run(outcome, outcome.ended_at), instant(outcome.started_at)
    audit_entries: list[Mapping[str, object]] = []
    for pair_outcome in outcome.pairs:
        was_intended = pair_outcome.change.pair in pairs
        if pair_outcome.result is None and not was_intended:
            continue
        audit_entries.append(
            {
                **run,
                **_change(pair_outcome.change),
                "outcome": pair_outcome.status_text,
                "seen": str(pair_outcome.visibility),
                "found": value_json(pair_outcome.observed_value),
                "words": _result_text(pair_outcome),
                **({"intendedAt": began} if was_intended else {}),
            }
        )
    return tuple(audit_entries)


def settlement_entries(
    outcomes: Iterable[tuple[Pair, str]],
    owned: OwnershipRecords,
    open_intents: Mapping[Pair, Mapping[str, object]] | None,
    *,
    now: float,
    origin: RunOrigin,
) -> tuple[Mapping[str, object], ...]:
    """Return the outcome entries for intents of earlier runs that ended before they recorded a result.

    Args:
        outcomes: The pairs of the settled intents, with their outcomes.
        owned: The records with those intents.
        open_intents: The entries of the log that wait for an outcome; ``None`` = the log cannot be read back: then the
            entry lacks the earlier value, which its ``INTENDED`` has.
        now: Seconds since the epoch.
        origin: The run that settles them.
    """
    audit_entries: list[Mapping[str, object]] = []
    for pair, outcome in outcomes:
        closing = {
            "outcome": outcome,
            "words": "determined by a later describe",
            "settledAt": instant(now),
            "settledBy": origin.author,
        }
        if open_intents is None:
            intent = owned.intents[pair]
            audit_entries.append({**_bare(owned.cluster_id, pair, intent, origin, now), **closing})
        elif (entry := open_intents.get(pair)) is not None:
            audit_entries.append({**entry, **closing, "intendedAt": entry["time"]})
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


def _bare(
    cluster_id: str, pair: Pair, intent: Intent, origin: RunOrigin, now: float
) -> Mapping[str, object]:
    """Return an entry from the records alone: no digest, no cause and no earlier value."""
    time = instant(intent.at or now)
    return {
        "time": time,
        "who": origin.author,
        "commit": "",
        "clusterId": cluster_id,
        "digest": "",
        "entity": entity_json(pair[0]),
        "key": str(pair[1]),
        "after": value_json(intent.value),
        "cause": "",
        "document": intent.owner.document,
        "seen": str(PairVisibility.UNCHECKED),
        "found": None,
        "intendedAt": time,
    }


def _run(outcome: Outcome, at: float) -> Mapping[str, object]:
    """Return the fields that all entries of a run share."""
    return {
        "time": instant(at),
        "who": outcome.origin.author,
        "commit": outcome.origin.commit,
        "clusterId": outcome.cluster_id,
        "digest": outcome.digest,
    }


def _change(change: QuotaChange) -> Mapping[str, object]:
    return {
        "entity": entity_json(change.entity),
        "key": str(change.key),
        "before": value_json(change.before),
        "after": value_json(change.after),
        "cause": str(change.cause),
        "document": _document(change),
    }


def _document(change: QuotaChange) -> str:
    if change.claim is not None:
        return change.claim.document
    return change.owner.document if change.owner is not None else ""


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
