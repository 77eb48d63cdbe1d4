"""The lines of the audit log: one per change, with who, when, commit, before, after and what became of it."""

from collections.abc import Mapping

from reconciler.quota.change import Change
from reconciler.quota.outcome import Held, Rejected, Unknown
from reconciler.quota.report import Outcome, PairOutcome
from reconciler.render.documents import entity_json, value_json
from reconciler.render.names import entity_text
from reconciler.render.units import instant


def entries(outcome: Outcome) -> tuple[Mapping[str, object], ...]:
    """Every change that was sent or held; what was never sent did not happen."""
    time, origin = instant(outcome.ended_at), outcome.origin
    return tuple(
        {
            "time": time,
            "who": origin.who,
            "commit": origin.commit,
            "clusterId": outcome.cluster_id,
            "digest": outcome.digest,
            "entity": entity_json(pair.change.entity),
            "key": pair.change.key.value,
            "before": value_json(pair.change.before),
            "after": value_json(pair.change.after),
            "cause": pair.change.cause.value,
            "document": _document(pair.change),
            "outcome": pair.word,
            "seen": pair.seen.value,
            "found": value_json(pair.found),
            "words": _words(pair),
        }
        for pair in outcome.pairs
        if pair.result is not None
    )


def _document(change: Change) -> str:
    if change.claim is not None:
        return change.claim.document
    return change.owner.document if change.owner is not None else ""


def _words(pair: PairOutcome) -> str:
    match pair.result:
        case Rejected(name=name, message=message):
            return f"{name}: {message}"
        case Held(waits_for=waits_for):
            return "waits for " + "; ".join(map(entity_text, waits_for))
        case Unknown(why=why):
            return why
        case _:
            return pair.change.note
