"""Reading a saved plan back, strictly: what was edited, cut off, or made by another version is refused.

The digest is computed from the operations that are read, and must be the one that stands in the document. That
shows an edit; it is no signature, so ``apply`` also recomputes the plan from the documents.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from reconciler.errors import ConfigError, QuotaValueError, StalePlan
from reconciler.quota.entity import Entity, from_parts, level
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.preconditions import Precondition, Preconditions
from reconciler.quota.policy import Cause, DeletionPolicy, DriftMode, Policy
from reconciler.quota.results.report import Preview, RunOrigin, ValidationResult
from reconciler.quota.state import NO_LIMITS
from reconciler.render.cause_text import REASONS, SECTIONS
from reconciler.render.json_documents.codec import DocumentReader, load
from reconciler.render.json_documents.plan import FORMAT, KIND, document_digest
from reconciler.render.names import entity_text

if TYPE_CHECKING:
    from reconciler.usage.impact.result_rows import Simulation

_KEYS = {str(key): key for key in Key}
_CAUSES = {str(cause): cause for cause in Cause}
_POLICIES = {str(policy): policy for policy in Policy}
_DRIFT_MODES = {str(mode): mode for mode in DriftMode}
_DELETION_POLICIES = {str(policy): policy for policy in DeletionPolicy}

_USED = (
    "clusterId", "created", "origin", "policy", "driftDetection", "complete", "removalsKnown", "digest", "documentDigest",
    "counts", "changes", "reliedOn", "validation",
)  # fmt: skip
_OTHERS = (
    "kind", "format", "createdAt", "applyable", "errored", "takeover", "exclusive", "corrected", "conflicts", "twins",
    "violations", "warnings", "advice", "changedDocuments", "impact", *(kind.name for kind in SECTIONS),
)  # fmt: skip
_CHANGE = (
    "entity", "text", "level", "key", "actions", "cause", "before", "after", "reason", "note", "owner", "record",
    "file", "line", "document",
)  # fmt: skip


def read_plan(text: str, *, location: str) -> Preview:
    """The preview as far as applying it needs: changes, what they stand on, when and for which cluster.

    Guards, impact and findings are left out: the run that applies makes them anew, from the trusted side.

    Raises:
        StalePlan: It has another format, so another version of this program made it.
        ConfigError: It is cut off, edited, or no plan.
    """
    try:
        top = load(text, kind=KIND, format_version=FORMAT, location=location)
    except ConfigError as error:
        if error.key == "format":
            raise StalePlan(str(error), differences=(error.message,), hint=error.hint) from error
        raise
    fields = top.fields(*_USED, *_OTHERS, optional=("snapshotTakenAt", "simulation"))
    _ = simulation_of(fields)
    quick = _FastReader()
    read = [quick.change(row.value) or _change(row) for row in fields["changes"].items()]
    plan = Plan(
        cluster_id=fields["clusterId"].text(),
        changes=tuple(change for change, _ in read),
        desired_pairs=_count(fields["counts"], "declared"),
        in_sync=_count(fields["counts"], "inSync"),
        owned_pairs=_count(fields["counts"], "owned"),
        removals_known=fields["removalsKnown"].truth(),
        complete=fields["complete"].truth(),
    )
    if plan.digest != fields["digest"].text():
        raise ConfigError(
            "its changes and its digest do not belong together, so it was edited",
            location=location,
            hint="plan again",
        )
    created = fields["created"].number()
    if document_digest(plan.digest, created) != fields["documentDigest"].text():
        raise ConfigError(
            "its time and its digests do not belong together, so it was edited",
            location=location,
            hint="plan again",
        )
    origin = fields["origin"].fields("who", "commit", "cluster", "toolVersion")
    return Preview(
        plan=plan,
        preconditions=Preconditions(
            pairs=tuple(precondition for _, precondition in read),
            relied_on=tuple(_read_precondition(row) for row in fields["reliedOn"].items()),
        ),
        verdict=ValidationResult(
            source=fields["validation"].fields("source", "why", "refused")["source"].text()
        ),
        policy=_POLICIES[fields["policy"].choice(_POLICIES)],
        drift_mode=_DRIFT_MODES[fields["driftDetection"].choice(_DRIFT_MODES)],
        created_at=created,
        snapshot_at=created if "snapshotTakenAt" in fields else None,
        origin=RunOrigin(
            author=origin["who"].text(),
            commit=origin["commit"].text(),
            cluster=origin["cluster"].text(),
            tool_version=origin["toolVersion"].text(),
        ),
    )


def simulation_of(fields: Mapping[str, DocumentReader]) -> "Simulation | None":
    """What recorded use said when the plan was made; ``None`` = not requested.

    Raises:
        ConfigError: The section was edited, or made by another version.
    """
    if "simulation" not in fields:
        return None
    from reconciler.render.json_documents.simulation import read_whatif  # noqa: PLC0415 - the models of use, only for plans that hold them

    return read_whatif(fields["simulation"], fields["clusterId"].text())


class _FastReader:
    """Reads plain changes many times as fast; whatever is the least bit odd is left to the careful way.

    That way accepts exactly the same and names the place of a fault, so nothing here raises or decides. Neighbours
    mostly speak of the same entity and owner, which are then shared.
    """

    def __init__(self) -> None:
        self._last_names: object = None
        self._subject: tuple[Entity, str, int] | None = None
        self._owners: dict[tuple[str, str | None, float], Owner] = {}

    def change(self, row: object) -> tuple[QuotaChange, Precondition] | None:
        """The change of a row, or ``None``: ask the careful way."""
        if not isinstance(row, dict) or len(row) != len(_CHANGE) + ("effect" in row):
            return None
        try:
            return self._change(row)
        except (TypeError, ValueError, KeyError, OverflowError, QuotaValueError):
            return None

    def _change(self, row: dict[str, object]) -> tuple[QuotaChange, Precondition] | None:
        (
            names, text, number, name, actions, cause_text, live, desired, reason, note, owner, record, path, line, document,
        ) = _FIELDS_OF_CHANGE(row)  # fmt: skip
        before = live if live is None or type(live) is float else _number(live)
        after = desired if desired is None or type(desired) is float else _number(desired)
        applied, recorded = None, ""
        if record is not None:
            applied, recorded = _number(record["value"]), record["document"]
            if type(recorded) is not str or len(record) != 2:
                return None
        if before == after or type(note) is not str:
            return None
        cause = _CAUSES[cause_text]
        entity, *displayed = self._entity(names)
        if [text, number] != displayed or type(number) is not int or reason != REASONS[cause]:
            return None
        change = QuotaChange(
            entity=entity,
            key=_KEYS[name],
            before=before,
            after=after,
            cause=cause,
            claim=_claim_of(document, path, line, entity),
            owner=None if owner is None else self._owner(owner),
            applied=applied,
            note=note,
        )
        if actions != [change.action]:
            return None
        return change, Precondition(
            entity=entity, key=change.key, live=before, applied=applied, document=recorded
        )

    def _entity(self, names: object) -> tuple[Entity, str, int]:
        if self._subject is not None and names == self._last_names:
            return self._subject
        if not isinstance(names, list):
            raise TypeError
        for part in names:
            kind, name = part
            if not (type(part) is list and type(kind) is str and type(name) in _NAMES):
                raise TypeError
        entity = from_parts(names)
        self._last_names, self._subject = names, (entity, entity_text(entity), level(entity))
        return self._subject

    def _owner(self, value: dict[str, object]) -> Owner:
        document, policy, since = _FIELDS_OF_OWNER(value)
        if type(document) is not str or type(since) is not float or len(value) != 3:
            raise TypeError
        key = (document, policy, since)
        known_owner = self._owners.get(key)
        if known_owner is None:
            known_owner = self._owners[key] = Owner(
                document=document,
                deletion_policy=None if policy is None else _DELETION_POLICIES[policy],
                since=since,
            )
        return known_owner


def _claim_of(document: object, path: object, line: object, entity: Entity) -> Declaration | None:
    if document is None:
        return None
    if not (type(document) is str and type(path) is str and type(line) is int):
        raise TypeError
    return _claimed(document, path, line, entity)


_NAMES = (str, type(None))
_FIELDS_OF_OWNER: Callable[[dict[str, Any]], tuple[Any, ...]] = itemgetter(
    "document", "deletionPolicy", "since"
)
_FIELDS_OF_CHANGE: Callable[[dict[str, Any]], tuple[Any, ...]] = itemgetter(*_CHANGE)


def _change(reader: DocumentReader) -> tuple[QuotaChange, Precondition]:
    row = reader.fields(*_CHANGE, optional=("effect",))
    subject = row["entity"].entity()
    key = _KEYS[row["key"].choice(_KEYS)]
    before, after = row["before"].quota_value(), row["after"].quota_value()
    if before == after:
        row["after"].fail("another value than before")
    cause = _CAUSES[row["cause"].choice(_CAUSES)]
    displayed = {"text": entity_text(subject), "level": level(subject), "reason": REASONS[cause]}
    for name, value in displayed.items():
        # Policies and people read these; they must match the entity.
        if row[name].value != value or isinstance(row[name].value, bool):
            row[name].fail(repr(value))
    applied, document = None, ""
    if row["record"].value is not None:
        record = row["record"].fields("value", "document")
        applied, document = record["value"].quota_value(), record["document"].text()
    change = QuotaChange(
        entity=subject,
        key=key,
        before=before,
        after=after,
        cause=cause,
        claim=_claim(row, subject),
        owner=_owner(row["owner"]),
        applied=applied,
        note=row["note"].text(),
    )
    if [action.text() for action in row["actions"].items()] != [change.action]:
        row["actions"].fail(f'["{change.action}"], as before and after say')
    return change, Precondition(
        entity=subject, key=key, live=before, applied=applied, document=document
    )


def _claim(row: dict[str, DocumentReader], subject: Entity) -> Declaration | None:
    if row["document"].value is None:
        return None
    return _claimed(row["document"].text(), row["file"].text(), row["line"].integer(), subject)


def _claimed(document: str, path: str, line: int, subject: Entity) -> Declaration:
    """The declaration as far as a plan keeps it: its name and its place."""
    return Declaration(document=document, entity=subject, limits=NO_LIMITS, path=path, line=line)


def _number(value: object) -> float | None:
    """A plain number or nothing.

    Raises:
        TypeError: It is something else, such as a name for a value that JSON cannot say.
    """
    if value is None or type(value) is float:
        return value
    if type(value) is not int:
        raise TypeError
    return float(value)


def _owner(reader: DocumentReader) -> Owner | None:
    if reader.value is None:
        return None
    owner = reader.fields("document", "deletionPolicy", "since")
    policy = owner["deletionPolicy"]
    return Owner(
        document=owner["document"].text(),
        deletion_policy=None
        if policy.value is None
        else _DELETION_POLICIES[policy.choice(_DELETION_POLICIES)],
        since=owner["since"].number(),
    )


def _read_precondition(reader: DocumentReader) -> Precondition:
    fields = reader.fields("entity", "key", "live", "applied", "document")
    return Precondition(
        entity=fields["entity"].entity(),
        key=_KEYS[fields["key"].choice(_KEYS)],
        live=fields["live"].quota_value(),
        applied=fields["applied"].quota_value(),
        document=fields["document"].text(),
    )


def _count(reader: DocumentReader, name: str) -> int:
    count_reader = dict(reader.pairs()).get(name)
    return (
        reader.fail(f"an object with the field {name!r}")
        if count_reader is None
        else count_reader.integer()
    )
