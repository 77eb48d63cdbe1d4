"""``kquota spark simulate``: what new limits would have done to recorded use, for one cluster or the whole fleet."""

from pathlib import Path
from typing import Final

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import FILE, format_option
from reconciler.cli.spark.jobs.session import (
    SparkOptions,
    engine_option,
    running_options,
)
from reconciler.cli.spark.options import (
    ClusterSelection,
    WindowOptions,
    clusters_options,
    lake_option,
    window_options,
)

HELP: Final = """Simulate new limits on recorded use: who is throttled, for how long, and with what worst delay.

The new limits are those of the project's manifests (or of PATH) on top of the last look at each cluster in the lake;
or saved plans (--plan), or whole snapshots (--after). All rows go into the lake (impact_row); the worst tenants are
shown. With files, --cluster and --cluster-id say whose they have to be. Exit 3: spec.simulate of the project refuses a figure. Nothing is written to any cluster.

Few samples are replayed here, without a JVM; many by Spark. Both give the same rows.

\b
Example:
  kquota spark simulate --lake ./lake --cluster prod
  kquota spark simulate --lake s3://metrics/kquota --plan plan.json --from 30d --format markdown
  kquota spark simulate --lake ./lake --after tomorrow.json --engine spark --master 'local[4]' --memory 4g"""


@command(help=HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@lake_option()
@clusters_options()
@window_options()
@click.option("--plan", "plans", type=FILE, multiple=True, metavar="FILE", help="Plan saved by kquota plan --out; may be repeated, one per cluster.")  # fmt: skip
@click.option("--after", type=FILE, multiple=True, metavar="FILE", help="Snapshot of the new limits; may be repeated.")  # fmt: skip
@click.option("--require-evidence", is_flag=True, help="Exit 5 unless there is evidence for every change.")  # fmt: skip
@click.option("--most", type=click.IntRange(1, 10_000), default=200, show_default=True, metavar="N", help="Maximum number of rows, one for each broker and group of clients; a tenant is never cut, and at least one is shown.")  # fmt: skip
@engine_option()
@running_options()
@format_option("text", "json", "markdown")
@click.pass_obj
def simulate(
    console: Console,
    *,
    paths: tuple[str, ...],
    lake: str,
    clusters: ClusterSelection,
    window: WindowOptions,
    plans: tuple[Path, ...],
    after: tuple[Path, ...],
    require_evidence: bool,
    most: int,
    engine: str,
    running: SparkOptions,
    output: str,
) -> ExitCode:
    """Simulate, report, decide."""
    from reconciler.cli.output.usage_results import show
    from reconciler.cli.spark.jobs import simulation as simulating
    from reconciler.usage.reports.usage import UsageReport

    simulation = simulating.simulated(
        console,
        simulating.SimulateOptions(
            lake=lake,
            clusters=clusters,
            paths=paths,
            plans=plans,
            after=after,
            window=window,
            engine=engine,
            running=running,
            most=most,
        ),
    )
    for note in simulation.evidence:
        if note.stale:
            console.warning(f"evidence of {note.cluster_id}: {note.stale}")
    show(console, UsageReport(evidence=simulation.evidence, simulation=simulation), output)
    return simulating.code_of(simulation, require_evidence=require_evidence)
