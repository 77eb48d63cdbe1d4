"""An outcome as a versioned JSON document (``OUTCOME.json``): writer, reader, and reader for a rollback."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from reconciler.codecs.reader import DocumentReader, load
from reconciler.errors import ConfigError
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Applied, Held, Rejected, Result, Unknown
from reconciler.quota.ownership import Owner, Pair
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause, DeletionPolicy
from reconciler.quota.results.report import Outcome, PairOutcome, PairVisibility, RunOrigin
from reconciler.quota.state import Visibility
from reconciler.render.json_values import Json, JsonText, dump, text_of, value_json, value_text
from reconciler.render.units import instant

KIND: Final = "kquota-outcome"
FORMAT: Final = 1

_WORDS: Final = dict.fromkeys(("APPLIED", "HELD", "NOT SENT", "REJECTED", "UNKNOWN"))
_MAY_HAVE_CHANGED: Final = {"APPLIED", "UNKNOWN"}


def outcome_document(outcome: Outcome) -> dict[str, Json]:
    """Return the document of an outcome."""
    return {**_fields(outcome), "pairs": [_pair(pair) for pair in outcome.pairs]}


def _fields(outcome: Outcome) -> dict[str, Json]:
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
        "counts": {word: outcome.count(word) for word in _WORDS},
        "brokers": None
        if visibility is None
        else {
            "visible": list(visibility.visible),
            "lagging": list(visibility.lagging),
            "unreachable": {str(node): reason for node, reason in visibility.unreachable.items()},
        },
    }


class _ChangeTexts(NamedTuple):
    """What a row says of its change, as text: before, between and after what it says of the result."""

    change: QuotaChange
    values: str
    key: str
    record: str
    name: str


class OutcomeWriter:
    """Writes the outcomes of one run as text: what their rows say of a change is encoded once.

    A run writes an outcome before its first request and another one at its end, each with up to 30,000 rows.
    """

    def __init__(self) -> None:
        self._changes: dict[Pair, _ChangeTexts] = {}
        self._reasons: dict[str, str] = {}

    def text(self, outcome: Outcome) -> str:
        """Return the document of an outcome as text."""
        return dump({**_fields(outcome), "pairs": list(map(self._row, outcome.pairs))})

    def _row(self, pair: PairOutcome) -> JsonText:
        """Return the result of :func:`_pair` as text."""
        change, result, reason = pair.change, pair.result, ""
        if type(result) is Unknown:
            reason = self._reasons.get(result.reason) or self._reason(result.reason)
        elif not (result is None or type(result) is Applied):
            return text_of(_pair(pair))
        texts = self._changes.get(change.pair)
        if texts is None or texts.change is not change:
            texts = self._change(change)
        return JsonText(
            f'{texts.values},"found":{value_text(pair.observed_value)}{texts.key}'
            f',"outcome":"{pair.status_text}"{texts.record},"seen":"{pair.visibility}"{texts.name}{reason}}}'
        )

    def _change(self, change: QuotaChange) -> _ChangeTexts:
        entity = change.entity
        texts = self._changes[entity, change.key] = _ChangeTexts(
            change,
            f'{{"after":{value_text(change.after)},"before":{value_text(change.before)}'
            f',"cause":"{change.cause}","entity":{text_of(entity_json(entity))}',
            f',"key":"{change.key}"',
            f',"record":{text_of(_record(change))}',
            f',"text":{text_of(entity_text(entity))}',
        )
        return texts

    def _reason(self, reason: str) -> str:
        text = self._reasons[reason] = f',"why":{text_of(reason)}'
        return text


def _pair(pair: PairOutcome) -> dict[str, Json]:
    change = pair.change
    row: dict[str, Json] = {
        "entity": entity_json(change.entity),
        "text": entity_text(change.entity),
        "key": str(change.key),
        "cause": str(change.cause),
        "before": value_json(change.before),
        "after": value_json(change.after),
        "record": _record(change),
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


def _record(change: QuotaChange) -> Json:
    """Return the record of a pair from before a change, which a rollback restores."""
    owner = change.recorded
    if owner is None:
        return None
    return {
        "value": value_json(change.applied),
        "document": owner.document,
        "deletionPolicy": None if owner.deletion_policy is None else str(owner.deletion_policy),
        "since": owner.since,
        "orphaned": change.is_orphaned,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackSource:
    """The part of an outcome that a rollback needs."""

    cluster: str  # name of the cluster in the project file; "" = not recorded
    cluster_id: str
    digest: str
    # Changes that were or may have been made, with the values and records from before, in plan order.
    changes: tuple[QuotaChange, ...]


def read_undo(text: str, *, location: str) -> RollbackSource:
    """Read the changes of an outcome that were or may have been made, with the values and records from before.

    Raises:
        ConfigError: It is not an outcome, or was edited.
    """
    outcome = read_outcome(text, location=location)
    pairs = [pair.change.pair for pair in outcome.pairs]
    if len(pairs) > len(set(pairs)):
        raise ConfigError(
            "it names a quota key of an entity twice, so it was edited", location=location
        )
    return RollbackSource(
        cluster=outcome.origin.cluster,
        cluster_id=outcome.cluster_id,
        digest=outcome.digest,
        changes=tuple(
            pair.change for pair in outcome.pairs if pair.status_text in _MAY_HAVE_CHANGED
        ),
    )


def read_outcome(text: str, *, location: str) -> Outcome:
    """Read an outcome. The document has no claims, owners or notes of changes."""
    top = load(text, kind=KIND, format_version=FORMAT, location=location)
    origin = top["origin"]
    outcome = Outcome(
        cluster_id=top["clusterId"].text(),
        digest=top["digest"].text(),
        pairs=top["pairs"].rows(_read_pair),
        visibility=top["brokers"].optional(_read_visibility),
        bookkeeping=top["recordChanges"].integer(),
        adopted=top["adopted"].integer(),
        recorded=top["recorded"].boolean(),
        interrupted=top["interrupted"].boolean(),
        failure=top["failure"].text(),
        started_at=top["startedAt"].instant(),
        ended_at=top["endedAt"].instant(),
        origin=RunOrigin(
            author=origin["who"].text(),
            commit=origin["commit"].text(),
            cluster=origin["cluster"].text(),
            tool_version=origin["toolVersion"].text(),
        ),
    )
    top.expect(outcome_document(outcome))
    return outcome


def _read_visibility(row: DocumentReader) -> Visibility:
    return Visibility(
        visible=row["visible"].rows(DocumentReader.integer),
        lagging=row["lagging"].rows(DocumentReader.integer),
        unreachable={
            int(node)
            if node.removeprefix("-").isdecimal()
            else reason.fail("of a broker id"): reason.text()
            for node, reason in row["unreachable"].pairs()
        },
    )


def _read_pair(row: DocumentReader) -> PairOutcome:
    record = row["record"]
    return PairOutcome(
        change=QuotaChange(
            entity=row["entity"].entity(),
            key=row["key"].word(Key),
            before=row["before"].quota_value(),
            after=row["after"].quota_value(),
            cause=row["cause"].word(Cause),
            applied=record.optional(lambda fields: _positive(fields["value"])),
            recorded=record.optional(_read_owner),
            is_orphaned=bool(record.optional(lambda fields: fields["orphaned"].boolean())),
        ),
        result=_read_result(row),
        visibility=row["seen"].word(PairVisibility),
        observed_value=row["found"].quota_value(),
    )


def _positive(number: DocumentReader) -> float:
    value = number.quota_value()
    return value if value is not None and value > 0 else number.fail("a limit above 0")


def _read_owner(row: DocumentReader) -> Owner:
    return Owner(
        document=row["document"].text() or row["document"].fail("the name of a document"),
        deletion_policy=row["deletionPolicy"].optional(lambda policy: policy.word(DeletionPolicy)),
        since=row["since"].number(),
    )


def _read_result(row: DocumentReader) -> Result | None:
    match row["outcome"].choice(_WORDS):
        case "APPLIED":
            return Applied()
        case "REJECTED":
            error = row["error"]
            return Rejected(
                code=error["code"].integer(),
                name=error["name"].text(),
                message=error["message"].text(),
            )
        case "HELD":
            return Held(waits_for=row["waitsFor"].rows(DocumentReader.entity))
        case "UNKNOWN":
            return Unknown(reason=row["why"].text())
        case _:
            return None
