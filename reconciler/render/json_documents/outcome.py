"""An outcome as a versioned JSON document (``OUTCOME.json``), and what ``rollback`` reads of it."""

from dataclasses import dataclass
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Held, Rejected, Unknown
from reconciler.quota.results.report import Outcome, PairOutcome
from reconciler.render.json_documents.codec import (
    Json,
    entity_json,
    load,
    value_json,
)
from reconciler.render.names import entity_text
from reconciler.render.units import instant

KIND: Final = "kquota-outcome"
FORMAT: Final = 1

_WORDS: Final = {"APPLIED", "REJECTED", "HELD", "UNKNOWN", "NOT SENT"}
_MAY_HAVE_CHANGED: Final = {"APPLIED", "UNKNOWN"}
_KEYS: Final = {str(key): key for key in Key}


def outcome_document(outcome: Outcome) -> dict[str, Json]:
    """The document of an outcome."""
    visibility = outcome.visibility
    return {
        "kind": KIND,
        "format": FORMAT,
        "clusterId": outcome.cluster_id,
        "digest": outcome.digest,
        "startedAt": instant(outcome.started_at),
        "endedAt": instant(outcome.ended_at),
        "origin": {
            "who": outcome.origin.author,
            "commit": outcome.origin.commit,
            "cluster": outcome.origin.cluster,
            "toolVersion": outcome.origin.tool_version,
        },
        "complete": outcome.complete,
        "interrupted": outcome.interrupted,
        "recorded": outcome.recorded,
        "failure": outcome.failure,
        "recordChanges": outcome.bookkeeping,
        "adopted": outcome.adopted,
        "counts": {word: outcome.count(word) for word in sorted(_WORDS)},
        "brokers": None
        if visibility is None
        else {
            "visible": list(visibility.visible),
            "lagging": list(visibility.lagging),
            "unreachable": {str(node): reason for node, reason in visibility.unreachable.items()},
        },
        "pairs": [_pair(pair) for pair in outcome.pairs],
    }


def _pair(pair: PairOutcome) -> dict[str, Json]:
    change = pair.change
    row: dict[str, Json] = {
        "entity": entity_json(change.entity),
        "text": entity_text(change.entity),
        "key": str(change.key),
        "cause": str(change.cause),
        "before": value_json(change.before),
        "after": value_json(change.after),
        "outcome": pair.status_text,
        "seen": pair.visibility.value,
        "found": value_json(pair.observed_value),
    }
    match pair.result:
        case Rejected(code=code, name=name, message=message):
            row["error"] = {"code": code, "name": name, "message": message}
        case Held(waits_for=waits_for):
            row["waitsFor"] = [entity_json(blocker) for blocker in waits_for]
        case Unknown(reason=reason):
            row["why"] = reason
        case _:
            pass
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackSource:
    """What a rollback needs of an outcome.

    Attributes:
        cluster: Name of the cluster in the project file; "" = not on record.
        cluster_id: Which cluster it was.
        digest: Of the plan that was applied.
        before: Pairs that may have been changed, with the values from before, in plan order.
    """

    cluster: str
    cluster_id: str
    digest: str
    before: tuple[tuple[Entity, Key, float | None], ...]


def read_undo(text: str, *, location: str) -> RollbackSource:
    """The pairs of an outcome that were changed, or may have been, with their values from before.

    Raises:
        ConfigError: It is cut off, edited out of shape, of another kind or format.
    """
    top = load(text, kind=KIND, format_version=FORMAT, location=location)
    fields = top.fields(
        "kind", "format", "clusterId", "digest", "startedAt", "endedAt", "origin", "complete", "interrupted",
        "recorded", "failure", "recordChanges", "adopted", "counts", "brokers", "pairs",
    )  # fmt: skip
    before: list[tuple[Entity, Key, float | None]] = []
    for item in fields["pairs"].items():
        row = item.fields(
            "entity", "text", "key", "cause", "before", "after", "outcome", "seen", "found",
            optional=("error", "waitsFor", "why"),
        )  # fmt: skip
        word = row["outcome"].choice(dict.fromkeys(_WORDS))
        pair = (
            row["entity"].entity(),
            _KEYS[row["key"].choice(_KEYS)],
            row["before"].quota_value(),
        )
        _ = row["after"].quota_value()
        if word in _MAY_HAVE_CHANGED:
            before.append(pair)
    origin = fields["origin"].fields("who", "commit", "toolVersion", optional=("cluster",))
    return RollbackSource(
        cluster=origin["cluster"].text() if "cluster" in origin else "",
        cluster_id=fields["clusterId"].text(),
        digest=fields["digest"].text(),
        before=tuple(before),
    )
