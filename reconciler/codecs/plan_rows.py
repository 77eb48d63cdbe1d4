"""Rows of a plan document about one pair each: changes, findings, preconditions. Writer and reader.

A plan may have 30,000 changes, so their rows are read without a :class:`DocumentReader` for each field, and compared
with the row that is written for the decoded change (``plan_text`` compares their texts). An invalid row is read again, field by field, to report the place of the error.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple, NoReturn

from reconciler.codecs.reader import DocumentReader
from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, from_parts, level
from reconciler.quota.entity_forms import entity_json, entity_text, read_json_parts
from reconciler.quota.ip_aliases import IpAlias
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.effects import LimitEffect
from reconciler.quota.planner.impact import Direction, Effect
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.planner.preconditions import Precondition
from reconciler.quota.policy import Action, Cause, DeletionPolicy
from reconciler.quota.state import NO_LIMITS
from reconciler.render.cause_text import REASONS, section_of
from reconciler.render.json_values import SPECIAL, Json, value_json
from reconciler.render.units import instant

_ACTIONS: Final[Mapping[str, Action]] = {
    "orphans": Action.ORPHAN,
    "recorded": Action.RECORD,
    "overrides": Action.NOTHING,
}
"""Action of the findings of a section; ``REPORT`` for all others."""


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
    document: str, path: str, line: int, subject: Entity, selection: str = ""
) -> Declaration:
    return Declaration(
        document=document,
        entity=subject,
        limits=NO_LIMITS,
        path=path,
        line=line,
        selections=(selection, selection, selection, selection, selection),
    )


# ---- changes ---------------------------------------------------------------------------------


def change_row(
    change: QuotaChange, effect: Effect | None, precondition: Precondition
) -> dict[str, Json]:
    """Return one change. ``actions`` is an array, so that a later kind of change may have two."""
    entity, key, claim, owner = change.entity, change.key, change.claim, change.owner
    row: dict[str, Json] = {
        "entity": entity_json(entity),
        "text": entity_text(entity),
        "level": level(entity),
        "key": str(key),
        "actions": [change.action],
        "cause": str(change.cause),
        "before": value_json(change.before),
        "after": value_json(change.after),
        "reason": REASONS[change.cause],
        "note": change.note,
        "owner": None
        if owner is None
        else {
            "document": owner.document,
            "deletionPolicy": None if owner.deletion_policy is None else str(owner.deletion_policy),
            "since": owner.since,
        },
        "record": None
        if precondition.applied is None and not precondition.document
        else {"value": value_json(precondition.applied), "document": precondition.document},
        "file": None if claim is None else claim.path,
        "line": None if claim is None else claim.line_of(key),
        "document": None if claim is None else claim.document,
    }
    if claim is not None and (selection := claim.selection_of(key)):
        row["selection"] = selection
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
    precondition: Precondition


class ChangeReader:
    """Reads rows of changes. Adjacent rows usually have the same entity and owner, which are then shared."""

    def __init__(self) -> None:
        self._parts: object = None
        self._entity = Entity((None, None, None))
        self._owners: dict[tuple[object, object, object], Owner] = {}

    def __call__(self, reader: DocumentReader) -> ChangeRow:
        """Return the change of a row.

        Raises:
            ConfigError: The row is not one that :func:`change_row` writes.
        """
        row: Any = reader.value
        try:
            change_read = self.read(row)
        except (TypeError, ValueError, KeyError, OverflowError, QuotaValueError):
            _fail_change(reader)
        expected = change_row(change_read.change, change_read.effect, change_read.precondition)
        if row != expected or type(row["level"]) is not int:
            reader.expect(expected)
        return change_read

    def read(self, row: Any) -> ChangeRow:  # noqa: ANN401 - JSON
        """Return the change of a row, without a comparison with what :func:`change_row` writes.

        Raises:
            ValueError: A value is invalid (also TypeError, KeyError, OverflowError, QuotaValueError).
        """
        parts, name, cause, live, desired, note, owner, record, path, line, document = _CHANGE(row)
        if parts != self._parts:
            self._entity, self._parts = from_parts(read_json_parts(parts)), parts
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
                _text(document), _text(path), _whole(line), entity, _text(row.get("selection", ""))
            ),
            owner=None if owner is None else self._owner(owner),
            applied=applied,
            note=_text(note),
        )
        return ChangeRow(
            change=change,
            effect=_effect(row["effect"], change) if "effect" in row else None,
            precondition=Precondition(
                entity=entity, key=key, live=before, applied=applied, document=recorded
            ),
        )

    def _owner(self, value: Any) -> Owner:  # noqa: ANN401 - JSON
        document, policy, since = value["document"], value["deletionPolicy"], value["since"]
        owner = self._owners.get((document, policy, since))
        if owner is None:
            if type(since) is bool:
                raise TypeError
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
    limits = LimitEffect(before=_value(row["before"]), after=_value(row["after"]), is_decisive=True)
    return Effect(
        change=change,
        direction=_DIRECTIONS[row["direction"]],
        before=limits.before,
        after=limits.after,
        factor=limits.factor,
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


# ---- findings --------------------------------------------------------------------------------


def finding_row(finding: Finding) -> dict[str, Json]:
    """Return one finding."""
    return {
        "entity": entity_json(finding.entity),
        "text": entity_text(finding.entity),
        "key": str(finding.key),
        "cause": str(finding.cause),
        "section": section_of(finding),
        "desired": value_json(finding.desired),
        "applied": value_json(finding.applied),
        "live": value_json(finding.live),
        "reason": REASONS[finding.cause],
        "note": finding.note,
        "document": finding.owner.document if finding.owner is not None else None,
        "since": None if finding.since is None else instant(finding.since),
        **claim_place(finding.claim, finding.key),
    }


def read_finding(reader: DocumentReader, section: str) -> Finding:
    """Read one finding of a section.

    Raises:
        ConfigError: The row is not one that :func:`finding_row` writes, or it belongs to another section.
    """
    subject = reader["entity"].entity()
    finding = Finding(
        entity=subject,
        key=reader["key"].word(Key),
        desired=reader["desired"].quota_value(),
        applied=reader["applied"].quota_value(),
        live=reader["live"].quota_value(),
        cause=reader["cause"].word(Cause),
        action=_ACTIONS.get(section, Action.REPORT),
        # A finding has only the owner's document; a claim has only its place.
        claim=reader["file"].optional(lambda _: read_claim(reader, subject, "")),
        owner=reader["document"].optional(lambda document: Owner(document=document.text())),
        since=reader["since"].optional(DocumentReader.instant),
        note=reader["note"].text(),
        ignored=section == "ignored",
    )
    if section_of(finding) != section:
        reader["section"].fail(repr(section_of(finding)))
    reader.expect(finding_row(finding))
    return finding


def alias_row(alias: IpAlias) -> dict[str, Json]:
    """Return another live spelling of an address, with the command that removes it."""
    return {
        "entity": entity_json(alias.entity),
        "live": entity_json(alias.live),
        "removal": alias.removal,
    }


# ---- preconditions ---------------------------------------------------------------------------


def precondition_row(precondition: Precondition) -> dict[str, Json]:
    """Return a precondition."""
    return {
        "entity": entity_json(precondition.entity),
        "key": str(precondition.key),
        "live": value_json(precondition.live),
        "applied": value_json(precondition.applied),
        "document": precondition.document,
    }


def read_precondition(reader: DocumentReader) -> Precondition:
    """Read what :func:`precondition_row` wrote.

    Raises:
        ConfigError: It has another form.
    """
    precondition = Precondition(
        entity=reader["entity"].entity(),
        key=reader["key"].word(Key),
        live=reader["live"].quota_value(),
        applied=reader["applied"].quota_value(),
        document=reader["document"].text(),
    )
    reader.expect(precondition_row(precondition))
    return precondition
