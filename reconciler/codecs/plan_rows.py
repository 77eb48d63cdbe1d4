"""Rows of plans and of drift: the types of their JSON, and changes and findings as such rows and back.

A row holds facts alone: texts, counts, sections and levels are derived where it is shown. Fields are declared in the
order in which they are written, which is alphabetical.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, EntityParts, entity_text, from_parts, parts
from reconciler.quota.keys import Key, WrittenValue, key_columns
from reconciler.quota.ownership import Moment, Owner
from reconciler.quota.planner.desired_state import NO_SELECTIONS, Declaration
from reconciler.quota.planner.effects import Direction, Effect
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Action, Cause
from reconciler.quota.state import NO_LIMITS
from reconciler.render.cause_text import REASONS, section_of
from reconciler.render.json_values import read_value, written_value

Time: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A time with its zone, such as ``2025-11-21T12:00:00Z``."""

Place: TypeAlias = Annotated[str, Meta(pattern=r"\A(?:[^\0]+:[0-9]{1,9})?\Z")]
"""``path:line`` of a declaration; "" = none."""


entity_of: Final = lru_cache(maxsize=64)(from_parts)
"""The entity of a row; rows about one entity follow one another."""


class PlanPart(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """An object of the document. A field with its default value is omitted."""


# ---- declarations ----------------------------------------------------------------------------


class ClaimRow(PlanPart, frozen=True, kw_only=True):
    """Name and place of a declaration, and what a selector says of one of its limits."""

    document: str
    file: str
    line: int
    selection: str = ""
    until: Moment | None = None

    def claim(self, subject: Entity) -> Declaration:
        """Return the declaration, without limits."""
        return Declaration(
            document=self.document,
            entity=subject,
            limits=NO_LIMITS,
            path=self.file,
            line=self.line,
            selections=key_columns([self.selection] * len(Key))
            if self.selection
            else NO_SELECTIONS,
            until=self.until,
        )


def claim_row(claim: Declaration, key: Key) -> ClaimRow:
    """Return name and place of a declaration for a key."""
    return ClaimRow(
        document=claim.document,
        file=claim.path,
        line=claim.line_of(key),
        selection=claim.selection_of(key),
        until=claim.until,
    )


# ---- changes ---------------------------------------------------------------------------------


class EffectRow(PlanPart, frozen=True, kw_only=True):
    """What a change does to the clients of its entity."""

    after: WrittenValue
    before: WrittenValue
    direction: Direction


class RecordedRow(PlanPart, frozen=True, kw_only=True):
    """The record of a pair before a change."""

    document: str
    value: WrittenValue


class ChangeRow(PlanPart, frozen=True, kw_only=True):
    """One change, or what is declared under a temporary limit."""

    after: WrittenValue
    before: WrittenValue
    cause: Cause
    claim: ClaimRow | None
    effect: EffectRow | None = None
    entity: EntityParts
    key: Key
    note: str
    of_override: bool = False
    owner: Owner | None
    record: RecordedRow | None

    def change(self) -> QuotaChange:
        """Return the change.

        Raises:
            QuotaValueError: The entity cannot be, or nothing changes.
        """
        subject, record = entity_of(self.entity), self.record
        before, after = read_value(self.before), read_value(self.after)
        if before == after:
            raise QuotaValueError("after should be another value than before")
        return QuotaChange(
            entity=subject,
            key=self.key,
            before=before,
            after=after,
            cause=self.cause,
            claim=None if self.claim is None else self.claim.claim(subject),
            owner=self.owner,
            applied=None if record is None else read_value(record.value),
            recorded=Owner(document=record.document) if record and record.document else None,
            note=self.note,
            of_override=self.of_override,
        )


def change_row(change: QuotaChange, effect: Effect | None = None) -> ChangeRow:
    """Return the facts of one change."""
    claim = change.claim
    return ChangeRow(
        after=written_value(change.after),
        before=written_value(change.before),
        cause=change.cause,
        claim=None if claim is None else claim_row(claim, change.key),
        effect=None
        if effect is None
        else EffectRow(
            after=written_value(effect.after),
            before=written_value(effect.before),
            direction=effect.direction,
        ),
        entity=parts(change.entity),
        key=change.key,
        note=change.note,
        of_override=change.of_override,
        owner=change.owner,
        record=None
        if change.applied is None and change.recorded is None
        else RecordedRow(
            document="" if change.recorded is None else change.recorded.document,
            value=written_value(change.applied),
        ),
    )


# ---- findings --------------------------------------------------------------------------------


class FindingRow(PlanPart, frozen=True, kw_only=True):
    """One pair that is reported and not written."""

    action: Action
    applied: WrittenValue
    cause: Cause
    claim: ClaimRow | None
    desired: WrittenValue
    document: str | None  # of the owner
    entity: EntityParts
    ignored: bool = False
    is_new: bool = False
    key: Key
    live: WrittenValue
    note: str
    of_override: bool = False
    since: Moment | None

    def finding(self) -> Finding:
        """Return the finding.

        Raises:
            QuotaValueError: The entity cannot be.
        """
        subject = entity_of(self.entity)
        return Finding(
            entity=subject,
            key=self.key,
            desired=read_value(self.desired),
            applied=read_value(self.applied),
            live=read_value(self.live),
            cause=self.cause,
            action=self.action,
            claim=None if self.claim is None else self.claim.claim(subject),
            owner=None if self.document is None else Owner(document=self.document),
            since=self.since,
            note=self.note,
            ignored=self.ignored,
            is_new=self.is_new,
            of_override=self.of_override,
        )


def finding_row(finding: Finding) -> FindingRow:
    """Return the facts of one finding."""
    return FindingRow(
        action=finding.action,
        applied=written_value(finding.applied),
        cause=finding.cause,
        claim=None if finding.claim is None else claim_row(finding.claim, finding.key),
        desired=written_value(finding.desired),
        document=None if finding.owner is None else finding.owner.document,
        entity=parts(finding.entity),
        ignored=finding.ignored,
        is_new=finding.is_new,
        key=finding.key,
        live=written_value(finding.live),
        note=finding.note,
        of_override=finding.of_override,
        since=finding.since,
    )


class PrintedFinding(PlanPart, frozen=True, kw_only=True):
    """A finding as it is printed: facts, and what follows from them."""

    applied: WrittenValue
    cause: Cause
    desired: WrittenValue
    document: str | None  # of the owner
    entity: EntityParts
    file: str | None
    key: Key
    line: int | None
    live: WrittenValue
    note: str
    reason: str
    section: str
    since: Time | None
    text: str

    def finding(self) -> Finding:
        """Return a reported finding; it has the section of drift, or is ignored.

        Raises:
            QuotaValueError: The entity or the time cannot be.
        """
        subject = entity_of(self.entity)
        return Finding(
            entity=subject,
            key=self.key,
            desired=read_value(self.desired),
            applied=read_value(self.applied),
            live=read_value(self.live),
            cause=self.cause,
            action=Action.REPORT,
            claim=None
            if self.file is None
            else ClaimRow(document="", file=self.file, line=self.line or 0).claim(subject),
            owner=None if self.document is None else Owner(document=self.document),
            since=None if self.since is None else moment_of("since", self.since),
            note=self.note,
            ignored=self.section == "ignored",
        )


def printed_finding(finding: Finding) -> PrintedFinding:
    """Return a finding as it is printed."""
    claim = finding.claim
    return PrintedFinding(
        applied=written_value(finding.applied),
        cause=finding.cause,
        desired=written_value(finding.desired),
        document=None if finding.owner is None else finding.owner.document,
        entity=parts(finding.entity),
        file=None if claim is None else claim.path,
        key=finding.key,
        line=None if claim is None else claim.line_of(finding.key),
        live=written_value(finding.live),
        note=finding.note,
        reason=REASONS[finding.cause],
        section=section_of(finding),
        since=None if finding.since is None else time_of(finding.since),
        text=entity_text(finding.entity),
    )


def time_of(at: float) -> datetime:
    """Return a time in whole seconds, as documents write it."""
    return datetime.fromtimestamp(int(at), UTC)


def moment_of(name: str, time: datetime) -> float:
    """Return the time of a field in seconds since the epoch.

    Raises:
        QuotaValueError: It is before the epoch, or after the year 9999 in UTC.
    """
    try:
        return msgspec.convert(time.timestamp(), Moment)
    except msgspec.ValidationError as error:
        raise QuotaValueError(f"{name} should be between the years 1970 and 9999") from error
