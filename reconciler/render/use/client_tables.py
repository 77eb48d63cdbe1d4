"""The report on one client as tables of plain cells, and its headline."""

from typing import Final

from reconciler.quota.entity import ENTITY_TYPES, LEVEL_NAMES, parts_text
from reconciler.render.sections import Section, TableForm, name, number, text
from reconciler.render.units import UNSET, count
from reconciler.render.use.report_tables import BOUNDS, EVIDENCE
from reconciler.render.use.units import (
    bucket_text,
    length_text,
    moment_text,
    per_day_text,
    source_text,
    type_text,
    units_text,
)
from reconciler.usage.reports.client import ClientLimitRow, ClientReport, ThrottledRow
from reconciler.usage.samples import QuotaType
from reconciler.usage.tags import Bucket, GroupKind
from reconciler.usage.throttle_models import FigureBound

_SHARED_BY: Final = {
    GroupKind.USER: "all client ids of this user",
    GroupKind.CLIENT: "all users with this client id",
    GroupKind.PAIR: "all connections with this user and client id",
    GroupKind.IP: "all connections from this address",
}
_NO_SERIES: Final = "no broker recorded these names; where limits are for each user and client id, both names are needed"
PATCH_TITLE: Final = "Proposed limits"
PATCH_DESCRIPTION: Final = (
    "The smallest limit with the margin of the client's tier, as a ClientQuota. Nothing is applied. If a document of this"
    " name exists, change only this limit in it."
)


def client_text(report: ClientReport) -> str:
    """Return the names of the client: ``user=alice,client-id=shop``."""
    names = zip(ENTITY_TYPES, (report.user, report.client_id, report.ip), strict=True)
    return parts_text(tuple((kind, name) for kind, name in names if name))


def headline(report: ClientReport) -> str:
    """Return the answer in one sentence."""
    client = client_text(report)
    if report.evidence.stale:
        return f"{client}: {report.evidence.stale}"
    if not report.limits:
        return f"{client}: {_NO_SERIES}"
    if all(row.throttled_ms is None for row in report.limits):
        return (
            f"{client}: no broker recorded throttle times, so whether it was throttled is not known"
        )
    if report.at_ms is None:
        times = count(len(report.throttled) + report.left_out, "time")
        return (
            f"{client}: throttled {times}"
            if report.throttled
            else f"{client}: no throttling was recorded"
        )
    when = moment_text(report.at_ms)
    if report.throttled_at:
        return f"{client}: throttled at {when} {_cause(report.throttled_at[0])}"
    nearest = f"; the nearest time is {_times(report.throttled[0])}" if report.throttled else ""
    gap = (
        f"; {count(len(report.silent_brokers), 'broker')} did not answer then"
        if report.silent_brokers
        else ""
    )
    return f"{client}: no throttling was recorded at {when}{gap}{nearest}"


def _cause(row: ThrottledRow) -> str:
    limit = f"limit {_limit(row)} of {_source(row)}" if row.source_entity else "limit not known"
    if row.snapshot_ms is not None:
        limit += f", set after the snapshot of {moment_text(row.snapshot_ms)}"
    delay = length_text(row.delay_ms)
    return f"on broker {row.broker_id}: {type_text(row.quota_type)}, {limit}; requests waited {delay} on average"


def sheets(report: ClientReport) -> tuple[Section, ...]:
    """Return the tables with content, in display order."""
    tables = (
        THROTTLED.of(report.throttled, report.left_out),
        LIMITS.of(report.limits),
        EVIDENCE.of([report.evidence]),
    )
    return tuple(table for table in tables if table.rows)


def _times(row: ThrottledRow) -> str:
    return f"{moment_text(row.begin_ms)} for {length_text(row.end_ms - row.begin_ms)}"


def _level(level: int | None) -> str:
    return LEVEL_NAMES[level] if level else UNSET


def _limit(row: ThrottledRow | ClientLimitRow) -> str:
    return units_text(row.quota_type, row.limit_units) if _is_known(row) else UNSET


def _source(row: ThrottledRow | ClientLimitRow) -> str:
    return source_text(row.source_entity) if _is_known(row) else UNSET


def _is_known(row: ThrottledRow | ClientLimitRow) -> bool:
    """Whether the limit is known. A broker does not throttle without a limit."""
    return bool(row.source_entity) if isinstance(row, ThrottledRow) else row.is_known


def _shared_by(bucket: Bucket) -> str:
    return _SHARED_BY[bucket.kind]


def _at_least(kind: QuotaType, units: int | None) -> str:
    return UNSET if units is None else BOUNDS[FigureBound.AT_LEAST] + units_text(kind, units)


THROTTLED: Final[TableForm[ThrottledRow]] = TableForm(
    "throttled",
    "When and why",
    "Times in which a broker recorded delays; the record lasts up to a minute longer than the delay. A lower limit than the"
    " last column would have delayed the same requests.",
    (
        name("who", lambda row: bucket_text(row.bucket)),
        text("when", lambda row: moment_text(row.begin_ms)),
        number("for", lambda row: length_text(row.end_ms - row.begin_ms)),
        name("broker", lambda row: row.broker_id),
        text("what", lambda row: type_text(row.quota_type)),
        number("limit", _limit),
        name("limit of", _source),
        text("level", lambda row: _level(row.level)),
        text("shared by", lambda row: _shared_by(row.bucket)),
        number("mean delay", lambda row: length_text(row.delay_ms)),
        number("largest rate", lambda row: units_text(row.quota_type, row.rate_units)),
        number("smallest limit", lambda row: _at_least(row.quota_type, row.least_units)),
    ),
)
"""One row for each time in which a broker throttled a bucket."""

LIMITS: Final[TableForm[ClientLimitRow]] = TableForm(
    "limits",
    "Limits of the client",
    "At the end of the window; each applies on every broker by itself. The smallest limit is a lower bound (≥): a throttled"
    " client wanted more than was recorded.",
    (
        name("who", lambda row: bucket_text(row.bucket)),
        text("what", lambda row: type_text(row.quota_type)),
        number("limit", _limit),
        name("limit of", _source),
        text("level", lambda row: _level(row.level)),
        text("shared by", lambda row: _shared_by(row.bucket)),
        number("brokers", lambda row: f"{row.brokers:,}"),
        number("largest rate", lambda row: units_text(row.quota_type, row.peak_units)),
        number("throttled", lambda row: per_day_text(row.throttled_ms, row.covered_ms)),
        number("smallest limit", lambda row: _at_least(row.quota_type, row.least_units)),
        number(
            "proposed",
            lambda row: (
                UNSET if row.target_units is None else units_text(row.quota_type, row.target_units)
            ),
        ),
    ),
)
"""One row for each bucket and quota type."""
