"""Reading a plan document whole, to show it: everything that reviewers see, nothing that may be applied by it.

``read_plan`` reads what applying needs and makes the rest anew. Who only shows a plan has nobody to ask: the half of
a pull-request workflow that holds the token, a page that is made later. So this reads every section, as strictly; each
sentence that we know how to derive must be the derived one, so that a made-up document cannot put words in our mouth.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from reconciler.quota.advice import Warning as Advice
from reconciler.quota.advice import WarningKind
from reconciler.quota.change import Change, Finding
from reconciler.quota.desired import Conflict, Declaration
from reconciler.quota.entity import Entity, level
from reconciler.quota.guards import Guard, Violation
from reconciler.quota.impact import Affected, Direction, Effect, HiddenRule, Hiding, Impact, Shadow
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Rejected
from reconciler.quota.outlook import Reach
from reconciler.quota.owned import Owner
from reconciler.quota.policy import Action, Cause
from reconciler.quota.precedence import Effective, Principal, bucket
from reconciler.quota.report import Preview, Verdict
from reconciler.quota.state import NO_LIMITS
from reconciler.quota.twins import Twin
from reconciler.render.documents import Reader, load
from reconciler.render.json_plan import FORMAT, KIND, counts
from reconciler.render.names import entity_text
from reconciler.render.read_plan import read_plan, simulation_of
from reconciler.render.reasons import REASONS, SECTIONS, section_of
from reconciler.render.units import instant

if TYPE_CHECKING:
    from reconciler.usage.findings import Simulation

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


def read_preview(text: str, *, where: str) -> Preview:
    """The preview as it was made, except for what only the maker can know (bookkeeping, buckets that lost).

    Raises:
        StalePlan: It has another format, so another version of this program made it.
        ConfigError: It is cut off, edited, or no plan.
    """
    applied = read_plan(text, where=where)
    top = load(text, kind=KIND, format_version=FORMAT, where=where)
    fields = dict(top.pairs())
    plan = replace(
        applied.plan,
        findings=_findings(fields),
        conflicts=_list(fields["conflicts"], _conflict),
        twins=_list(fields["twins"], _twin),
    )
    preview = replace(
        applied,
        plan=plan,
        violations=_list(fields["violations"], _violation),
        verdict=_verdict(fields["validation"]),
        impact=_impact(fields, applied),
        warnings=_list(fields["warnings"], Reader.text),
        advice=_list(fields["advice"], _advice),
        changed_documents=None
        if fields["changedDocuments"].value is None
        else frozenset(_list(fields["changedDocuments"], Reader.text)),
        snapshot_at=fields["snapshotTakenAt"].instant() if "snapshotTakenAt" in fields else None,
    )
    _check_sums(fields, preview)
    return preview


def read_simulation(text: str, *, where: str) -> "Simulation | None":
    """What recorded use said when a plan was made, ``None`` = nobody asked; errors as :func:`read_preview`."""
    return simulation_of(dict(load(text, kind=KIND, format_version=FORMAT, where=where).pairs()))


def _list(reader: Reader, make: Callable[[Reader], T]) -> tuple[T, ...]:
    return tuple(make(one) for one in reader.items())


def _check_sums(fields: dict[str, Reader], preview: Preview) -> None:
    """Nothing, if everything that follows from the rest stands there as it follows."""
    if fields["createdAt"].value != _told(fields["created"], preview.created_at):
        fields["createdAt"].fail(repr(instant(preview.created_at)))
    derived = {"applyable": preview.applyable, "errored": preview.errored}
    for name, value in derived.items():
        if fields[name].truth() is not value:
            fields[name].fail(f"{value}, as the rest of the document says".lower())
    stated, found = dict(fields["counts"].pairs()), counts(preview)
    if stated.keys() != found.keys():
        fields["counts"].fail(f"an object with the fields {', '.join(found)}")
    for name, reader in stated.items():
        if reader.whole() != found[name]:
            reader.fail(f"{found[name]}, as the rest of the document says")


# ---- findings and what stands in the way -------------------------------------------------------


def _findings(fields: dict[str, Reader]) -> tuple[Finding, ...]:
    return tuple(
        read_finding(one, kind.name) for kind in SECTIONS for one in fields[kind.name].items()
    )


def read_finding(reader: Reader, section: str) -> Finding:
    """One finding, which must belong to the section that it stands in."""
    row = reader.fields(*_FINDING)
    subject = _subject(row)
    cause = _CAUSES[row["cause"].one_of(_CAUSES)]
    if row["reason"].value != REASONS[cause]:
        row["reason"].fail(repr(REASONS[cause]))
    document = row["document"].value
    made = Finding(
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
    if row["section"].text() != section or section_of(made) != section:
        row["section"].fail(repr(section_of(made)))
    return made


def _conflict(reader: Reader) -> Conflict:
    row = reader.fields("entity", "text", "key", "claims")
    subject = _subject(row)
    claims: list[Declaration] = []
    for one in row["claims"].items():
        claim = one.fields("document", "file", "line")
        claims.append(_declaration(claim, subject, claim["document"].text()))
    return Conflict(entity=subject, key=_key(row["key"]), claims=tuple(claims))


def _twin(reader: Reader) -> Twin:
    row = reader.fields("entity", "live", "removal")
    keys = row["removal"].text().rpartition("--delete=")[2]
    made = Twin(
        entity=row["entity"].entity(), live=row["live"].entity(), keys=tuple(keys.split(","))
    )
    if not set(made.keys) <= _KEYS.keys() or made.removal != row["removal"].value:
        row["removal"].fail(repr(made.removal))
    return made


def _violation(reader: Reader) -> Violation:
    row = reader.fields("guard", "message", "entity", "text", "key", "file", "line", "allowWith")
    subject = None if row["entity"].value is None else row["entity"].entity()
    text = None if subject is None else entity_text(subject)
    if row["text"].value != text:
        row["text"].fail(repr(text))
    made = Violation(
        guard=_GUARDS[row["guard"].one_of(_GUARDS)],
        message=row["message"].text(),
        entity=subject,
        key=None if row["key"].value is None else _key(row["key"]),
        place="" if row["file"].value is None else f"{row['file'].text()}:{row['line'].whole()}",
    )
    if row["allowWith"].value != made.allow_with:
        row["allowWith"].fail(repr(made.allow_with))
    return made


def _verdict(reader: Reader) -> Verdict:
    row = reader.fields("source", "why", "refused")
    refused: dict[Entity, Rejected] = {}
    for item in row["refused"].items():
        one = item.fields("entity", "text", "code", "name", "message")
        refused[_subject(one)] = Rejected(
            code=one["code"].whole(), name=one["name"].text(), message=one["message"].text()
        )
    return Verdict(source=row["source"].text(), why=row["why"].text(), refused=refused)


def _advice(reader: Reader) -> Advice:
    row = reader.fields("document", "file", "line", "kind", "message", "accepted")
    # Which entity a doubtful rule speaks of is in its message; the place is what is shown beside it.
    anybody = Entity((None, False, False))
    claim = _declaration(row, anybody, row["document"].text())
    return Advice(
        claim=claim,
        kind=WarningKind(row["kind"].one_of(_WARNING_KINDS)),
        message=row["message"].text(),
        accepted=row["accepted"].text(),
    )


# ---- impact ------------------------------------------------------------------------------------


def _impact(fields: dict[str, Reader], preview: Preview) -> Impact | None:
    if fields["impact"].value is None:
        return None
    row = fields["impact"].fields(
        "known", "affected", "shadows", "newShadows", "silentKeys", "hiding"
    )
    effects = tuple(
        _effect(one, change)
        for one, change in zip(fields["changes"].items(), preview.plan.changes, strict=True)
    )
    return Impact(
        effects=effects,
        affected=_list(row["affected"], _affected),
        shadows=_list(row["shadows"], _shadow),
        new_shadows=_list(row["newShadows"], _shadow),
        silent=_list(row["silentKeys"], _key),
        known=row["known"].whole(),
        hiding=_list(row["hiding"], _hiding),
    )


def _effect(reader: Reader, change: Change) -> Effect:
    fields = dict(reader.pairs())
    if "effect" not in fields:
        reader.fail("a change with its effect")
    row = fields["effect"].fields("direction", "before", "after", "factor")
    reach = Reach(before=row["before"].quota_value(), after=row["after"].quota_value(), holds=True)
    if row["factor"].quota_value() != reach.factor:
        row["factor"].fail(f"{reach.factor}, as its two limits say")
    return Effect(
        change=change,
        direction=_DIRECTIONS[row["direction"].one_of(_DIRECTIONS)],
        before=reach.before,
        after=reach.after,
        factor=reach.factor,
    )


def _affected(reader: Reader) -> Affected:
    row = reader.fields(
        "user", "clientId", "ip", "key", "before", "after", "movesBucket", "direction", "factor", "sharing"
    )  # fmt: skip
    user, client_id, ip = (
        None if row[name].value is None else row[name].text() for name in ("user", "clientId", "ip")
    )
    who, key = Principal(user=user, client_id=client_id, ip=ip), _key(row["key"])
    made = Affected(
        principal=who,
        key=key,
        before=_effective(row["before"], key, who),
        after=_effective(row["after"], key, who),
    )
    if row["movesBucket"].truth() is not made.moved:
        row["movesBucket"].fail(f"{made.moved}, as the sources say".lower())
    for name, value in (("direction", str(made.direction)), ("sharing", str(made.sharing))):
        if row[name].value != value:
            row[name].fail(f"{value!r}, as the limits say")
    if row["factor"].quota_value() != made.factor:
        row["factor"].fail(f"{made.factor}, as its two limits say")
    return made


def _effective(reader: Reader, key: Key, who: Principal) -> Effective:
    row = reader.fields("value", "level", "source")
    source = None if row["source"].value is None else row["source"].entity()
    expected = 0 if source is None else level(source)
    if row["level"].whole() != expected:
        row["level"].fail(f"{expected}, the level of its source")
    return Effective(
        key=key,
        value=row["value"].quota_value(),
        source=source,
        level=expected,
        bucket=() if source is None else bucket(source, who),
        lost=(),
    )


def _shadow(reader: Reader) -> Shadow:
    row = reader.fields("entity", "text", "key", "by")
    return Shadow(entity=_subject(row), key=_key(row["key"]), by=row["by"].entity())


def _hiding(reader: Reader) -> Hiding:
    row = reader.fields("entity", "text", "key", "total", "rules")
    made = Hiding(
        entity=_subject(row),
        key=_key(row["key"]),
        rules=_list(row["rules"], _rule),
        total=row["total"].whole(),
    )
    if not 0 < len(made.rules) <= made.total:
        row["total"].fail("at least the number of rules that are named")
    return made


def _rule(reader: Reader) -> HiddenRule:
    row = reader.fields("entity", "text", "value", "file", "line")
    value = row["value"].quota_value()
    if value is None:
        row["value"].fail("a quota value")
    place = "" if row["file"].value is None else f"{row['file'].text()}:{row['line'].whole()}"
    return HiddenRule(entity=_subject(row), value=value, place=place)


# ---- small things ------------------------------------------------------------------------------


def _subject(row: dict[str, Reader]) -> Entity:
    subject = row["entity"].entity()
    if row["text"].value != entity_text(subject):
        row["text"].fail(repr(entity_text(subject)))
    return subject


def _key(reader: Reader) -> Key:
    return _KEYS[reader.one_of(_KEYS)]


def _claim(row: dict[str, Reader], subject: Entity) -> Declaration | None:
    if row["file"].value is None:
        return None
    # A finding names the owner's document only; a claim without one is named by its place.
    return _declaration(row, subject, "")


def _declaration(row: dict[str, Reader], subject: Entity, document: str) -> Declaration:
    return Declaration(
        document=document,
        entity=subject,
        limits=NO_LIMITS,
        path=row["file"].text(),
        line=row["line"].whole(),
    )


def _told(reader: Reader, when: float) -> str:
    try:
        return instant(when)
    except (OverflowError, OSError, ValueError):
        reader.fail("a time that a calendar has")
