"""``kquota spark usage``: use against limits over a window of whole days."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
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

HELP: Final = """Who uses how much of which limit: percentiles of time per broker, throttled, near the limit, unused.

Rollups of days that changed are made first. All rows go to the lake (usage_row); the most telling are shown.

\b
Example:
  kquota spark usage --cluster prod --lake ./lake
  kquota spark usage --all --lake s3://metrics/kquota --from 30d --out usage.html"""


@click.command(help=HELP)
@lake_option()
@clusters_options()
@window_options()
@click.option("--most", type=click.IntRange(1, 5_000), default=50, show_default=True, help="Rows to show.")  # fmt: skip
@click.option("--curves", type=click.IntRange(0, 24), default=12, show_default=True, help="Curves on a page.")  # fmt: skip
@running_options()
@showing_options()
@click.pass_obj
def usage(
    console: Console,
    *,
    lake: str,
    clusters: Clusters,
    window: Window,
    most: int,
    curves: int,
    running: Running,
    showing: Showing,
) -> Exit:
    """Run the job and show its report."""
    given = spanned(clusters.chosen(), window)
    report: UsageReport = run("usage", lake, running, **given, most=most, curves=curves)
    show_report(console, report, showing)
    return Exit.DONE
