"""Reading a plan document whole, to show it: everything that reviewers see, nothing that may be applied by it.

``read_plan`` reads what applying needs and makes the rest anew. A job that only shows a plan cannot make it anew: the half of
a pull-request workflow that holds the token, a page that is made later. So this reads every section, as strictly; each
sentence that we know how to derive must be the derived one, so that a made-up document cannot put words in our mouth.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from reconciler.quota.entity import Entity, level
from reconciler.quota.ip_aliases import IpAlias
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Rejected
from reconciler.quota.ownership import Owner
from reconciler.quota.planner.desired_state import Declaration, DeclarationConflict
from reconciler.quota.planner.effects import LimitEffect
from reconciler.quota.planner.guards import Guard, Violation
from reconciler.quota.planner.impact import (
    AffectedPrincipal,
    Direction,
    Effect,
    HiddenRule,
    HidingOrphan,
    Impact,
    ShadowedLimit,
)
from reconciler.quota.planner.plan import Finding, QuotaChange
from reconciler.quota.policy import Action, Cause
from reconciler.quota.precedence import EffectiveLimit, Principal, bucket
from reconciler.quota.results.report import Preview, ValidationResult
from reconciler.quota.rule_warnings import RuleWarning, WarningKind
from reconciler.quota.state import NO_LIMITS
from reconciler.render.cause_text import REASONS, SECTIONS, section_of
from reconciler.render.json_documents.codec import DocumentReader, load
from reconciler.render.json_documents.plan import FORMAT, KIND, counts
from reconciler.render.json_documents.plan_reader import read_plan, simulation_of
from reconciler.render.names import entity_text
from reconciler.render.units import instant

if TYPE_CHECKING:
    from reconciler.usage.impact.result_rows import Simulation

T = TypeVar("T")

_KEYS = {str(key): key for key in Key}
_WARNING_KINDS = {str(kind): kind for kind in WarningKind}
_CAUSES = {str(cause): cause for cause in Cause}
_GUARDS = {str(guard): guard for guard in Guard}
_DIRECTIONS = {str(direction): direction for direction in Direction}

_FINDING = (
    "entity", "text", "key", "cause", "section", "desired", "applied", "live", "reason", "note", "document", "since",
    "file", "line",
)  # fmt: skip

_ACTIONS = {"orphans": Action.ORPHAN, "recorded": Action.RECORD, "overrides": Action.NOTHING}
"""What was to be done about the findings of a section; ``REPORT`` for all others."""


def read_preview(text: str, *, location: str) -> Preview:
    """The preview as it was made, except for what only the maker can know (bookkeeping, buckets that lost).

    Raises:
        StalePlan: It has another format, so another version of this program made it.
        ConfigError: It is cut off, edited, or no plan.
    """
    applied = read_plan(text, location=location)
    top = load(text, kind=KIND, format_version=FORMAT, location=location)
    fields = dict(top.pairs())
    plan = replace(
        applied.plan,
        findings=_findings(fields),
        conflicts=_list(fields["conflicts"], _conflict),
        ip_aliases=_list(fields["twins"], _twin),
    )
    preview = replace(
        applied,
        plan=plan,
        violations=_list(fields["violations"], _violation),
        verdict=_verdict(fields["validation"]),
        impact=_impact(fields, applied),
        warnings=_list(fields["warnings"], DocumentReader.text),
        advice=_list(fields["advice"], _advice),
        changed_documents=None
        if fields["changedDocuments"].value is None
        else frozenset(_list(fields["changedDocuments"], DocumentReader.text)),
        snapshot_at=fields["snapshotTakenAt"].instant() if "snapshotTakenAt" in fields else None,
    )
    _check_sums(fields, preview)
    return preview


def read_simulation(text: str, *, location: str) -> "Simulation | None":
    """What recorded use said when a plan was made, ``None`` = not requested; errors as :func:`read_preview`."""
    return simulation_of(
        dict(load(text, kind=KIND, format_version=FORMAT, location=location).pairs())
    )


def _list(reader: DocumentReader, make: Callable[[DocumentReader], T]) -> tuple[T, ...]:
    return tuple(make(row) for row in reader.items())


def _check_sums(fields: dict[str, DocumentReader], preview: Preview) -> None:
    """Nothing, if everything that follows from the rest stands there as it follows."""
    if fields["createdAt"].value != _instant_text(fields["created"], preview.created_at):
        fields["createdAt"].fail(repr(instant(preview.created_at)))
    derived = {"applyable": preview.applyable, "errored": preview.errored}
    for name, value in derived.items():
        if fields[name].truth() is not value:
            fields[name].fail(f"{value}, as the rest of the document says".lower())
    stated, computed = dict(fields["counts"].pairs()), counts(preview)
    if stated.keys() != computed.keys():
        fields["counts"].fail(f"an object with the fields {', '.join(computed)}")
    for name, reader in stated.items():
        if reader.integer() != computed[name]:
            reader.fail(f"{computed[name]}, as the rest of the document says")


# ---- findings and what stands in the way -------------------------------------------------------


def _findings(fields: dict[str, DocumentReader]) -> tuple[Finding, ...]:
    return tuple(
        read_finding(row, kind.name) for kind in SECTIONS for row in fields[kind.name].items()
    )


def read_finding(reader: DocumentReader, section: str) -> Finding:
    """One finding, which must belong to the section that it stands in."""
    row = reader.fields(*_FINDING)
    subject = _subject(row)
    cause = _CAUSES[row["cause"].choice(_CAUSES)]
    if row["reason"].value != REASONS[cause]:
        row["reason"].fail(repr(REASONS[cause]))
    document = row["document"].value
    finding = Finding(
        entity=subject,
        key=_key(row["key"]),
        desired=row["desired"].quota_value(),
        applied=row["applied"].quota_value(),
        live=row["live"].quota_value(),
        cause=cause,
        action=_ACTIONS.get(section, Action.REPORT),
        claim=_claim(row, subject),
        owner=None if document is None else Owner(document=row["document"].text()),
        since=None if row["since"].value is None else row["since"].instant(),
        note=row["note"].text(),
        ignored=section == "ignored",
    )
    if row["section"].text() != section or section_of(finding) != section:
        row["section"].fail(repr(section_of(finding)))
    return finding


def _conflict(reader: DocumentReader) -> DeclarationConflict:
    row = reader.fields("entity", "text", "key", "claims")
    subject = _subject(row)
    claims: list[Declaration] = []
    for claim_reader in row["claims"].items():
        claim = claim_reader.fields("document", "file", "line")
        claims.append(_declaration(claim, subject, claim["document"].text()))
    return DeclarationConflict(entity=subject, key=_key(row["key"]), claims=tuple(claims))


def _twin(reader: DocumentReader) -> IpAlias:
    row = reader.fields("entity", "live", "removal")
    keys = row["removal"].text().rpartition("--delete=")[2]
    alias = IpAlias(
        entity=row["entity"].entity(), live=row["live"].entity(), keys=tuple(keys.split(","))
    )
    if not set(alias.keys) <= _KEYS.keys() or alias.removal != row["removal"].value:
        row["removal"].fail(repr(alias.removal))
    return alias


def _violation(reader: DocumentReader) -> Violation:
    row = reader.fields("guard", "message", "entity", "text", "key", "file", "line", "allowWith")
    subject = None if row["entity"].value is None else row["entity"].entity()
    text = None if subject is None else entity_text(subject)
    if row["text"].value != text:
        row["text"].fail(repr(text))
    violation = Violation(
        guard=_GUARDS[row["guard"].choice(_GUARDS)],
        message=row["message"].text(),
        entity=subject,
        key=None if row["key"].value is None else _key(row["key"]),
        place="" if row["file"].value is None else f"{row['file'].text()}:{row['line'].integer()}",
    )
    if row["allowWith"].value != violation.allow_with:
        row["allowWith"].fail(repr(violation.allow_with))
    return violation


def _verdict(reader: DocumentReader) -> ValidationResult:
    row = reader.fields("source", "why", "refused")
    rejections: dict[Entity, Rejected] = {}
    for item in row["refused"].items():
        fields = item.fields("entity", "text", "code", "name", "message")
        rejections[_subject(fields)] = Rejected(
            code=fields["code"].integer(),
            name=fields["name"].text(),
            message=fields["message"].text(),
        )
    return ValidationResult(
        source=row["source"].text(), reason=row["why"].text(), rejections=rejections
    )


def _advice(reader: DocumentReader) -> RuleWarning:
    row = reader.fields("document", "file", "line", "kind", "message", "accepted")
    # Which entity a doubtful rule speaks of is in its message; the place is what is shown beside it.
    anybody = Entity((None, False, False))
    claim = _declaration(row, anybody, row["document"].text())
    return RuleWarning(
        claim=claim,
        kind=WarningKind(row["kind"].choice(_WARNING_KINDS)),
        message=row["message"].text(),
        accepted=row["accepted"].text(),
    )


# ---- impact ------------------------------------------------------------------------------------


def _impact(fields: dict[str, DocumentReader], preview: Preview) -> Impact | None:
    if fields["impact"].value is None:
        return None
    row = fields["impact"].fields(
        "known", "affected", "shadows", "newShadows", "silentKeys", "hiding"
    )
    effects = tuple(
        _effect(row, change)
        for row, change in zip(fields["changes"].items(), preview.plan.changes, strict=True)
    )
    return Impact(
        effects=effects,
        affected=_list(row["affected"], _affected),
        shadows=_list(row["shadows"], _shadow),
        new_shadows=_list(row["newShadows"], _shadow),
        silent=_list(row["silentKeys"], _key),
        principal_count=row["known"].integer(),
        hiding=_list(row["hiding"], _hiding),
    )


def _effect(reader: DocumentReader, change: QuotaChange) -> Effect:
    fields = dict(reader.pairs())
    if "effect" not in fields:
        reader.fail("a change with its effect")
    row = fields["effect"].fields("direction", "before", "after", "factor")
    effect = LimitEffect(
        before=row["before"].quota_value(), after=row["after"].quota_value(), is_decisive=True
    )
    if row["factor"].quota_value() != effect.factor:
        row["factor"].fail(f"{effect.factor}, as its two limits say")
    return Effect(
        change=change,
        direction=_DIRECTIONS[row["direction"].choice(_DIRECTIONS)],
        before=effect.before,
        after=effect.after,
        factor=effect.factor,
    )


def _affected(reader: DocumentReader) -> AffectedPrincipal:
    row = reader.fields(
        "user", "clientId", "ip", "key", "before", "after", "movesBucket", "direction", "factor", "sharing"
    )  # fmt: skip
    user, client_id, ip = (
        None if row[name].value is None else row[name].text() for name in ("user", "clientId", "ip")
    )
    principal, key = Principal(user=user, client_id=client_id, ip=ip), _key(row["key"])
    affected = AffectedPrincipal(
        principal=principal,
        key=key,
        before=_effective(row["before"], key, principal),
        after=_effective(row["after"], key, principal),
    )
    if row["movesBucket"].truth() is not affected.moved:
        row["movesBucket"].fail(f"{affected.moved}, as the sources say".lower())
    for name, value in (("direction", str(affected.direction)), ("sharing", str(affected.sharing))):
        if row[name].value != value:
            row[name].fail(f"{value!r}, as the limits say")
    if row["factor"].quota_value() != affected.factor:
        row["factor"].fail(f"{affected.factor}, as its two limits say")
    return affected


def _effective(reader: DocumentReader, key: Key, principal: Principal) -> EffectiveLimit:
    row = reader.fields("value", "level", "source")
    source = None if row["source"].value is None else row["source"].entity()
    expected = 0 if source is None else level(source)
    if row["level"].integer() != expected:
        row["level"].fail(f"{expected}, the level of its source")
    return EffectiveLimit(
        key=key,
        value=row["value"].quota_value(),
        source=source,
        level=expected,
        bucket=() if source is None else bucket(source, principal),
        overridden=(),
    )


def _shadow(reader: DocumentReader) -> ShadowedLimit:
    row = reader.fields("entity", "text", "key", "by")
    return ShadowedLimit(entity=_subject(row), key=_key(row["key"]), by=row["by"].entity())


def _hiding(reader: DocumentReader) -> HidingOrphan:
    row = reader.fields("entity", "text", "key", "total", "rules")
    hiding = HidingOrphan(
        entity=_subject(row),
        key=_key(row["key"]),
        rules=_list(row["rules"], _rule),
        total=row["total"].integer(),
    )
    if not 0 < len(hiding.rules) <= hiding.total:
        row["total"].fail("at least the number of rules that are named")
    return hiding


def _rule(reader: DocumentReader) -> HiddenRule:
    row = reader.fields("entity", "text", "value", "file", "line")
    value = row["value"].quota_value()
    if value is None:
        row["value"].fail("a quota value")
    place = "" if row["file"].value is None else f"{row['file'].text()}:{row['line'].integer()}"
    return HiddenRule(entity=_subject(row), value=value, place=place)


# ---- small things ------------------------------------------------------------------------------


def _subject(row: dict[str, DocumentReader]) -> Entity:
    subject = row["entity"].entity()
    if row["text"].value != entity_text(subject):
        row["text"].fail(repr(entity_text(subject)))
    return subject


def _key(reader: DocumentReader) -> Key:
    return _KEYS[reader.choice(_KEYS)]


def _claim(row: dict[str, DocumentReader], subject: Entity) -> Declaration | None:
    if row["file"].value is None:
        return None
    # A finding names the owner's document only; a claim without one is named by its place.
    return _declaration(row, subject, "")


def _declaration(row: dict[str, DocumentReader], subject: Entity, document: str) -> Declaration:
    return Declaration(
        document=document,
        entity=subject,
        limits=NO_LIMITS,
        path=row["file"].text(),
        line=row["line"].integer(),
    )


def _instant_text(reader: DocumentReader, when: float) -> str:
    try:
        return instant(when)
    except (OverflowError, OSError, ValueError):
        reader.fail("a time that a calendar has")
