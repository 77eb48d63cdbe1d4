"""``kquota spark report``: one page of use, capacity, and the newest what-if and recommendations of the lake."""

from typing import Final

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.spark.capacity import BrokerCapacityOptions, budgets_options
from reconciler.cli.spark.window_report import (
    ReportRequest,
    curves_option,
    report_options,
)

HELP: Final = """Write one report: use against limits over time, headroom, capacity, what-if and recommendations.

The what-if and the recommendations are the newest that `kquota spark simulate` and `kquota spark recommend` left in the
lake, which may be of another window: the report says of which. A page (--out report.html) needs no network and no script; with --pseudonymise it may be shown outside.

\b
Example:
  kquota spark report --cluster prod --lake ./lake --out report.html
  kquota spark report --all --lake ./lake --from 7d --pseudonymise key.txt --out public.html"""


@command(help=HELP)
@report_options()
@budgets_options()
@curves_option()
@click.pass_obj
def report(
    console: Console, *, asked: ReportRequest, budgets: BrokerCapacityOptions, curves: int
) -> ExitCode:
    """Run the job and show its report."""
    return asked.run(console, "report", budgets.of, curves=curves)
