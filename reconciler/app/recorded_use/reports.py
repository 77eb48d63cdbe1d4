"""Makes reports on a window: use against limits, capacity, or both with what-if and recommendations."""

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.app.recorded_use.engines import EngineOptions
from reconciler.app.recorded_use.lakes import opened
from reconciler.app.recorded_use.selection import ClusterSelection, WindowOptions
from reconciler.app.requests import TextReceiver
from reconciler.base.clock import SystemClock
from reconciler.base.installation import needs

if TYPE_CHECKING:
    from reconciler.base.protocols import Progress
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
    from reconciler.evidence.analysis.window import ReportWindow

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
    lake = opened(options.lake)
    with options.engine.opened(notices, lake, window.clusters, window) as engine:
        return make(engine, lake, window, progress)
