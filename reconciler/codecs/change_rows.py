"""Rows of a plan document about one change each: writer and reader.

A plan may have 30,000 changes, so their rows are read without a :class:`DocumentReader` for each field. Any row that is not
as written is read field by field, to report the place of the error.
"""

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from operator import itemgetter
from typing import Any, Final, NamedTuple, NoReturn

from reconciler.codecs.reader import DocumentReader
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, from_parts, level
from reconciler.quota.entity_forms import entity_json, entity_text, read_json_parts
from reconciler.quota.keys import Key, key_columns
from reconciler.quota.ownership import Owner, Pair
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.effects import change_factor
from reconciler.quota.planner.impact import Direction, Effect
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.policy import Cause, DeletionPolicy
from reconciler.quota.results.report import Preview
from reconciler.quota.state import NO_LIMITS
from reconciler.render.cause_text import REASONS
from reconciler.render.json_values import SPECIAL, Json, value_json

# ---- places ----------------------------------------------------------------------------------


def claim_place(claim: Declaration | None, key: Key) -> dict[str, Json]:
    """Return file and line of a declaration for a key; nulls without a declaration."""
    if claim is None:
        return {"file": None, "line": None}
    return {"file": claim.path, "line": claim.line_of(key)}


def read_claim(row: DocumentReader, subject: Entity, document: str) -> Declaration:
    """Read the part of a declaration that a plan document contains: its name and its place."""
    return _claim(document, row["file"].text(), row["line"].integer(), subject)


def _claim(
    document: str,
    path: str,
    line: int,
    subject: Entity,
    selection: str = "",
    *,
    until: float | None = None,
) -> Declaration:
    return Declaration(
        document=document,
        entity=subject,
        limits=NO_LIMITS,
        path=path,
        line=line,
        selections=key_columns([selection] * len(Key)),
        until=until,
    )


# ---- changes ---------------------------------------------------------------------------------


def printed_change(
    change: QuotaChange, effect: Effect | None, withheld: Iterable[str] = ()
) -> dict[str, Json]:
    """Return one change as it is printed. ``actions`` is an array, so that a later kind of change may have two.

    Args:
        change: The change.
        effect: Its effect; ``None`` = not computed.
        withheld: What refuses it: guards, or "validation".
    """
    return change_row(change, effect) | {
        "text": entity_text(change.entity),
        "level": level(change.entity),
        "actions": [change.action],
        "reason": REASONS[change.cause],
        "withheld": [*withheld],
    }


def reasons_withheld(preview: Preview) -> dict[tuple[Pair, Cause], list[str]]:
    """Return what refuses each row that is refused by itself, by pair and cause."""
    reasons: dict[tuple[Pair, Cause], list[str]] = {}
    for violation in preview.violations:
        entity, key, cause = violation.entity, violation.key, violation.cause
        if entity is not None and key is not None and cause is not None:
            reasons.setdefault(((entity, key), cause), []).append(str(violation.guard))
    for change in preview.plan.changes:
        if change.entity in preview.verdict.rejections:
            reasons.setdefault((change.pair, change.cause), []).append("validation")
    return reasons


def change_row(change: QuotaChange, effect: Effect | None) -> dict[str, Json]:
    """Return the facts of one change."""
    entity, key, claim, owner = change.entity, change.key, change.claim, change.owner
    row: dict[str, Json] = {
        "entity": entity_json(entity),
        "key": str(key),
        "cause": str(change.cause),
        "before": value_json(change.before),
        "after": value_json(change.after),
        "note": change.note,
        "owner": None
        if owner is None
        else {
            "document": owner.document,
            "deletionPolicy": None if owner.deletion_policy is None else str(owner.deletion_policy),
            "since": owner.since,
        },
        "record": None
        if change.applied is None and change.recorded is None
        else {
            "value": value_json(change.applied),
            "document": "" if change.recorded is None else change.recorded.document,
        },
        "file": None if claim is None else claim.path,
        "line": None if claim is None else claim.line_of(key),
        "document": None if claim is None else claim.document,
    }
    if claim is not None and (selection := claim.selection_of(key)):
        row["selection"] = selection
    if claim is not None and claim.until is not None:
        row["until"] = claim.until
    if change.of_override:
        row["ofOverride"] = True
    if effect is not None:
        row["effect"] = {
            "direction": str(effect.direction),
            "before": value_json(effect.before),
            "after": value_json(effect.after),
            "factor": effect.factor,
        }
    return row


def change_summary(change: QuotaChange) -> dict[str, Json]:
    """Return a change for a list that repeats the changes of one cause."""
    return {
        "entity": entity_json(change.entity),
        "text": entity_text(change.entity),
        "key": str(change.key),
        "before": value_json(change.before),
        "after": value_json(change.after),
    }


class ChangeRow(NamedTuple):
    """A change with the other fields of its row; the effect is ``None`` if the document has no impact."""

    change: QuotaChange
    effect: Effect | None


class ChangeReader:
    """Reads rows of changes. Adjacent rows usually have the same entity and owner, which are then shared."""

    def __init__(self) -> None:
        self._entity = Entity((None, None, False))
        self._parts = entity_json(self._entity)
        self._owners: dict[tuple[object, object, object], Owner] = {}

    def __call__(self, reader: DocumentReader) -> ChangeRow:
        """Return the change of a row.

        Raises:
            ConfigError: The row is not one that :func:`change_row` writes.
        """
        row: Any = reader.value
        try:
            change_read = self._read(row)
        except (TypeError, ValueError, KeyError, OverflowError, QuotaValueError):
            _fail_change(reader)
        as_written = change_row(*change_read)
        if row != as_written:
            reader.expect(as_written)
        return change_read

    def _read(self, row: Any) -> ChangeRow:  # noqa: ANN401 - JSON
        """Return the change of a row, from the fields that do not follow from others.

        Raises:
            ValueError: A value is invalid (also TypeError, KeyError, OverflowError, QuotaValueError).
        """
        parts, name, cause, live, desired, note, owner, record, path, line, document = _CHANGE(row)
        if parts != self._parts:
            self._entity = from_parts(read_json_parts(parts))
            self._parts = entity_json(self._entity)
        before, after = _value(live), _value(desired)
        applied, recorded = (
            (None, "") if record is None else (_value(record["value"]), _text(record["document"]))
        )
        if before == after:
            raise ValueError
        entity, key = self._entity, _KEYS[name]
        change = QuotaChange(
            entity=entity,
            key=key,
            before=before,
            after=after,
            cause=_CAUSES[cause],
            claim=None
            if document is None
            else _claim(
                _text(document),
                _text(path),
                _whole(line),
                entity,
                _text(row.get("selection", "")),
                until=_value(row.get("until")),
            ),
            owner=None if owner is None else self._owner(owner),
            applied=applied,
            recorded=Owner(document=recorded) if recorded else None,
            note=_text(note),
            of_override=row.get("ofOverride", False) is True,
        )
        return ChangeRow(
            change=change,
            effect=_effect(row["effect"], change) if "effect" in row else None,
        )

    def _owner(self, value: Any) -> Owner:  # noqa: ANN401 - JSON
        document, policy, since = value["document"], value["deletionPolicy"], value["since"]
        if type(since) not in {int, float} or not isfinite(since):
            raise TypeError
        owner = self._owners.get((document, policy, since))
        if owner is None:
            owner = self._owners[document, policy, since] = Owner(
                document=_text(document),
                deletion_policy=None if policy is None else DeletionPolicy(policy),
                since=float(since),
            )
        return owner


_CHANGE: Final[Callable[[Any], tuple[Any, ...]]] = itemgetter(
    "entity",
    "key",
    "cause",
    "before",
    "after",
    "note",
    "owner",
    "record",
    "file",
    "line",
    "document",
)
"""The fields of a row that do not follow from others."""

_KEYS: Final[Mapping[str, Key]] = {key.value: key for key in Key}
_CAUSES: Final[Mapping[str, Cause]] = {cause.value: cause for cause in Cause}
_DIRECTIONS: Final[Mapping[str, Direction]] = {
    direction.value: direction for direction in Direction
}


def _value(value: Any) -> float | None:  # noqa: ANN401 - JSON
    if value is None or type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    return SPECIAL[value]


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    if type(value) is not str:
        raise TypeError
    return value


def _whole(value: Any) -> int:  # noqa: ANN401 - JSON
    if type(value) is not int:
        raise TypeError
    return value


def _effect(row: Any, change: QuotaChange) -> Effect:  # noqa: ANN401 - JSON
    before, after, _ = (_value(row[name]) for name in ("before", "after", "factor"))
    return Effect(
        change, _DIRECTIONS[row["direction"]], before, after, change_factor(before, after)
    )


def _fail_change(reader: DocumentReader) -> NoReturn:
    """Raise an error about the field that makes the row invalid."""
    _ = reader["entity"].entity(), reader["key"].word(Key), reader["cause"].word(Cause)
    if reader["before"].quota_value() == reader["after"].quota_value():
        reader["after"].fail("another value than before")
    _ = reader["note"].text()
    if reader["document"].value is not None:
        _ = reader["document"].text(), reader["file"].text(), reader["line"].integer()
    if reader["owner"].value is not None:
        owner = reader["owner"]
        _ = owner["document"].text(), owner["since"].number()
        _ = owner["deletionPolicy"].optional(lambda policy: policy.word(DeletionPolicy))
    if reader["record"].value is not None:
        _ = reader["record"]["value"].quota_value(), reader["record"]["document"].text()
    if "effect" in reader:
        effect = reader["effect"]
        _ = effect["direction"].word(Direction)
        _ = effect["before"].quota_value(), effect["after"].quota_value()
    reader.fail("a change of a plan")
