"""``kquota spark usage``: use against limits over a window of whole days."""

from typing import Final

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.spark.window_report import (
    ReportRequest,
    curves_option,
    report_options,
)

HELP: Final = """Show who uses how much of which limit: percentiles per broker, throttled, near the limit, unused.

Rollups of days that changed are made first. All rows go to the lake (usage_row); the most telling are shown.

\b
Example:
  kquota spark usage --cluster prod --lake ./lake
  kquota spark usage --all --lake s3://metrics/kquota --from 30d --out usage.html"""


@command(help=HELP)
@report_options()
@curves_option()
@click.pass_obj
def usage(console: Console, *, asked: ReportRequest, curves: int) -> ExitCode:
    """Run the job and show its report."""
    return asked.run(console, "usage", curves=curves)
