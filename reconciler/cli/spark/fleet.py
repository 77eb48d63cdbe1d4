"""``kquota spark plan``, ``resolve`` and ``history``: run jobs over many clusters and show their reports."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.app.change.principals import read_principals
from reconciler.app.recorded_use.selection import DAY_MS, ClusterSelection, WindowOptions
from reconciler.app.recorded_use.spark_job import run, run_work
from reconciler.base.clock import SystemClock
from reconciler.base.installation import needs
from reconciler.cli.framework.commands import command, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.spark.options import (
    InstantParameter,
    clusters_options,
    lake_option,
    running_options,
    window_options,
)
from reconciler.cli.spark.report_output import ReportOutput, fleet_options
from reconciler.evidence.spark.runtime.session_settings import SessionSettings

if TYPE_CHECKING:
    from reconciler.usage.reports.fleet import FleetReport


def show_fleet(console: Console, report: "FleetReport", showing: ReportOutput) -> ExitCode:
    """Show a report; return ``ERROR`` for conflicts, ``REFUSED`` for violations of guards, else ``DONE``."""
    showing.show(console, report)
    if report.conflicts:
        console.error("several documents set the same quota key; remove it from all but one")
        return ExitCode.ERROR
    return ExitCode.REFUSED if report.is_refused else ExitCode.DONE


PLAN_HELP: Final = """Show what would change on all clusters: documents and records of the project against the last snapshots.

No broker is contacted. The rows are those of kquota plan. Guards for removals, defaults and missing documents are checked
for each cluster; the others need the limit of every client and are checked by kquota plan only. All rows are written to
the lake (plan_row, plan_conflict), and so are declarations (desired_entry), which kquota spark history reads.

\b
Exit codes:
  0  planned, with changes or without
  1  an error, or documents that set the same quota key
  3  a guard refuses, and no documents set the same key

\b
Example:
  kquota spark plan --all --lake s3://metrics/kquota
  kquota spark plan --cluster prod --lake ./lake --format markdown --out plan.md"""


@command(help=PLAN_HELP)
@lake_option()
@clusters_options()
@option(
    "--at WHEN",
    "Compare with the snapshots of this time: a date, a time, or a duration before now  [default: now].",
    InstantParameter(),
)
@running_options()
@fleet_options()
@click.pass_obj
def plan(
    console: Console,
    *,
    lake: str,
    clusters: ClusterSelection,
    at: int | None,
    running: SessionSettings,
    showing: ReportOutput,
) -> ExitCode:
    """Read documents and records, run the job and show its report."""
    needs("spark", "kquota spark plan")
    from reconciler.app.recorded_use.fleet_inputs import fleet_inputs
    from reconciler.evidence.spark.jobs import plan as jobs

    _, to_ms = WindowOptions(to_ms=at).span(SystemClock())
    inputs = fleet_inputs(console, clusters)
    report: FleetReport = run_work(
        "plan",
        lambda spark, lake, settings, progress: jobs.planned(
            spark, lake, inputs, to_ms=to_ms, max_rows=settings, progress=progress
        ),
        lake,
        running,
        showing.most,
    )
    return show_fleet(console, report, showing)


LOOK_BACK_DAYS: Final = 35

RESOLVE_HELP: Final = """Show which limit each client gets, and which limits apply to no client: never seen, shadowed, unlimited.

Limits are those of the last complete snapshot of each cluster (kquota snapshot, kquota spark ingest --snapshot). Clients are
those of --principals, in every cluster; without it, the tags that recorded use was counted under in the look-back: then
a limit that limits with higher precedence may override is reported as no_data. All rows are written to the lake (effective_quota, dead_quota).

\b
Example:
  kquota spark resolve --all --lake s3://metrics/kquota --principals clients.csv
  kquota spark resolve --cluster prod --lake ./lake --from 60d --format markdown"""


@command(help=RESOLVE_HELP)
@lake_option()
@clusters_options()
@window_options(f"{LOOK_BACK_DAYS}d, the look-back")
@option(
    "--principals FILE",
    "Clients: CSV with the columns user, client_id and ip; - for standard input.",
)
@running_options()
@fleet_options()
@click.pass_obj
def resolve(
    console: Console,
    *,
    lake: str,
    clusters: ClusterSelection,
    window: WindowOptions,
    principals: str | None,
    running: SessionSettings,
    showing: ReportOutput,
) -> ExitCode:
    """Run the job and show its report."""
    needs("spark", "kquota spark resolve")
    from reconciler.evidence.spark.jobs import resolve as jobs
    from reconciler.evidence.spark.tables.time_window import ReportWindow

    from_ms, to_ms = window.span(SystemClock(), LOOK_BACK_DAYS * DAY_MS)
    settings = ReportWindow(
        from_ms=from_ms,
        to_ms=to_ms,
        cluster=tuple(cluster.id for cluster in clusters.select()),
        most=showing.most,
    )
    listing = None if principals is None else read_principals(principals)
    report: FleetReport = run_work(
        "resolve",
        lambda spark, lake, settings, progress: jobs.resolved(
            spark, lake, settings, listing, progress
        ),
        lake,
        running,
        settings,
    )
    return show_fleet(console, report, showing)


HISTORY_HELP: Final = """Show what changed, when, and by whom: snapshots of the limits against the audit log of kquota apply.

\b
Causes:
  applied-by-us    the audit log has that value at that time
  drift-external   the audit log does not have that value at that time
  flapping         three changes within 24 hours, by anyone
  first-seen       the value was in the first snapshot
  manifest-ahead   declared, but not live (kquota spark plan stores declarations)

All rows are written to the lake (quota_change); the newest are shown.

\b
Example:
  kquota spark history --all --lake s3://metrics/kquota --from 30d
  kquota spark history --cluster-id 4L6g3nShT-eMCtK--X86sw --lake ./lake --format json"""


@command(help=HISTORY_HELP)
@lake_option()
@clusters_options()
@window_options()
@running_options()
@fleet_options()
@click.pass_obj
def history(
    console: Console,
    *,
    lake: str,
    clusters: ClusterSelection,
    window: WindowOptions,
    running: SessionSettings,
    showing: ReportOutput,
) -> ExitCode:
    """Run the job and show its report."""
    from_ms, to_ms = window.span(SystemClock())
    ids = tuple(cluster.id for cluster in clusters.select())
    report: FleetReport = run(
        "history", lake, running, from_ms=from_ms, to_ms=to_ms, cluster=ids, most=showing.most
    )
    return show_fleet(console, report, showing)
