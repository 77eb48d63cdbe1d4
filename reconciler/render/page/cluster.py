"""A page about clusters: for each its state at the top, then its sections."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.quota.entity import LEVEL_NAMES, Entity, entity_text, level, parts_text
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.ownership import NO_RECORD, OwnershipRecords
from reconciler.quota.results.report import Preview
from reconciler.quota.state import Limits, QuotaState
from reconciler.render.budget_rows import budget_section
from reconciler.render.cause_text import SECTIONS, sections
from reconciler.render.impact_rows import client_section, impact_lines, impact_sections
from reconciler.render.page.writer import (
    PageFiles,
    PagePart,
    banner,
    page_html,
    page_section,
    pairs,
    paragraph,
)
from reconciler.render.plan_summary import headline, problem_groups, summary
from reconciler.render.recorded_use import USE_TABLE, RecordedUse, left_out_sentences, refused_title
from reconciler.render.rows import PAGE_ROWS, change_sections, finding_sections
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
from reconciler.render.units import PER_BROKER, instant, limit
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
    "released": "released",
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


LEAST_ROWS: Final = 100
"""The least such number, on a page of many clusters."""


class ClusterPage(Struct, frozen=True, kw_only=True, gc=False):
    """One cluster as a page shows it."""

    name: str
    preview: Preview
    live: QuotaState  # the live quotas, or those of the snapshot
    owned: OwnershipRecords | None = None  # our records; None if there are none
    recorded: RecordedUse | None = None  # the effect by recorded use; None = not requested


def clusters_html(
    cluster_pages: Sequence[ClusterPage], files: PageFiles, *, made_at: float, tool_version: str
) -> str:
    """Return a page about these clusters.

    Args:
        made_at: Creation time, in seconds since the epoch.
    """
    most = max(LEAST_ROWS, PAGE_ROWS // max(1, len(cluster_pages)))
    parts = [
        PagePart(
            title=f"Plan for {cluster_page.name}",
            head=_head(cluster_page),
            sections=[
                page_section(section, elsewhere=_ELSEWHERE)
                for section in _sections(cluster_page, most)
                if section.rows
            ],
        )
        for cluster_page in cluster_pages
    ]
    return page_html(
        parts,
        files,
        title=f"Kafka quotas of {', '.join(cluster_page.name for cluster_page in cluster_pages)}",
        created=instant(made_at),
        tool_version=tool_version,
    )


_ELSEWHERE: Final = "which kquota plan --format json, kquota describe and kquota resolve print"


def _head(cluster_page: ClusterPage) -> str:
    preview = cluster_page.preview
    snapshot = preview.snapshot_at
    facts = [
        ("Cluster", preview.plan.cluster_id),
        ("Looked at", instant(preview.created_at)),
        ("Snapshot of", "" if snapshot is None else instant(snapshot)),
        ("Policy", str(preview.policy)),
        ("Drift", str(preview.drift_mode) if preview.plan.removals_known else _NO_RECORDS),
        ("By", preview.origin.author),
        ("Commit", preview.origin.commit[:12]),
        ("Digest", preview.digest if preview.plan.reviewed else ""),
    ]
    effects = "".join(map(paragraph, impact_lines(preview)))
    return paragraph(headline(preview)) + pairs("facts", facts) + _verdict(cluster_page) + effects


_NO_RECORDS: Final = "cannot be found without ownership records"


def _verdict(cluster_page: ClusterPage) -> str:
    preview, recorded = cluster_page.preview, cluster_page.recorded
    *obstacles, _ = problem_groups(preview)
    for group in obstacles:
        if group.lines:
            return banner("bad", f"{group.title} ({len(group.lines):,})", group.effect)
    if recorded is not None and recorded.refusals:
        return banner("bad", refused_title(len(recorded.refusals)), "nothing would be applied")
    if preview.plan.changes:
        return banner("accent", "Can be applied", summary(preview))
    if preview.plan.drift:
        return banner("warn", "Nothing to apply, but there is drift", summary(preview))
    return banner("good", "In sync", summary(preview))


def _sections(cluster_page: ClusterPage, most: int) -> Iterator[Section]:
    preview, live = cluster_page.preview, cluster_page.live
    yield from problem_sections(preview, cluster_page.recorded, most=most)
    yield from (rows.section for rows in change_sections(preview, max_rows=most))
    yield budget_section(preview)
    yield client_section(preview, live, max_rows=most).section
    if cluster_page.recorded is not None:
        yield use_section(cluster_page.recorded, most=most)
    yield from (rows.section for rows in finding_sections(preview, max_rows_of=lambda _: most))
    yield quota_section(preview, live, cluster_page.owned, most=most)
    yield FOREIGN.of(foreign_values(live), most=most)
    _, never = impact_sections(preview, max_rows=most)
    yield never.section
