"""``kquota spark history``: what changed on a fleet, when, and whether we did it."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.output.fleet_reports import (
    FleetOutput,
    fleet_options,
    show_fleet,
)
from reconciler.cli.spark.jobs.session import SparkOptions, run, running_options
from reconciler.cli.spark.options import (
    ClusterSelection,
    WindowOptions,
    clusters_options,
    lake_option,
    window_options,
)

if TYPE_CHECKING:
    from reconciler.usage.reports.fleet import FleetReport

HELP: Final = """Show what changed, when, and by whom: snapshots of the limits against the audit log of kquota apply.

\b
Causes:
  applied-by-us    the audit log has that value at that time
  drift-external   it has not
  flapping         three changes within 24 hours, by anyone
  first-seen       it was there at the first look
  manifest-ahead   documents ask for it and the cluster has not got it (kquota spark plan keeps what they ask for)

All rows go to the lake (quota_change); the newest are shown.

\b
Example:
  kquota spark history --all --lake s3://metrics/kquota --from 30d
  kquota spark history --cluster-id 4L6g3nShT-eMCtK--X86sw --lake ./lake --format json"""


@command(help=HELP)
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
    running: SparkOptions,
    showing: FleetOutput,
) -> ExitCode:
    """Run the job and show its report."""
    from reconciler.base.clock import SystemClock

    from_ms, to_ms = window.span(SystemClock())
    ids = tuple(cluster.id for cluster in clusters.select())
    report: FleetReport = run(
        "history", lake, running, from_ms=from_ms, to_ms=to_ms, cluster=ids, most=showing.most
    )
    return show_fleet(console, report, showing)
