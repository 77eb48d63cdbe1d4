"""The lines of the audit log: one per change, with who, when, commit, before, after and what became of it."""

from collections.abc import Mapping

from reconciler.quota.outcome import Held, Rejected, Unknown
from reconciler.quota.report import Outcome, PairOutcome
from reconciler.render.documents import entity_json, value_json
from reconciler.render.names import entity_text
from reconciler.render.units import instant


def entries(outcome: Outcome) -> tuple[Mapping[str, object], ...]:
    """Every change that was sent or held; what was never sent did not happen."""
    head = {
        "time": instant(outcome.ended_at),
        "who": outcome.origin.who,
        "commit": outcome.origin.commit,
        "clusterId": outcome.cluster_id,
        "digest": outcome.digest,
    }
    return tuple({**head, **_entry(pair)} for pair in outcome.pairs if pair.result is not None)


def _entry(pair: PairOutcome) -> Mapping[str, object]:
    change = pair.change
    owner = change.claim.document if change.claim is not None else ""
    return {
        "entity": entity_json(change.entity),
        "key": str(change.key),
        "before": value_json(change.before),
        "after": value_json(change.after),
        "cause": str(change.cause),
        "document": owner or (change.owner.document if change.owner is not None else ""),
        "outcome": pair.word,
        "seen": pair.seen.value,
        "found": value_json(pair.found),
        "words": _words(pair),
    }


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
