"""What a job over a fleet tells, as sheets of plain cells: limits of clients, dead limits, plans, changes."""

from collections.abc import Sequence
from typing import Final

from reconciler import foreign_json
from reconciler.quota.keys import COLUMNS, Key
from reconciler.render.names import parts_text
from reconciler.render.units import count, limit
from reconciler.render.use_sheets import Sheet
from reconciler.render.use_words import moment_text
from reconciler.usage.fleet import (
    ChangedRow,
    ClusterSum,
    ConflictRow,
    DeadRow,
    EffectiveRow,
    FleetReport,
    PlannedRow,
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
    DEAD_QUOTA.name: ("limit that holds for nobody", "limits that hold for nobody"),
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
    told = [
        count(len(rows) + report.left_out.get(name, 0), *_NOUNS[name])
        for name, rows in _rows(report).items()
        if rows or report.left_out.get(name, 0)
    ]
    clusters = count(len(report.clusters), "cluster")
    violations = sum(len(one.violations) for one in report.clusters)
    refused = f"; {count(violations, 'violation')} of guards" if violations else ""
    return f"{clusters}: {', '.join(told) or _LOOKS[report.about]}{refused}"


def sheets(report: FleetReport) -> tuple[Sheet, ...]:
    """All parts that hold anything, in the order in which they are read."""
    more = report.left_out
    found = (
        _clusters(report.clusters),
        _violations(report.clusters),
        _conflicts(report.conflicts, more.get(PLAN_CONFLICT.name, 0)),
        _planned(report.planned, more.get(PLAN_ROW.name, 0)),
        _changed(report.changed, more.get(QUOTA_CHANGE.name, 0)),
        _dead(report.dead, more.get(DEAD_QUOTA.name, 0)),
        _effective(report.effective, more.get(EFFECTIVE_QUOTA.name, 0)),
    )
    return tuple(one for one in found if one.rows or one.left_out)


def _rows(report: FleetReport) -> dict[str, Sequence[object]]:
    return {
        PLAN_ROW.name: report.planned,
        PLAN_CONFLICT.name: report.conflicts,
        QUOTA_CHANGE.name: report.changed,
        EFFECTIVE_QUOTA.name: report.effective,
        DEAD_QUOTA.name: report.dead,
    }


def _clusters(rows: Sequence[ClusterSum]) -> Sheet:
    return Sheet(
        name="clusters",
        title="Clusters",
        says="The last complete look at each, and what was counted.",
        heads=("cluster", "look", "counts"),
        rows=tuple(
            (
                one.cluster_id,
                moment_text(one.look_ms),
                ", ".join(f"{name} {number:,}" for name, number in one.counts.items() if number),
            )
            for one in rows
        ),
    )


def _violations(rows: Sequence[ClusterSum]) -> Sheet:
    return Sheet(
        name="violations",
        title="Refused",
        says="What guards that count say against a plan; kquota plan asks all guards.",
        heads=("cluster", "violation"),
        rows=tuple((one.cluster_id, text) for one in rows for text in one.violations),
    )


def _conflicts(rows: Sequence[ConflictRow], left_out: int) -> Sheet:
    return _sheet(
        PLAN_CONFLICT.name, ("Conflicts", "Pairs that several documents claim; nothing is done about them."),
        ("cluster", "entity", "limit", "document", "place"),
        [
            (one.cluster_id, _entity(one.entity_json), _limit(one.quota_key, one.value), one.document,
             f"{one.path}:{one.line}")
            for one in rows
        ],
        left_out,
    )  # fmt: skip


def _planned(rows: Sequence[PlannedRow], left_out: int) -> Sheet:
    return _sheet(
        PLAN_ROW.name, ("Plan", "What kquota apply would write. Limits are per broker."),
        ("cluster", "entity", "action", "key", "before", "after", "cause", "asked by"),
        [
            (one.cluster_id, _entity(one.entity_json), one.action, one.quota_key, _value(one.quota_key, one.before),
             _value(one.quota_key, one.after), one.cause, one.document)
            for one in rows
        ],
        left_out,
    )  # fmt: skip


def _changed(rows: Sequence[ChangedRow], left_out: int) -> Sheet:
    return _sheet(
        QUOTA_CHANGE.name, ("Changes", "Newest first; a change lies between two looks."),
        ("cluster", "entity", "key", "before", "after", "not before", "seen", "cause", "by"),
        [
            (one.cluster_id, _entity(one.entity_json), one.quota_key, _value(one.quota_key, one.before),
             _value(one.quota_key, one.after), moment_text(one.from_after_ms) if one.from_after_ms else "",
             moment_text(one.from_ms), one.cause, " ".join(filter(None, (one.writer, one.commit[:12]))))
            for one in rows
        ],
        left_out,
    )  # fmt: skip


def _dead(rows: Sequence[DeadRow], left_out: int) -> Sheet:
    return _sheet(
        DEAD_QUOTA.name, ("Limits that hold for nobody", "In the look-back; what has no data is not called dead."),
        ("cluster", "entity", "limit", "reason", "held last"),
        [
            (one.cluster_id, _entity(one.entity_json), _limit(one.quota_key, one.value), one.reason,
             moment_text(one.last_effective_ms) if one.last_effective_ms is not None else "")
            for one in rows
        ],
        left_out,
    )  # fmt: skip


def _effective(rows: Sequence[EffectiveRow], left_out: int) -> Sheet:
    return _sheet(
        EFFECTIVE_QUOTA.name, ("Limits in force", "Per broker; of a client, or of the tags that clients are counted under."),
        ("cluster", "user", "client-id", "ip", "key", "limit", "level", "from"),
        [
            (one.cluster_id, one.user, one.client_id, one.ip, one.quota_key, _value(one.quota_key, one.value, "unlimited"),
             str(one.level or ""), _entity(one.source_entity))
            for one in rows
        ],
        left_out,
        names=(0, 1, 2, 3, 7),
    )  # fmt: skip


def _sheet(
    name: str,
    words: tuple[str, str],
    heads: tuple[str, ...],
    rows: list[tuple[str, ...]],
    left_out: int,
    *,
    names: tuple[int, ...] = (0, 1),
) -> Sheet:
    return Sheet(
        name=name, title=words[0], says=words[1], heads=heads, rows=tuple(rows), names=names,
        left_out=left_out,
    )  # fmt: skip


def _entity(entity_json: str) -> str:
    return (
        parts_text(
            tuple(
                (kind, name)
                for kind, name in foreign_json.parse(entity_json, most_bytes=foreign_json.ANSWER)
            )
        )
        if entity_json
        else ""
    )


def _limit(key: str, value: float) -> str:
    return f"{key} = {_value(key, value)}"


def _value(key: str, value: float | None, absent: str = "") -> str:
    if value is None:
        return absent
    known: Key | None = _KEYS.get(key)
    return f"{value:.15g}" if known is None else limit(known, value)
