"""``kquota spark usage``, ``capacity``, ``report`` and ``client``: make a report over a time window and show it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from msgspec import Struct

from reconciler.app.recorded_use.client_report import ClientReportOptions, run_client_report
from reconciler.app.recorded_use.selection import ClusterSelection, WindowOptions
from reconciler.app.recorded_use.spark_job import run
from reconciler.base.clock import SystemClock
from reconciler.cli.framework.commands import command, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import OptionPack
from reconciler.cli.spark.options import (
    InstantParameter,
    clusters_options,
    lake_option,
    most_option,
    running_options,
    window_options,
)
from reconciler.cli.spark.report_output import ReportOutput, showing_options
from reconciler.evidence.spark.runtime.session_settings import SessionSettings

if TYPE_CHECKING:
    from reconciler.usage.reports.usage import UsageReport


F = TypeVar("F", bound=Callable[..., Any])


class ReportRequest(Struct, frozen=True, kw_only=True):
    """Options of a report command."""

    lake: str
    clusters: ClusterSelection
    window: WindowOptions
    most: int
    running: SessionSettings
    showing: ReportOutput

    def run(self, console: Console, job: str) -> ExitCode:
        """Run a job by its name and show its report.

        Raises:
            UsageError: The clusters or the window are invalid.
            LakeError: The lake cannot be read or written.
            SparkError: Spark fails.
        """
        clusters = self.clusters.select()
        from_ms, to_ms = self.window.span(SystemClock())
        report: UsageReport = run(
            job,
            self.lake,
            self.running,
            from_ms=from_ms,
            to_ms=to_ms,
            cluster=tuple(cluster.id for cluster in clusters),
            most=self.most,
            capacity=tuple(filter(None, (cluster.capacity for cluster in clusters))),
        )
        self.showing.show(console, report)
        return ExitCode.DONE


def report_options() -> Callable[[F], F]:
    """Return the options of :class:`ReportRequest`, passed as ``report_request``."""
    return OptionPack(
        "report_request",
        ReportRequest,
        [
            lake_option(),
            clusters_options(),
            window_options(),
            option(
                "--most",
                "Maximum number of rows of each table.",
                click.IntRange(1, 5_000),
                default=50,
            ),
            running_options(),
            showing_options(),
        ],
    )


USAGE_HELP: Final = """Show use of each limit by client: percentiles per broker, throttled, near the limit, unused.

Rollups of changed days are computed first. All rows are written to the lake (usage_row); the most relevant are shown.

\b
Example:
  kquota spark usage --cluster prod --lake ./lake
  kquota spark usage --all --lake s3://metrics/kquota --from 30d --out usage.html"""


@command(help=USAGE_HELP)
@report_options()
@click.pass_obj
def usage(console: Console, *, report_request: ReportRequest) -> ExitCode:
    """Run the job and show its report."""
    return report_request.run(console, "usage")


CAPACITY_HELP: Final = """Show broker budgets: capacity after replication, the share committed by limits, and actual use.

Capacity comes from spec.brokerCapacity of each QuotaCluster; without it there is no budget. For brokers over budget, the
largest excesses over a fair share are listed.

\b
Example:
  kquota spark capacity --cluster prod --lake ./lake
  kquota spark capacity --all --lake s3://metrics/kquota --from 7d"""


@command(help=CAPACITY_HELP)
@report_options()
@click.pass_obj
def capacity(console: Console, *, report_request: ReportRequest) -> ExitCode:
    """Run the job and show its report."""
    return report_request.run(console, "capacity")


REPORT_HELP: Final = """Write one report: use against limits over time, headroom, capacity, what-if and recommendations.

The what-if and the recommendations are the newest that `kquota spark simulate` and `kquota spark recommend` wrote to
the lake; the report shows their time window. A page (--out report.html) needs no network and no script.

\b
Example:
  kquota spark report --cluster prod --lake ./lake --out report.html
  kquota spark report --all --lake ./lake --from 7d --out report.html"""


@command(help=REPORT_HELP)
@report_options()
@click.pass_obj
def report(console: Console, *, report_request: ReportRequest) -> ExitCode:
    """Run the job and show its report."""
    return report_request.run(console, "report")


CLIENT_HELP: Final = """Write one page for one client: when brokers throttled it, by which limit, and the smallest limit that would not have.

It has the limit and its level, the clients that share it, the recorded delay, charts, and a ClientQuota with the proposed
limit; no name of another client. So it can be given to the client's team. Give all names that limits are set for: user,
client id, or both. Spark and Java are not needed.

\b
Example:
  kquota spark client --cluster prod --lake ./lake --user alice --at 2026-11-21T14:03
  kquota spark client --cluster prod --lake ./lake --user alice --client-id checkout --from 7d --out checkout.html"""


@command(help=CLIENT_HELP)
@OptionPack(
    "options",
    ClientReportOptions,
    [
        lake_option(),
        clusters_options(),
        option("--user NAME", "Name of the principal, without the prefix User:."),
        option("--client-id NAME", "Client id, as the client sends it."),
        option("--ip ADDRESS", "Address that the client connects from."),
        option(
            "--at WHEN",
            "Time in question; the window is an hour before and after it, unless --from or --to is given.",
            InstantParameter(),
            name="at_ms",
        ),
        window_options(),
        most_option(50, "Maximum number of times to show."),
    ],
)
@showing_options()
@click.pass_obj
def client(console: Console, *, options: ClientReportOptions, showing: ReportOutput) -> ExitCode:
    """Make the report and show it."""
    showing.show(console, run_client_report(console, options))
    return ExitCode.DONE
