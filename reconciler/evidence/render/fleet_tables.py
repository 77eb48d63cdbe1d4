"""What a job over a fleet reports, as sheets of plain cells: limits of clients, dead limits, plans, changes."""

from collections.abc import Sequence
from typing import Final

from reconciler.evidence.render.report_tables import ReportTable
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
_LOOKS: Final = {
    "resolve": "limits were resolved",
    "plan": "nothing would change",
    "history": "nothing changed",
}


def headline(report: FleetReport) -> str:
    """The one sentence that stands first."""
    sentences = [
        count(len(rows) + report.left_out.get(name, 0), *_NOUNS[name])
        for name, rows in _rows(report).items()
        if rows or report.left_out.get(name, 0)
    ]
    clusters = count(len(report.clusters), "cluster")
    violations = sum(len(summary.violations) for summary in report.clusters)
    violations_text = f"; {count(violations, 'violation')} of guards" if violations else ""
    return f"{clusters}: {', '.join(sentences) or _LOOKS[report.about]}{violations_text}"


def sheets(report: FleetReport) -> tuple[ReportTable, ...]:
    """All parts that hold anything, in the order in which they are read."""
    left_out = report.left_out
    tables = (
        _clusters(report.clusters),
        _violations(report.clusters),
        _conflicts(report.conflicts, left_out.get(PLAN_CONFLICT.name, 0)),
        _planned(report.planned, left_out.get(PLAN_ROW.name, 0)),
        _changed(report.changed, left_out.get(QUOTA_CHANGE.name, 0)),
        _dead(report.dead, left_out.get(DEAD_QUOTA.name, 0)),
        _effective(report.effective, left_out.get(EFFECTIVE_QUOTA.name, 0)),
    )
    return tuple(
        report_table for report_table in tables if report_table.rows or report_table.left_out
    )


def _rows(report: FleetReport) -> dict[str, Sequence[object]]:
    return {
        PLAN_ROW.name: report.planned,
        PLAN_CONFLICT.name: report.conflicts,
        QUOTA_CHANGE.name: report.changed,
        EFFECTIVE_QUOTA.name: report.effective,
        DEAD_QUOTA.name: report.dead,
    }


def _clusters(rows: Sequence[ClusterTotals]) -> ReportTable:
    return ReportTable(
        name="clusters",
        title="Clusters",
        description="The last complete look at each, and what was counted.",
        heads=("cluster", "look", "counts"),
        rows=tuple(
            (
                summary.cluster_id,
                moment_text(summary.look_ms),
                ", ".join(
                    f"{name} {number:,}" for name, number in summary.counts.items() if number
                ),
            )
            for summary in rows
        ),
    )


def _violations(rows: Sequence[ClusterTotals]) -> ReportTable:
    return ReportTable(
        name="violations",
        title="Refused",
        description="What guards that count say against a plan; kquota plan asks all guards.",
        heads=("cluster", "violation"),
        rows=tuple((summary.cluster_id, text) for summary in rows for text in summary.violations),
    )


def _conflicts(rows: Sequence[ConflictRow], left_out: int) -> ReportTable:
    return _sheet(
        PLAN_CONFLICT.name,
        ("Conflicts", "Pairs that several documents claim; nothing is done about them."),
        ("cluster", "entity", "limit", "document", "place"),
        [
            (
                conflict.cluster_id,
                _entity(conflict.entity_json),
                _limit(conflict.quota_key, conflict.value),
                conflict.document,
                f"{conflict.path}:{conflict.line}",
            )
            for conflict in rows
        ],
        left_out,
    )


def _planned(rows: Sequence[PlannedRow], left_out: int) -> ReportTable:
    return _sheet(
        PLAN_ROW.name,
        ("Plan", "What kquota apply would write. Limits are per broker."),
        ("cluster", "entity", "action", "key", "before", "after", "cause", "asked by"),
        [
            (
                planned.cluster_id,
                _entity(planned.entity_json),
                planned.action,
                planned.quota_key,
                _value(planned.quota_key, planned.before),
                _value(planned.quota_key, planned.after),
                planned.cause,
                planned.document,
            )
            for planned in rows
        ],
        left_out,
    )


def _changed(rows: Sequence[LimitChangeRow], left_out: int) -> ReportTable:
    return _sheet(
        QUOTA_CHANGE.name,
        ("Changes", "Newest first; a change lies between two looks."),
        ("cluster", "entity", "key", "before", "after", "not before", "seen", "cause", "by"),
        [
            (
                changed.cluster_id,
                _entity(changed.entity_json),
                changed.quota_key,
                _value(changed.quota_key, changed.before),
                _value(changed.quota_key, changed.after),
                moment_text(changed.from_after_ms) if changed.from_after_ms else "",
                moment_text(changed.from_ms),
                changed.cause,
                " ".join(filter(None, (changed.writer, changed.commit[:12]))),
            )
            for changed in rows
        ],
        left_out,
    )


def _dead(rows: Sequence[UnusedLimitRow], left_out: int) -> ReportTable:
    return _sheet(
        DEAD_QUOTA.name,
        (
            "Limits that apply to no client",
            "In the look-back; what has no data is not called dead.",
        ),
        ("cluster", "entity", "limit", "reason", "held last"),
        [
            (
                unused.cluster_id,
                _entity(unused.entity_json),
                _limit(unused.quota_key, unused.value),
                unused.reason,
                moment_text(unused.last_effective_ms)
                if unused.last_effective_ms is not None
                else "",
            )
            for unused in rows
        ],
        left_out,
    )


def _effective(rows: Sequence[EffectiveRow], left_out: int) -> ReportTable:
    return _sheet(
        EFFECTIVE_QUOTA.name,
        (
            "Limits in force",
            "Per broker; of a client, or of the tags that clients are counted under.",
        ),
        ("cluster", "user", "client-id", "ip", "key", "limit", "level", "from"),
        [
            (
                effective.cluster_id,
                effective.user,
                effective.client_id,
                effective.ip,
                effective.quota_key,
                _value(effective.quota_key, effective.value, "unlimited"),
                str(effective.level or ""),
                _entity(effective.source_entity),
            )
            for effective in rows
        ],
        left_out,
        names=(0, 1, 2, 3, 7),
    )


def _sheet(
    name: str,
    words: tuple[str, str],
    heads: tuple[str, ...],
    rows: list[tuple[str, ...]],
    left_out: int,
    *,
    names: tuple[int, ...] = (0, 1),
) -> ReportTable:
    return ReportTable(
        name=name,
        title=words[0],
        description=words[1],
        heads=heads,
        rows=tuple(rows),
        names=names,
        left_out=left_out,
    )


def _entity(entity_json: str) -> str:
    return parts_text(read_canonical_parts(entity_json)) if entity_json else ""


def _limit(key: str, value: float) -> str:
    return f"{key} = {_value(key, value)}"


def _value(key: str, value: float | None, absent: str = "") -> str:
    if value is None:
        return absent
    known_key: Key | None = _KEYS.get(key)
    return f"{value:.15g}" if known_key is None else limit(known_key, value)
