"""``kquota spark usage``, ``capacity``, ``report`` and ``client``: make a report over a time window and show it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from reconciler.app.recorded_use.selection import (
    ClusterSelection,
    SelectedCluster,
    WindowOptions,
)
from reconciler.app.recorded_use.spark_job import SparkOptions, run
from reconciler.base.clock import SystemClock
from reconciler.cli.framework.commands import command
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
from reconciler.cli.spark.report_output import ReportOutput, client_options, showing_options

if TYPE_CHECKING:
    from reconciler.usage.reports.usage import UsageReport


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """Options of a report command."""

    lake: str
    clusters: ClusterSelection
    window: WindowOptions
    most: int
    running: SparkOptions
    showing: ReportOutput

    def run(
        self,
        console: Console,
        job: str,
        budgets: "BrokerCapacityOptions | None" = None,
        **settings: object,
    ) -> ExitCode:
        """Run a job and show its report.

        Args:
            job: Name of the job.
            budgets: Capacity of brokers, for jobs that use it.
            settings: Further settings of the job.

        Raises:
            UsageError: The clusters or the window are invalid.
            LakeError: The lake cannot be read or written.
            SparkError: Spark fails.
        """
        clusters = self.clusters.select()
        from_ms, to_ms = self.window.span(SystemClock())
        if budgets is not None:
            settings["capacity"] = capacities_of(clusters, budgets.capacities)
            settings["replication_factor"] = budgets.replication_factor
        report: UsageReport = run(
            job,
            self.lake,
            self.running,
            from_ms=from_ms,
            to_ms=to_ms,
            cluster=tuple(cluster.id for cluster in clusters),
            most=self.most,
            **settings,
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
            click.option(
                "--most",
                type=click.IntRange(1, 5_000),
                default=50,
                show_default=True,
                help="Maximum number of rows of each table.",
            ),
            running_options(),
            showing_options(),
        ],
    )


def curves_option() -> Callable[[F], F]:
    """Return ``--curves``."""
    return click.option(
        "--curves",
        type=click.IntRange(0, 24),
        default=12,
        show_default=True,
        help="Maximum number of curves on a page.",
    )


USAGE_HELP: Final = """Show use of each limit by client: percentiles per broker, throttled, near the limit, unused.

Rollups of changed days are computed first. All rows are written to the lake (usage_row); the most relevant are shown.

\b
Example:
  kquota spark usage --cluster prod --lake ./lake
  kquota spark usage --all --lake s3://metrics/kquota --from 30d --out usage.html"""


@command(help=USAGE_HELP)
@report_options()
@curves_option()
@click.pass_obj
def usage(console: Console, *, report_request: ReportRequest, curves: int) -> ExitCode:
    """Run the job and show its report."""
    return report_request.run(console, "usage", curves=curves)


CAPACITY_HELP: Final = """Show broker budgets: capacity after replication, the share committed by limits, and actual use.

Capacity comes from spec.brokerCapacity of each QuotaCluster, or from --capacity; without it there is no budget. For
brokers over budget, the largest excesses over a fair share are listed.

\b
Example:
  kquota spark capacity --cluster prod --lake ./lake
  kquota spark capacity --cluster-id 4L6g3nShT-eMCtK--X86sw --lake ./lake --capacity 4L6g3nShT-eMCtK--X86sw=125000000:125000000"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCapacityOptions:
    """Capacity of brokers from the command line."""

    capacities: tuple[str, ...] = ()
    replication_factor: int | None = None


def budgets_options() -> Callable[[F], F]:
    """Return ``--capacity`` and ``--replication-factor``, passed as ``budgets``."""
    return OptionPack(
        "budgets",
        BrokerCapacityOptions,
        [
            click.option(
                "--capacity",
                "capacities",
                multiple=True,
                metavar="ID=IN:OUT[:PPM]",
                help="Ingress and egress capacity of a broker in bytes/s (- = unknown), and the usable share in ppm; may be repeated.",
            ),
            click.option(
                "--replication-factor",
                type=click.IntRange(1, 100),
                help="Replication factor to assume if replication traffic was not recorded, with balanced leaders.",
            ),
        ],
    )


def capacities_of(clusters: Iterable[SelectedCluster], typed: Iterable[str]) -> tuple[str, ...]:
    """Return the capacity of brokers as ``ID=IN:OUT:PPM``: the typed values, and those of the project for other clusters.

    Args:
        typed: Values of ``--capacity``.
    """
    from reconciler.manifest.quantity import parse_integer
    from reconciler.usage.capacity import HEADROOM_PPM
    from reconciler.usage.samples import MILLION

    typed_values = tuple(typed)
    typed_ids = {typed_value.rpartition("=")[0] for typed_value in typed_values}
    capacities: list[str] = []
    for cluster in clusters:
        capacity_spec = cluster.settings.broker_capacity if cluster.settings is not None else {}
        if cluster.id in typed_ids or not capacity_spec:
            continue
        ways = ":".join(
            "-" if way not in capacity_spec else str(parse_integer(str(capacity_spec[way])))
            for way in ("ingress", "egress")
        )
        headroom = round(float(capacity_spec.get("headroom", HEADROOM_PPM / MILLION)) * MILLION)
        capacities.append(f"{cluster.id}={ways}:{headroom}")
    return (*typed_values, *capacities)


@command(help=CAPACITY_HELP)
@report_options()
@budgets_options()
@click.pass_obj
def capacity(
    console: Console, *, report_request: ReportRequest, budgets: BrokerCapacityOptions
) -> ExitCode:
    """Run the job and show its report."""
    return report_request.run(console, "capacity", budgets)


REPORT_HELP: Final = """Write one report: use against limits over time, headroom, capacity, what-if and recommendations.

The what-if and the recommendations are the newest that `kquota spark simulate` and `kquota spark recommend` wrote to
the lake; the report shows their time window. A page (--out report.html) needs no network and no script; with --pseudonymise it can be published.

\b
Example:
  kquota spark report --cluster prod --lake ./lake --out report.html
  kquota spark report --all --lake ./lake --from 7d --pseudonymise key.txt --out public.html"""


@command(help=REPORT_HELP)
@report_options()
@budgets_options()
@curves_option()
@click.pass_obj
def report(
    console: Console, *, report_request: ReportRequest, budgets: BrokerCapacityOptions, curves: int
) -> ExitCode:
    """Run the job and show its report."""
    return report_request.run(console, "report", budgets, curves=curves)


CLIENT_HELP: Final = """Write one page for one client: when brokers throttled it, by which limit, and the smallest limit that would not have.

It has the limit and its level, the clients that share it, the recorded delay, charts, and a ClientQuota with the proposed
limit; no name of another client. So it can be given to the client's team. Give all names that limits are set for: user,
client id, or both. Spark and Java are not needed.

\b
Example:
  kquota spark client --cluster prod --lake ./lake --user alice --at 2026-11-21T14:03
  kquota spark client --cluster prod --lake ./lake --user alice --client-id checkout --from 7d --out checkout.html"""


@command(help=CLIENT_HELP)
@lake_option()
@clusters_options()
@click.option("--user", metavar="NAME", help="Name of the principal, without the prefix User:.")
@click.option("--client-id", metavar="NAME", help="Client id, as the client sends it.")
@click.option("--ip", metavar="ADDRESS", help="Address that the client connects from.")
@click.option(
    "--at",
    "at_ms",
    type=InstantParameter(),
    metavar="WHEN",
    help="Time in question; the window is an hour before and after it, unless --from or --to is given.",
)
@window_options()
@most_option(50, "Maximum number of times to show.")
@client_options()
@click.pass_obj
def client(
    console: Console,
    *,
    lake: str,
    clusters: ClusterSelection,
    user: str | None,
    client_id: str | None,
    ip: str | None,
    at_ms: int | None,
    window: WindowOptions,
    most: int,
    showing: ReportOutput,
) -> ExitCode:
    """Make the report and show it."""
    from reconciler.app.recorded_use.client_report import ClientReportOptions, run_client_report

    options = ClientReportOptions(
        lake=lake,
        clusters=clusters,
        window=window,
        user=user,
        client_id=client_id,
        ip=ip,
        at_ms=at_ms,
        max_rows=most,
    )
    showing.show(console, run_client_report(console, options))
    return ExitCode.DONE
