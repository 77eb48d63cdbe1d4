"""``kquota spark resolve``: which limit each client of a fleet gets, and which limits apply to no client."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.app.change.principals import read_principals
from reconciler.base.extras import needs
from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.output.fleet_reports import (
    FleetOutput,
    fleet_options,
    show_fleet,
)
from reconciler.cli.spark.jobs.session import SparkOptions, running_options
from reconciler.cli.spark.options import (
    DAY_MS,
    ClusterSelection,
    WindowOptions,
    clusters_options,
    lake_option,
    window_options,
)

if TYPE_CHECKING:
    from reconciler.usage.reports.fleet import FleetReport

LOOK_BACK_DAYS: Final = 35

HELP: Final = """Show which limit each client gets, and which limits apply to no client: never seen, shadowed, unlimited.

Limits are those of the last complete snapshot of each cluster (kquota snapshot, kquota spark ingest --snapshot). Clients are
those of --principals, in every cluster; without it, the tags that recorded use was counted under in the look-back: then
a limit that closer ones may hide is reported as no_data. All rows go to the lake (effective_quota, dead_quota).

\b
Example:
  kquota spark resolve --all --lake s3://metrics/kquota --principals clients.csv
  kquota spark resolve --cluster prod --lake ./lake --from 60d --format markdown"""


@command(help=HELP)
@lake_option()
@clusters_options()
@window_options(f"{LOOK_BACK_DAYS}d, the look-back")
@click.option("--principals", metavar="FILE", help="Clients: CSV with the columns user, client_id and ip; - for standard input.")  # fmt: skip
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
    running: SparkOptions,
    showing: FleetOutput,
) -> ExitCode:
    """Run the job and show its report."""
    needs("spark", "kquota spark resolve")
    from dataclasses import replace

    from reconciler.base.clock import SystemClock
    from reconciler.evidence.spark.jobs import resolve as jobs
    from reconciler.evidence.spark.runtime import job_runner as runs

    from_ms, to_ms = window.span(SystemClock(), LOOK_BACK_DAYS * DAY_MS)
    settings = jobs.ResolveSettings(
        to_ms=to_ms,
        days=-(-(to_ms - from_ms) // DAY_MS),
        cluster=tuple(cluster.id for cluster in clusters.select()),
        most=showing.most,
    )
    job = jobs.JOB
    if principals is not None:
        listing = jobs.of_principals(read_principals(principals))
        job = replace(
            job,
            run=lambda spark, lake, settings, progress: jobs.resolved(
                spark, lake, settings, listing, progress
            ),
        )
    report: FleetReport = runs.run(job, lake, running.settings(), settings)
    return show_fleet(console, report, showing)
