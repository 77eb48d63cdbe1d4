"""``kquota spark report``: one page of use, capacity, and the newest what-if and recommendations of the lake."""

from typing import Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import ExitCode
from reconciler.cli.spark_capacity import BrokerCapacityOptions, budgets_options
from reconciler.cli.spark_reporting import ReportRequest, curves_option, report_options

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
def report(console: Console, *, asked: ReportRequest, budgets: BrokerCapacityOptions, curves: int) -> ExitCode:
    """Run the job and show its report."""
    return asked.run(console, "report", budgets.of, curves=curves)
