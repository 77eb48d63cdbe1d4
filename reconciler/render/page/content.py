"""The sections of a page about a cluster, from the rows that terminals show, and a table of its quotas."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

from reconciler.quota.entity import LEVEL_NAMES, Entity, level
from reconciler.quota.entity_forms import entity_text, parts_text
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.ownership import NO_RECORD, OwnershipRecords
from reconciler.quota.results.report import Preview
from reconciler.quota.state import Limits, QuotaState
from reconciler.render.cause_text import SECTIONS, sections
from reconciler.render.plan_summary import problem_groups
from reconciler.render.recorded_use import (
    USE_TABLE,
    RecordedUse,
    left_out_sentences,
    refused_title,
)
from reconciler.render.sections import (
    CellText,
    Section,
    SectionColumn,
    TableForm,
    name,
    number,
    state,
    text,
)
from reconciler.render.units import PER_BROKER, limit
from reconciler.render.units import number as exact_number


def problem_sections(
    preview: Preview, recorded: RecordedUse | None, *, most: int
) -> Iterator[Section]:
    """Yield what keeps the plan from being applied, and warnings."""
    if recorded is not None and recorded.refusals:
        messages = [CellText(refusal.message) for refusal in recorded.refusals]
        title = refused_title(len(messages))
        yield TableForm("use-refused", title, "", _LINE).of(messages, most=most)
    for group in problem_groups(preview):
        title = ": ".join(filter(None, (group.title, group.effect)))
        yield TableForm(group.name, title, "", _LINE).of(group.lines, most=most)


_LINE: Final[tuple[SectionColumn[CellText], ...]] = (text("What", lambda line: line),)


def use_section(recorded: RecordedUse, *, most: int) -> Section:
    """Return the effect of the plan by recorded use."""
    notes = (recorded.headline, *recorded.evidence, *recorded.notes)
    notes += tuple(left_out_sentences(recorded, ""))
    return USE_TABLE.of(recorded.rows, most=most, notes=notes)


# ---- quotas ----------------------------------------------------------------------


_WHOSE: Final[Mapping[str, str]] = {
    "drift": "drifted",
    "newOrphans": "document deleted",
    "orphans": "document deleted",
    "overrides": "overridden",
    "frozen": "suspended or unusable",
    "unmanaged": "unmanaged",
}
"""Sections of findings that describe a live entity; the first that contains it applies."""

_Quota: TypeAlias = tuple[Entity, Limits, str, str]


def quota_section(
    preview: Preview, live: QuotaState, owned: OwnershipRecords | None, *, most: int
) -> Section:
    """Return the live quotas, and who manages them."""
    source = "As the cluster describes them."
    if preview.snapshot_at is not None:
        source = "As contained in the snapshot."
    columns: list[SectionColumn[_Quota]] = [
        name("Client", lambda row: CellText(entity_text(row[0]), (LEVEL_NAMES[level(row[0])],))),
        state("State", lambda row: row[2]),
    ]
    used = {key for _, key, _ in live.pairs()}
    columns += [number(str(key), partial(_limit, key)) for key in COLUMNS if key in used]
    columns.append(text("Document", lambda row: row[3]))
    form = TableForm("quotas", "Current quotas", f"{source} {PER_BROKER}", columns)
    return form.of(list(_quotas(preview, live, owned)), most=most)


def _limit(key: Key, row: _Quota) -> str:
    value = row[1][COLUMN_OF[key]]
    return "" if value is None else limit(key, value)


def _quotas(preview: Preview, live: QuotaState, owned: OwnershipRecords | None) -> Iterator[_Quota]:
    findings, state_of = sections(preview.plan), dict[Entity, str]()
    for kind in reversed(SECTIONS):
        if kind.name in _WHOSE:
            state_of |= {finding.entity: _WHOSE[kind.name] for finding in findings[kind.name]}
    records = {} if owned is None else owned.records
    for subject in live.entities():
        owners = records.get(subject, NO_RECORD).owners
        documents = sorted({owner.document for owner in owners if owner and owner.document})
        word = state_of.get(subject, "ours" if documents else "not ours")
        if documents and word == "unmanaged":
            word = "partly ours"
        yield subject, live.limits[subject], word, ", ".join(documents)


FOREIGN: Final[TableForm[tuple[str, str, float]]] = TableForm(
    "foreign",
    "Foreign",
    "Entity types and keys that are not Kafka's: listed only.",
    (
        name("Entity", lambda row: row[0]),
        name("Key", lambda row: row[1]),
        number("Value", lambda row: exact_number(row[2])),
    ),
)
"""What this program never changes."""


def foreign_values(live: QuotaState) -> list[tuple[str, str, float]]:
    """Return the rows of :data:`FOREIGN`."""
    subjects = [
        (entity_text(subject), values)
        for subject, values in sorted(live.foreign_values.items(), key=str)
    ]
    subjects += [(parts_text(parts), values) for parts, values in live.foreign_entities]
    return [(subject, key, value) for subject, values in subjects for key, value in values]
