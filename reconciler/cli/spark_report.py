"""``kquota spark report``: one page of use, capacity, and the newest what-if and recommendations of the lake."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.spark_capacity import capacities_of, capacity_options
from reconciler.cli.spark_options import (
    Clusters,
    Window,
    clusters_options,
    lake_option,
    spanned,
    window_options,
)
from reconciler.cli.spark_running import Running, run, running_options
from reconciler.cli.spark_showing import Showing, show_report, showing_options

if TYPE_CHECKING:
    from reconciler.usage.reports import UsageReport

HELP: Final = """One report for people: use against limits over time, headroom, capacity, what a change would do, recommendations.

The what-if and the recommendations are the newest that `kquota spark simulate` and `kquota spark recommend` left in the
lake. A page (--out report.html) needs no network and no script; with --pseudonymise it may be shown outside.

\b
Example:
  kquota spark report --cluster prod --lake ./lake --out report.html
  kquota spark report --all --lake ./lake --from 7d --pseudonymise key.txt --out public.html"""


@click.command(help=HELP)
@lake_option()
@clusters_options()
@window_options()
@capacity_options()
@click.option("--most", type=click.IntRange(1, 5_000), default=50, show_default=True, help="Rows of each table to show.")  # fmt: skip
@click.option("--curves", type=click.IntRange(0, 24), default=12, show_default=True, help="Curves on a page.")  # fmt: skip
@running_options()
@showing_options()
@click.pass_obj
def report(
    console: Console,
    *,
    lake: str,
    clusters: Clusters,
    window: Window,
    capacities: tuple[str, ...],
    replication_factor: int | None,
    most: int,
    curves: int,
    running: Running,
    showing: Showing,
) -> Exit:
    """Run the job and show its report."""
    chosen = clusters.chosen()
    found: UsageReport = run(
        "report",
        lake,
        running,
        **spanned(chosen, window),
        capacity=capacities_of(chosen, capacities),
        replication_factor=replication_factor,
        most=most,
        curves=curves,
    )
    show_report(console, found, showing)
    return Exit.DONE
