"""``kquota spark plan``: what would change on all clusters of a project, compared with the looks of the lake."""

from typing import TYPE_CHECKING, Final

import click

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
    ClusterSelection,
    InstantParameter,
    WindowOptions,
    clusters_options,
    lake_option,
)

if TYPE_CHECKING:
    from reconciler.usage.reports.fleet import FleetReport

HELP: Final = """Show what would change on all clusters: documents and records of the project against the last snapshots.

No broker is asked, and nothing is written to one. Rows are those of kquota plan. Guards that count removals, defaults and
empty trees are asked for each cluster; the others need every client's limit and are left to kquota plan. All rows go to
the lake (plan_row, plan_conflict), and so does what documents and records said (desired_entry, owned_entry).

\b
Exit codes:
  0  planned, with changes or without
  1  an error, or documents that claim the same pair
  3  a guard refuses

\b
Example:
  kquota spark plan --all --lake s3://metrics/kquota
  kquota spark plan --cluster prod --lake ./lake --format markdown --out plan.md"""


@command(help=HELP)
@lake_option()
@clusters_options()
@click.option("--at", type=InstantParameter(), metavar="WHEN", help="Compare with the looks of that time: a date, a moment, or so long ago  [default: now].")  # fmt: skip
@running_options()
@fleet_options()
@click.pass_obj
def plan(
    console: Console,
    *,
    lake: str,
    clusters: ClusterSelection,
    at: int | None,
    running: SparkOptions,
    showing: FleetOutput,
) -> ExitCode:
    """Read the sides, run the job and show its report."""
    needs("spark", "kquota spark plan")
    from dataclasses import replace

    from reconciler.base.clock import SystemClock
    from reconciler.cli.spark.jobs.fleet_inputs import fleet
    from reconciler.evidence.spark.jobs import plan as jobs
    from reconciler.evidence.spark.runtime import job_runner as runs

    _, to_ms = WindowOptions(to_ms=at).span(SystemClock())
    sides = fleet(console, clusters)

    settings = jobs.PlanSettings(to_ms=to_ms, project="", most=showing.most)
    job = replace(jobs.JOB, run=jobs.of_fleet(sides.intended, sides.guards))
    report: FleetReport = runs.run(job, lake, running.settings(), settings)
    return show_fleet(console, report, showing)
