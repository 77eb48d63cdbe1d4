"""An outcome as a versioned JSON document (``OUTCOME.json``): its types, writer, reader, and reader for a rollback.

Fields are declared in the order in which they are written, which is alphabetical.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, TypeAlias, cast, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from reconciler.base.compact_json import exact
from reconciler.codecs.plan_rows import Time, entity_of, moment_of, time_of
from reconciler.codecs.reader import edited, typed
from reconciler.errors import ConfigError, QuotaValueError
from reconciler.quota.entity import EntityParts, entity_text, parts
from reconciler.quota.keys import Key, WrittenValue
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause, DeletionPolicy
from reconciler.quota.results.report import Outcome, PairOutcome, PairVisibility, RunOrigin
from reconciler.quota.state import Applied, Held, Rejected, Result, Unknown, Visibility
from reconciler.render.json_values import Json, dump_pieces, read_value, written_value

KIND: Final = "kquota-outcome"
FORMAT: Final = 1

_Word: TypeAlias = Literal["APPLIED", "HELD", "NOT SENT", "REJECTED", "UNKNOWN"]
_Limit: TypeAlias = Annotated[int, Meta(gt=0)] | Annotated[float, Meta(gt=0)] | Literal["Infinity"]
_MAY_HAVE_CHANGED: Final = {"APPLIED", "UNKNOWN"}


_NAMES: Final = {
    "author": "who",
    "cluster_id": "clusterId",
    "deletion_policy": "deletionPolicy",
    "ended_at": "endedAt",
    "observed_value": "found",
    "reason": "why",
    "record_changes": "recordChanges",
    "started_at": "startedAt",
    "tool_version": "toolVersion",
    "visibility": "seen",
    "waits_for": "waitsFor",
}
"""Fields that the document names otherwise."""


class _OutcomePart(Struct, gc=False, forbid_unknown_fields=True, rename=_NAMES):
    """An object of the document."""


class _EarlierRecord(_OutcomePart):
    """The record of a pair from before a change, which a rollback restores."""

    deletion_policy: DeletionPolicy | None
    document: Annotated[str, Meta(min_length=1)]
    orphaned: bool
    since: float
    value: _Limit


class _BrokerRefusal(_OutcomePart):
    code: int
    message: str
    name: str


class _OutcomeRow(_OutcomePart, kw_only=True):
    """One change with its result."""

    after: WrittenValue
    before: WrittenValue
    cause: Cause
    entity: EntityParts
    error: _BrokerRefusal | UnsetType = UNSET
    observed_value: WrittenValue
    key: Key
    outcome: _Word
    record: _EarlierRecord | None
    returning: WrittenValue | UnsetType = UNSET
    visibility: PairVisibility
    text: str
    waits_for: tuple[EntityParts, ...] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class _OutcomeDocument(_OutcomePart, kw_only=True, tag_field="kind", tag=KIND):
    adopted: int
    brokers: Visibility | None
    cluster_id: str
    complete: bool
    counts: dict[_Word, int]
    digest: str
    ended_at: Time
    failure: str
    format: Literal[1] = FORMAT
    interrupted: bool
    origin: RunOrigin
    pairs: list[_OutcomeRow]
    record_changes: int
    recorded: bool
    started_at: Time


# ---- writing ---------------------------------------------------------------------------------


def outcome_document(outcome: Outcome) -> dict[str, Json]:
    """Return the document of an outcome."""
    document: dict[str, Json] = msgspec.to_builtins(
        _document(outcome, list(map(_row, outcome.pairs))), str_keys=True, enc_hook=float
    )
    return document


class OutcomeWriter:
    """Writes the outcome of one run twice, before and after its requests; between them only the results differ."""

    def __init__(self) -> None:
        self._pairs: Sequence[PairOutcome] = ()
        self._rows: list[_OutcomeRow] = []

    def pieces(self, outcome: Outcome) -> Iterator[str]:
        """Return the text of the document of an outcome, in pieces."""
        if [pair.change for pair in self._pairs] == [pair.change for pair in outcome.pairs]:
            for row, pair in zip(self._rows, outcome.pairs, strict=True):
                _set_result(row, pair)
        else:
            self._pairs, self._rows = outcome.pairs, list(map(_row, outcome.pairs))
        return dump_pieces(_document(outcome, self._rows))


def _document(outcome: Outcome, rows: list[_OutcomeRow]) -> _OutcomeDocument:
    return _OutcomeDocument(
        adopted=outcome.adopted,
        brokers=outcome.visibility,
        cluster_id=outcome.cluster_id,
        complete=outcome.complete,
        counts={word: outcome.count(word) for word in get_args(_Word)},
        digest=outcome.digest,
        ended_at=time_of(outcome.ended_at),
        failure=outcome.failure,
        interrupted=outcome.interrupted,
        origin=outcome.origin,
        pairs=rows,
        record_changes=outcome.bookkeeping,
        recorded=outcome.recorded,
        started_at=time_of(outcome.started_at),
    )


def _row(pair: PairOutcome) -> _OutcomeRow:
    change = pair.change
    row = _OutcomeRow(
        after=written_value(change.after),
        before=written_value(change.before),
        cause=change.cause,
        entity=parts(change.entity),
        observed_value=None,
        key=change.key,
        outcome="NOT SENT",
        record=None if change.recorded is None else _record(change, change.recorded),
        returning=UNSET if change.returning is UNSET else written_value(change.returning),
        visibility=PairVisibility.UNCHECKED,
        text=entity_text(change.entity),
    )
    _set_result(row, pair)
    return row


def _set_result(row: _OutcomeRow, pair: PairOutcome) -> None:
    result = pair.result
    row.outcome = cast("_Word", pair.status_text)
    row.visibility = pair.visibility
    row.observed_value = written_value(pair.observed_value)
    row.error = (
        _BrokerRefusal(code=result.code, message=result.message, name=result.name)
        if isinstance(result, Rejected)
        else UNSET
    )
    row.waits_for = tuple(map(parts, result.waits_for)) if isinstance(result, Held) else UNSET
    row.reason = result.reason if isinstance(result, Unknown) else UNSET


def _record(change: QuotaChange, owner: Owner) -> _EarlierRecord:
    return _EarlierRecord(
        deletion_policy=owner.deletion_policy,
        document=owner.document,
        orphaned=change.is_orphaned,
        since=exact(owner.since),
        value=cast("_Limit", written_value(change.applied)),
    )


# ---- reading ---------------------------------------------------------------------------------


class RollbackSource(Struct, frozen=True, kw_only=True, gc=False):
    """The part of an outcome that a rollback needs."""

    cluster: str  # name of the cluster in the project file; "" = not recorded
    cluster_id: str
    digest: str
    # Changes that were or may have been made, with the values and records from before, in plan order.
    changes: tuple[QuotaChange, ...]


def read_undo(text: str, *, location: str) -> RollbackSource:
    """Read the changes of an outcome that were or may have been made, with the values and records from before.

    Raises:
        ConfigError: It is not an outcome, or it names a quota key of an entity twice.
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
    """Read an outcome. The document has no claims, owners or notes of changes.

    Raises:
        ConfigError: It is not an outcome.
    """
    document = typed(text, _OutcomeDocument, format_version=FORMAT, location=location)
    try:
        return _outcome(document)
    except QuotaValueError as error:
        raise edited(str(error), location) from error


def _outcome(document: _OutcomeDocument) -> Outcome:
    return Outcome(
        cluster_id=document.cluster_id,
        digest=document.digest,
        pairs=tuple(_pairs(document.pairs)),
        visibility=document.brokers,
        bookkeeping=document.record_changes,
        adopted=document.adopted,
        recorded=document.recorded,
        interrupted=document.interrupted,
        failure=document.failure,
        started_at=moment_of("startedAt", document.started_at),
        ended_at=moment_of("endedAt", document.ended_at),
        origin=document.origin,
    )


def _pairs(rows: list[_OutcomeRow]) -> Iterator[PairOutcome]:
    for at, row in enumerate(rows):
        try:
            yield _pair(row)
        except (ValueError, QuotaValueError) as error:
            raise QuotaValueError(f"pairs[{at}]: {error}") from error


def _pair(row: _OutcomeRow) -> PairOutcome:
    record = row.record
    return PairOutcome(
        change=QuotaChange(
            entity=entity_of(row.entity),
            key=row.key,
            before=read_value(row.before),
            after=read_value(row.after),
            cause=row.cause,
            applied=None if record is None else read_value(record.value),
            recorded=None
            if record is None
            else msgspec.convert(record, Owner, from_attributes=True),
            is_orphaned=record is not None and record.orphaned,
            returning=UNSET if row.returning is UNSET else read_value(row.returning),
        ),
        result=_result(row),
        visibility=row.visibility,
        observed_value=read_value(row.observed_value),
    )


def _result(row: _OutcomeRow) -> Result | None:
    """Return the result of a row; details of another result are ignored."""
    match row:
        case _OutcomeRow(outcome="APPLIED"):
            return Applied()
        case _OutcomeRow(
            outcome="REJECTED", error=_BrokerRefusal(code=code, name=name, message=message)
        ):
            return Rejected(code=code, name=name, message=message)
        case _OutcomeRow(outcome="HELD", waits_for=tuple(blockers)):
            return Held(waits_for=tuple(map(entity_of, blockers)))
        case _OutcomeRow(outcome="UNKNOWN", reason=str(reason)):
            return Unknown(reason=reason)
        case _OutcomeRow(outcome="NOT SENT"):
            return None
        case _:
            raise ValueError(f"it is {row.outcome} without its details")
