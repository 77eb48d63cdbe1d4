"""Makes reports from the lake: on a window, or on one client.

A report on a window has use against limits, capacity, or both with what-if and recommendations. One on a client says when
and by which limit it was throttled, and proposes documents with limits that would not have throttled it.
"""

from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.app.clusters.targets import target
from reconciler.app.notices import TextReceiver
from reconciler.app.recorded_use.recommendation import declared
from reconciler.app.recorded_use.selection import (
    DAY_MS,
    ClusterSelection,
    EngineOptions,
    WindowOptions,
    opened_lake,
)
from reconciler.app.recorded_use.simulation import policy_for
from reconciler.app.requests import TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.base.installation import needs
from reconciler.errors import UsageError
from reconciler.evidence.output.recommended_documents import DeclaredDocuments, limit_patch
from reconciler.quota.entity import canonical_address

if TYPE_CHECKING:
    from reconciler.app.clusters.targets import ClusterTarget
    from reconciler.base.protocols import Progress
    from reconciler.quota.results.audit_entry import AuditEntry
    from reconciler.usage.reports.client import ClientReport
    from reconciler.usage.reports.client_throttling import ClientNames
    from reconciler.usage.reports.usage import UsageReport


class ReportKind(StrEnum):
    """The reports, named as their commands."""

    SHOW = "show"
    CAPACITY = "capacity"
    REPORT = "report"


class ReportOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    lake: str
    clusters: ClusterSelection
    window: WindowOptions
    most: int
    engine: EngineOptions


def run_report(
    notices: TextReceiver, kind: ReportKind, options: ReportOptions, progress: "Progress"
) -> "UsageReport":
    """Make a report.

    Raises:
        KquotaError: An error of the project, the lake, or the Spark session.
    """
    needs("usage", f"kquota usage {kind}")
    from reconciler.evidence.analysis import capacity, report, usage
    from reconciler.evidence.analysis.results import ReportWindow

    clusters = options.clusters.select()
    begin, end = options.window.span(SystemClock())
    window = ReportWindow(
        from_ms=begin,
        to_ms=end,
        clusters=tuple(cluster.id for cluster in clusters),
        most=options.most,
        capacity=tuple(filter(None, (cluster.capacity for cluster in clusters))),
    )
    make = {
        ReportKind.SHOW: usage.profiled,
        ReportKind.CAPACITY: capacity.carried,
        ReportKind.REPORT: report.reported,
    }[kind]
    lake = opened_lake(options.lake)
    with options.engine.opened(notices, lake, window.clusters, window) as engine:
        return make(engine, lake, window, progress)


AROUND_MS = 3_600_000
"""The window before and after a time in question, unless a window is given."""

CHANGES_MS = 7 * DAY_MS
"""How far before the window the audit log is read: to the snapshot in force at its begin, if they are taken each week."""


class ClientReportOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    lake: str
    clusters: ClusterSelection
    window: WindowOptions
    user: str | None = None
    client_id: str | None = None
    ip: str | None = None
    # The time in question; negative = milliseconds ago; None = the whole window.
    at_ms: int | None = None
    most: int = 50  # maximum number of times shown

    @property
    def client(self) -> "ClientNames":
        """The names of the client.

        Raises:
            UsageError: No name was given.
        """
        if not (self.user or self.client_id or self.ip):
            raise UsageError(
                "specify a client with --user, --client-id or --ip",
                hint="for example --user alice --client-id checkout",
            )
        from reconciler.usage.reports.client_throttling import ClientNames

        address = canonical_address(self.ip) if self.ip else None
        return ClientNames(user=self.user, client_id=self.client_id, ip=address or self.ip)


def run_client_report(notices: TextReceiver, options: ClientReportOptions) -> "ClientReport":
    """Return the report on a client of one cluster.

    Raises:
        UsageError: The options do not name one client and one cluster.
        KquotaError: An error of a file or the lake.
    """
    needs("usage", "kquota usage client")
    from reconciler.evidence.store.client_evidence import client_evidence
    from reconciler.usage.reports.client_throttling import client_report

    client = options.client
    clusters = options.clusters.select()
    if len(clusters) != 1:
        raise UsageError("a report is about one client of one cluster; choose it with --cluster")
    (cluster,) = clusters
    clock = SystemClock()
    at_ms, window = options.at_ms, options.window
    if at_ms is not None:
        at_ms = at_ms if at_ms >= 0 else round(clock.now() * 1000) + at_ms
        if not window.is_given:
            end_ms = max(at_ms + 1, min(at_ms + AROUND_MS, round(clock.now() * 1000)))
            window = WindowOptions(from_ms=max(0, at_ms - AROUND_MS), to_ms=end_ms)
    from_ms, to_ms = window.span(clock)
    if at_ms is not None and not from_ms <= at_ms < to_ms:
        raise UsageError(
            "--at is outside of the window of --from and --to",
            hint="leave out --from and --to: the window is then an hour before and after that time",
        )
    documents = DeclaredDocuments(cluster=cluster.name)
    changes: list[AuditEntry] = []
    if cluster.name:
        of_cluster = target(TargetRequest(project=options.clusters.project, cluster=cluster.name))
        documents = declared(notices, of_cluster)
        changes = _changes(of_cluster, from_ms - CHANGES_MS)
    evidence = client_evidence(
        opened_lake(options.lake),
        cluster.id,
        client,
        from_ms,
        to_ms,
        at_ms=at_ms,
        changes=changes,
    )
    policy = policy_for(notices, options.clusters.project, {cluster.id: documents.declarations})
    report = client_report(
        client,
        evidence,
        lambda bucket: policy.tier_of(cluster.id, bucket).tier,
        max_rows=options.most,
    )
    # A document refers to its cluster by name.
    patches = (limit_patch(row, documents) for row in report.limits if cluster.name)
    return replace(report, patches=tuple(filter(None, patches)))


def _changes(target: "ClusterTarget", since_ms: int) -> "list[AuditEntry]":
    """Return the entries of the cluster's audit log since a time, the oldest first."""
    from reconciler.app.clusters.state_files import own_path
    from reconciler.inventory.audit_log import FileAuditLog

    path = own_path(target.root, target.project_cluster.audit_log, content_name="audit logs")
    since = datetime.fromtimestamp(max(0, since_ms) / 1000, UTC).isoformat()
    recent = takewhile(lambda entry: entry.time >= since, FileAuditLog(path).entries())
    return list(recent)[::-1]
