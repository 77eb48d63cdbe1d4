"""Recommendations as ClientQuota documents, each with its evidence as a comment: those that are there with new limits, and new ones."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from reconciler.errors import QuotaValueError, UsageError
from reconciler.manifest import source
from reconciler.manifest.document import DEFAULT_NAMESPACE
from reconciler.manifest.document_names import document_name
from reconciler.manifest.write import document_text
from reconciler.quota.desired import Declaration
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.state import NO_LIMITS, replaced
from reconciler.render.names import entity_text
from reconciler.render.use_words import length_text, share_text, units_text
from reconciler.usage.findings import Evidence, RecommendationRow
from reconciler.usage.samples import KEY_OF, in_kafka_units
from reconciler.usage.tiers import own_entity


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the documents of one cluster say.

    Attributes:
        cluster: What they call the cluster.
        declarations: All of them, suspended ones too; no two active ones declare one pair.
        texts: The files that hold them, by the paths of the declarations.
    """

    cluster: str
    declarations: tuple[Declaration, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    def written(self, one: Declaration) -> tuple[Declaration, Mapping[str, str]]:
        """A declaration as its file writes it, and its annotations.

        Raises:
            UsageError: The file does not hold it.
        """
        found = source.written(self.texts.get(one.path, ""), self.cluster, one)
        if found is None:
            raise UsageError(f"{one.path}:{one.line} holds no document {one.document}")
        return found.declaration, found.annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """New limits for one document.

    Attributes:
        subject: Whose limits.
        known: The document that is there; ``None`` = a new one.
        rows: At least one, each with a target.
    """

    subject: Entity
    known: Declaration | None
    rows: tuple[RecommendationRow, ...]

    @property
    def place(self) -> tuple[str, str, int, str]:
        """By what documents are sorted."""
        known = self.known
        return (entity_text(self.subject), *((known.path, known.line, known.document) if known else ("", 0, "")))  # fmt: skip


def documents(rows: Iterable[RecommendationRow], declared: Declared, evidence: Evidence) -> str:
    """ClientQuota documents for changes of one cluster, each with its evidence; "" for none.

    A limit goes into the document that declares it, else into the first that speaks of its entity; that document is
    repeated whole, with labels and annotations, and says which one it replaces. For any other entity there is a
    new one. Comments of a file are not repeated.

    Args:
        rows: Changes.
        declared: What the documents of the cluster say.
        evidence: What all of it rests on.

    Raises:
        UsageError: A name that was recorded cannot stand in a document.
    """
    by_entity: defaultdict[Entity, list[Declaration]] = defaultdict(list)
    for one in sorted(declared.declarations, key=_preferred):
        by_entity[one.entity].append(one)
    changes: dict[tuple[Entity, Declaration | None], list[RecommendationRow]] = {}
    for row in rows:
        subject = own_entity(row.bucket)
        if subject is not None and row.target_units is not None:
            known = _owner(by_entity.get(subject, ()), KEY_OF[row.quota_type])
            changes.setdefault((subject, known), []).append(row)
    taken = {one.document for one in declared.declarations}
    made = [
        _Change(subject=subject, known=known, rows=tuple(each))
        for (subject, known), each in changes.items()
    ]
    return "".join(
        _document(one, declared, evidence, taken=taken)
        for one in sorted(made, key=lambda one: one.place)
    )


def _preferred(one: Declaration) -> tuple[bool, str, int, str]:
    return one.suspended, one.path, one.line, one.document


def _owner(known: Sequence[Declaration], key: Key) -> Declaration | None:
    """The document whose limit this is, or to be; a second one would be a second owner of the pair."""
    column = COLUMN_OF[key]
    declaring = [one for one in known if one.limits[column] is not None]
    return next(iter(declaring or known), None)


def _document(change: _Change, declared: Declared, evidence: Evidence, *, taken: set[str]) -> str:
    subject, known = change.subject, change.known
    annotations: Mapping[str, str] = {}
    if known is None:
        base = Declaration(document=_new_name(subject, taken), entity=subject, limits=NO_LIMITS)
    else:
        base, annotations = declared.written(known)
    limits = base.limits
    for row in change.rows:
        if row.target_units is not None:
            value = in_kafka_units(row.quota_type, row.target_units)
            limits = replaced(limits, KEY_OF[row.quota_type], value)
    lines = [
        f"# Recommended for {entity_text(subject)}: {_where(known)}. Nothing is applied before it is merged."
    ]
    lines += [f"# {line}" for line in _window_lines(evidence)]
    lines += [f"# {line}" for row in change.rows for line in _evidence_lines(row)]
    try:
        text = document_text(
            replace(base, limits=limits), cluster=declared.cluster, annotations=annotations
        )
    except QuotaValueError as wrong:
        raise UsageError(f"{entity_text(subject)} cannot be written: {wrong.message}") from wrong
    head, _, rest = text.partition("\n")
    return "\n".join((head, *map(_one_line, lines), rest))


def _where(known: Declaration | None) -> str:
    if known is None:
        return "a new document"
    suspended = "suspended " if known.suspended else ""
    return f"replaces the {suspended}document {known.document} in {known.path}:{known.line}"


def _one_line(text: str) -> str:
    """A comment cannot end before its line does: names are bytes of strangers."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _new_name(subject: Entity, taken: set[str]) -> str:
    """A name for a document that no other has; the entity decides, so that a second run gives the same one."""
    base = f"{DEFAULT_NAMESPACE}/{document_name(subject)}"
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{base}-{number}"
    taken.add(found)
    return found


def _window_lines(evidence: Evidence) -> list[str]:
    begin, end = (
        datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        for ms in (evidence.from_ms, evidence.to_ms)
    )
    first = (
        f"Evidence: {begin} to {end} UTC of cluster {evidence.cluster_id}, brokers were up"
        f" {share_text(evidence.coverage_ppm)} of it; limits as of look {evidence.snapshot_id}."
    )
    return [first] + [f"Incomplete: {one}." for one in evidence.partial[:3]]


def _evidence_lines(row: RecommendationRow) -> list[str]:
    kind = row.quota_type
    sure, cut = share_text(row.confidence_ppm), share_text(row.censored_ppm)
    about = [
        f"tier {row.tier}",
        *([f"needed {units_text(kind, row.needed_units)}"] if row.needed_units else []),
        f"rules: {', '.join(row.rules) or 'none'}",
        f"{row.samples:,} samples of {row.brokers} brokers, confidence {sure}, censored {cut}",
    ]
    moved = f"{units_text(kind, row.current_units)} -> {units_text(kind, row.target_units)}"
    first = f"{KEY_OF[kind]}: {moved} ({'; '.join(about)})."
    second = (
        f"  throttled {share_text(row.train_share_ppm)} of the time it was sized by, worst delay"
        f" {length_text(row.train_max_delay_ms)}; {share_text(row.test_share_ppm)} of the unseen week, worst"
        f" delay {length_text(row.test_max_delay_ms)}."
    )
    return [first, second]
