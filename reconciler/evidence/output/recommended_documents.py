"""Recommendations as ClientQuota documents, each with its evidence as a comment: existing documents with new limits, and new ones."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec.structs import replace

from reconciler.errors import QuotaValueError, UsageError
from reconciler.manifest.document import DEFAULT_NAMESPACE
from reconciler.manifest.export import document_name
from reconciler.manifest.writer import document_text
from reconciler.quota.entity import Entity, entity_text
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.state import NO_LIMITS, with_value
from reconciler.render.use.units import length_text, share_text, units_text
from reconciler.usage.impact.result_rows import EvidenceNote, RecommendationRow
from reconciler.usage.impact.tier_policy import own_entity
from reconciler.usage.reports.client import ClientLimitRow
from reconciler.usage.samples import KEY_OF, QuotaType, in_kafka_units


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredDocuments:
    """The documents of one cluster."""

    cluster: str
    # All of them, including suspended ones, after grants; no two active ones declare the same pair.
    declarations: tuple[Declaration, ...] = ()
    # The same as in their files, by document.
    written: Mapping[str, Declaration] = field(default_factory=dict[str, Declaration])


@dataclass(frozen=True, slots=True, kw_only=True)
class _DocumentChange:
    """New limits for one document."""

    subject: Entity
    declaration: Declaration | None  # the existing document; None = a new one
    rows: tuple[RecommendationRow, ...]  # at least one, each with a target

    @property
    def place(self) -> tuple[str, str, int, str]:
        """The sort key of documents."""
        declaration = self.declaration
        return (
            entity_text(self.subject),
            *(
                (declaration.path, declaration.line, declaration.document)
                if declaration
                else ("", 0, "")
            ),
        )


def documents(
    rows: Iterable[RecommendationRow], declared: DeclaredDocuments, evidence: EvidenceNote
) -> str:
    """Render ClientQuota documents for changes of one cluster, each with its evidence; "" for none.

    A limit is added to the document that declares it, else to the first document of its entity; that document is repeated
    whole, with labels and annotations but without comments of its file, and its comment lists the document it replaces.
    Other entities get a new document.

    Raises:
        UsageError: A recorded name cannot be written in a document.
    """
    by_entity: defaultdict[Entity, list[Declaration]] = defaultdict(list)
    for declaration in sorted(declared.declarations, key=_preferred):
        by_entity[declaration.entity].append(declaration)
    changes: dict[tuple[Entity, Declaration | None], list[RecommendationRow]] = {}
    for row in rows:
        subject = own_entity(row.bucket)
        if subject is not None and row.target_units is not None:
            owner_document = _owner(by_entity.get(subject, ()), KEY_OF[row.quota_type])
            changes.setdefault((subject, owner_document), []).append(row)
    document_names = {declaration.document for declaration in declared.declarations}
    document_changes = [
        _DocumentChange(subject=subject, declaration=owner_document, rows=tuple(each))
        for (subject, owner_document), each in changes.items()
    ]
    return "".join(
        _document(change, declared, evidence, document_names=document_names)
        for change in sorted(document_changes, key=lambda change: change.place)
    )


def limit_patch(row: ClientLimitRow, declared: DeclaredDocuments) -> str:
    """Render a ClientQuota that sets one limit to its target, named as the document that declares it; "" without a target.

    Raises:
        UsageError: A recorded name cannot be written in a document.
    """
    subject = own_entity(row.bucket)
    if subject is None or row.target_units is None:
        return ""
    key = KEY_OF[row.quota_type]
    declarations = sorted(declared.declarations, key=_preferred)
    owner = _owner([each for each in declarations if each.entity == subject], key)
    names = {declaration.document for declaration in declarations}
    value = in_kafka_units(row.quota_type, row.target_units)
    declaration = Declaration(
        document=_new_name(subject, names) if owner is None else owner.document,
        entity=subject,
        limits=with_value(NO_LIMITS, key, value),
    )
    return _document_text(declaration, declared.cluster)


def _preferred(declaration: Declaration) -> tuple[bool, str, int, str]:
    return declaration.suspended, declaration.path, declaration.line, declaration.document


def _owner(declarations: Sequence[Declaration], key: Key) -> Declaration | None:
    """Return the document that declares the limit or may declare it; a second document would be a second owner of the pair."""
    column = COLUMN_OF[key]
    declaring = [
        declaration for declaration in declarations if declaration.limits[column] is not None
    ]
    return next(iter(declaring or declarations), None)


def _document(
    change: _DocumentChange,
    declared: DeclaredDocuments,
    evidence: EvidenceNote,
    *,
    document_names: set[str],
) -> str:
    subject, declaration = change.subject, change.declaration
    if declaration is None:
        base = Declaration(
            document=_new_name(subject, document_names), entity=subject, limits=NO_LIMITS
        )
    else:
        base = declared.written[declaration.document]
    limits = base.limits
    for row in change.rows:
        if row.target_units is not None:
            value = in_kafka_units(row.quota_type, row.target_units)
            limits = with_value(limits, KEY_OF[row.quota_type], value)
    lines = [
        f"# Recommended for {entity_text(subject)}: {_origin_text(declaration)}. Not applied until it is merged."
    ]
    lines += [f"# {line}" for line in _window_lines(evidence)]
    lines += [f"# {line}" for row in change.rows for line in _evidence_lines(row)]
    text = _document_text(replace(base, limits=limits), declared.cluster)
    head, _, remainder = text.partition("\n")
    return "\n".join((head, *map(_comment_text, lines), remainder))


def _document_text(declaration: Declaration, cluster: str) -> str:
    try:
        return document_text(declaration, cluster=cluster)
    except QuotaValueError as wrong:
        subject = entity_text(declaration.entity)
        raise UsageError(f"{subject} cannot be written: {wrong.message}") from wrong


def _origin_text(declaration: Declaration | None) -> str:
    if declaration is None:
        return "a new document"
    suspended = "suspended " if declaration.suspended else ""
    return f"replaces the {suspended}document {declaration.document} in {declaration.path}:{declaration.line}"


def _comment_text(text: str) -> str:
    """Replace characters that could end the comment line: names come from clients and are not trusted."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _new_name(subject: Entity, document_names: set[str]) -> str:
    """Return an unused document name, derived from the entity so that a second run gives the same name."""
    base = f"{DEFAULT_NAMESPACE}/{document_name(subject)}"
    name, number = base, 1
    while name in document_names:
        number += 1
        name = f"{base}-{number}"
    document_names.add(name)
    return name


def _window_lines(evidence: EvidenceNote) -> list[str]:
    begin, end = (
        datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        for ms in (evidence.from_ms, evidence.to_ms)
    )
    first = (
        f"Evidence: {begin} to {end} UTC of cluster {evidence.cluster_id}, brokers were up"
        f" {share_text(evidence.coverage_ppm)} of it; limits as of snapshot {evidence.snapshot_id}."
    )
    return [first] + [f"Incomplete: {problem}." for problem in evidence.partial[:3]]


def _evidence_lines(row: RecommendationRow) -> list[str]:
    kind = row.quota_type
    sure, cut = share_text(row.confidence_ppm), share_text(row.censored_ppm)
    subject_lines = [
        f"tier {row.tier}",
        *([f"needed {units_text(kind, row.needed_units)}"] if row.needed_units else []),
        f"rules: {', '.join(row.rules) or 'none'}",
        f"{row.samples:,} samples of {row.brokers} brokers, confidence {sure}, censored {cut}",
    ]
    units_change = f"{units_text(kind, row.current_units)} -> {units_text(kind, row.target_units)}"
    first = f"{KEY_OF[kind]}: {units_change} ({'; '.join(subject_lines)})."
    second = (
        f"  throttled {share_text(row.train_share_ppm)} of the time it was sized by, worst delay"
        f" {length_text(row.train_max_delay_ms)}; {share_text(row.test_share_ppm)} of the unseen week, worst"
        f" delay {length_text(row.test_max_delay_ms)}."
    )
    if kind is not QuotaType.FETCH:
        return [first, second]
    third = "  These are the best case of a consumer, which gets all of its limit; large fetches get less."
    return [first, second, third]
