"""A page about clusters: for each its state at the top, then its sections."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.results.report import Preview
from reconciler.quota.state import QuotaState
from reconciler.render.impact_rows import client_section, impact_lines, impact_sections
from reconciler.render.page.content import (
    FOREIGN,
    foreign_values,
    problem_sections,
    quota_section,
    use_section,
)
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
from reconciler.render.recorded_use import RecordedUse, refused_title
from reconciler.render.rows import PAGE_ROWS, change_sections, finding_sections
from reconciler.render.sections import Section
from reconciler.render.units import instant

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
    yield client_section(preview, live, max_rows=most).section
    if cluster_page.recorded is not None:
        yield use_section(cluster_page.recorded, most=most)
    yield from (rows.section for rows in finding_sections(preview, max_rows_of=lambda _: most))
    yield quota_section(preview, live, cluster_page.owned, most=most)
    yield FOREIGN.of(foreign_values(live), most=most)
    _, never = impact_sections(preview, max_rows=most)
    yield never.section
