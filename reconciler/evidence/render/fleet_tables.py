"""Reports of fleet jobs as tables of plain cells: limits of clients, unused limits, plans, changes."""

from collections.abc import Sequence
from typing import Final

from reconciler.evidence.render.report_tables import ReportTable, TableForm, name, text
from reconciler.evidence.render.units import moment_text
from reconciler.quota.entity_forms import parts_text, read_canonical_parts
from reconciler.quota.keys import COLUMNS, Key
from reconciler.render.units import count, limit
from reconciler.usage.reports.fleet import (
    ClusterTotals,
    ConflictRow,
    EffectiveRow,
    FleetReport,
    LimitChangeRow,
    PlannedRow,
    UnusedLimitRow,
)
from reconciler.usage.tables import (
    DEAD_QUOTA,
    EFFECTIVE_QUOTA,
    PLAN_CONFLICT,
    PLAN_ROW,
    QUOTA_CHANGE,
)

_KEYS: Final = {str(key): key for key in COLUMNS}
_NOUNS: Final[dict[str, tuple[str, str]]] = {
    EFFECTIVE_QUOTA.name: ("limit of a client", "limits of clients"),
    DEAD_QUOTA.name: ("limit that applies to no client", "limits that apply to no client"),
    PLAN_ROW.name: ("change", "changes"),
    PLAN_CONFLICT.name: ("claim in conflict", "claims in conflict"),
    QUOTA_CHANGE.name: ("change seen", "changes seen"),
}
_NO_CHANGE_TEXTS: Final = {
    "resolve": "limits were resolved",
    "plan": "nothing would change",
    "history": "nothing changed",
}


def headline(report: FleetReport) -> str:
    """Return the headline of a report."""
    sentences = [
        count(len(rows) + report.left_out.get(table, 0), *_NOUNS[table])
        for table, rows in _rows(report).items()
        if rows or report.left_out.get(table, 0)
    ]
    clusters = count(len(report.clusters), "cluster")
    violations = sum(len(summary.violations) for summary in report.clusters)
    violations_text = f"; {count(violations, 'violation')} of guards" if violations else ""
    return f"{clusters}: {', '.join(sentences) or _NO_CHANGE_TEXTS[report.about]}{violations_text}"


def _rows(report: FleetReport) -> dict[str, Sequence[object]]:
    return {
        PLAN_ROW.name: report.planned,
        PLAN_CONFLICT.name: report.conflicts,
        QUOTA_CHANGE.name: report.changed,
        EFFECTIVE_QUOTA.name: report.effective,
        DEAD_QUOTA.name: report.dead,
    }


def _counts(totals: ClusterTotals) -> str:
    return ", ".join(f"{word} {amount:,}" for word, amount in totals.counts.items() if amount)


_CLUSTERS: Final[TableForm[ClusterTotals]] = TableForm(
    "clusters",
    "Clusters",
    "The last complete snapshot of each cluster, and counts.",
    (
        name("cluster", lambda totals: totals.cluster_id),
        text("snapshot", lambda totals: moment_text(totals.look_ms)),
        text("counts", _counts),
    ),
)
_VIOLATIONS: Final[TableForm[tuple[str, str]]] = TableForm(
    "violations",
    "Refused",
    "Violated guards that use counts, and conflicts; kquota plan checks all guards.",
    (name("cluster", lambda row: row[0]), text("violation", lambda row: row[1])),
)
_CONFLICTS: Final[TableForm[ConflictRow]] = TableForm(
    PLAN_CONFLICT.name,
    "Conflicts",
    "Quota keys that several documents declare; they are not written.",
    (
        name("cluster", lambda row: row.cluster_id),
        name("entity", lambda row: _entity(row.entity_json)),
        text("limit", lambda row: _limit(row.quota_key, row.value)),
        text("document", lambda row: row.document),
        text("place", lambda row: f"{row.path}:{row.line}"),
    ),
)
_PLANNED: Final[TableForm[PlannedRow]] = TableForm(
    PLAN_ROW.name,
    "Plan",
    "What kquota apply would write. Limits are per broker.",
    (
        name("cluster", lambda row: row.cluster_id),
        name("entity", lambda row: _entity(row.entity_json)),
        text("action", lambda row: row.action),
        text("key", lambda row: row.quota_key),
        text("before", lambda row: _value(row.quota_key, row.before)),
        text("after", lambda row: _value(row.quota_key, row.after)),
        text("cause", lambda row: row.cause),
        text("document", lambda row: row.document),
    ),
)
_CHANGED: Final[TableForm[LimitChangeRow]] = TableForm(
    QUOTA_CHANGE.name,
    "Changes",
    "Newest first; a change lies between two snapshots.",
    (
        name("cluster", lambda row: row.cluster_id),
        name("entity", lambda row: _entity(row.entity_json)),
        text("key", lambda row: row.quota_key),
        text("before", lambda row: _value(row.quota_key, row.before)),
        text("after", lambda row: _value(row.quota_key, row.after)),
        text("not before", lambda row: moment_text(row.from_after_ms) if row.from_after_ms else ""),
        text("seen", lambda row: moment_text(row.from_ms)),
        text("cause", lambda row: row.cause),
        text("by", lambda row: " ".join(filter(None, (row.writer, row.commit[:12])))),
    ),
)
_UNUSED: Final[TableForm[UnusedLimitRow]] = TableForm(
    DEAD_QUOTA.name,
    "Limits that apply to no client",
    "In the look-back; limits without data have the reason no_data.",
    (
        name("cluster", lambda row: row.cluster_id),
        name("entity", lambda row: _entity(row.entity_json)),
        text("limit", lambda row: _limit(row.quota_key, row.value)),
        text("reason", lambda row: row.reason),
        text("last applied", lambda row: _moment(row.last_effective_ms)),
    ),
)
_EFFECTIVE: Final[TableForm[EffectiveRow]] = TableForm(
    EFFECTIVE_QUOTA.name,
    "Limits in force",
    "Per broker; of a client, or of the tags that clients are counted under.",
    (
        name("cluster", lambda row: row.cluster_id),
        name("user", lambda row: row.user),
        name("client-id", lambda row: row.client_id),
        name("ip", lambda row: row.ip),
        text("key", lambda row: row.quota_key),
        text("limit", lambda row: _value(row.quota_key, row.value, "unlimited")),
        text("level", lambda row: str(row.level or "")),
        name("from", lambda row: _entity(row.source_entity)),
    ),
)


def sheets(report: FleetReport) -> tuple[ReportTable, ...]:
    """Return all tables with content, in display order."""
    left_out = report.left_out
    violations = [(of.cluster_id, sentence) for of in report.clusters for sentence in of.violations]
    tables = (
        _CLUSTERS.of(report.clusters),
        _VIOLATIONS.of(violations),
        _CONFLICTS.of(report.conflicts, left_out.get(PLAN_CONFLICT.name, 0)),
        _PLANNED.of(report.planned, left_out.get(PLAN_ROW.name, 0)),
        _CHANGED.of(report.changed, left_out.get(QUOTA_CHANGE.name, 0)),
        _UNUSED.of(report.dead, left_out.get(DEAD_QUOTA.name, 0)),
        _EFFECTIVE.of(report.effective, left_out.get(EFFECTIVE_QUOTA.name, 0)),
    )
    return tuple(table for table in tables if table.rows or table.left_out)


def _moment(at_ms: int | None) -> str:
    return "" if at_ms is None else moment_text(at_ms)


def _entity(entity_json: str) -> str:
    return parts_text(read_canonical_parts(entity_json)) if entity_json else ""


def _limit(key: str, value: float) -> str:
    return f"{key} = {_value(key, value)}"


def _value(key: str, value: float | None, absent: str = "") -> str:
    if value is None:
        return absent
    known_key: Key | None = _KEYS.get(key)
    return f"{value:.15g}" if known_key is None else limit(known_key, value)
