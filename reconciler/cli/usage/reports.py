"""``kquota usage show``, ``capacity``, ``report`` and ``client``: make a report over a time window and show it; ``files`` lists tables."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from reconciler.app.recorded_use.reports import (
    ClientReportOptions,
    ReportKind,
    ReportOptions,
    run_client_report,
    run_report,
)
from reconciler.app.recorded_use.selection import WindowOptions
from reconciler.base.clock import SystemClock
from reconciler.cli.framework.commands import ExitCode, command, option
from reconciler.cli.framework.console import Console, ProgressLine
from reconciler.cli.options.shared import OptionPack
from reconciler.cli.usage.options import (
    InstantParameter,
    ReportOutput,
    clusters_options,
    engine_options,
    lake_option,
    most_option,
    showing_options,
    window_options,
)
from reconciler.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def _shown(
    console: Console, kind: ReportKind, options: ReportOptions, showing: ReportOutput
) -> ExitCode:
    with ProgressLine(console) as progress:
        report = run_report(console, kind, options, progress)
    showing.show(console, report)
    return ExitCode.DONE


def report_options() -> Callable[[F], F]:
    """Return the options of :class:`ReportOptions`, passed as ``options``."""
    return OptionPack(
        "options",
        ReportOptions,
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
            engine_options(),
        ],
    )


SHOW_HELP: Final = """Show use of each limit by client: percentiles per broker, throttled, near the limit, unused.

The window is widened to whole days (UTC), because percentiles are of days. All rows are written to the lake (usage_row);
the most relevant are shown.

\b
Example:
  kquota usage show --cluster prod --lake ./lake
  kquota usage show --all --lake s3://metrics/kquota --from 30d --out usage.html"""


@command(help=SHOW_HELP)
@report_options()
@showing_options()
@click.pass_obj
def show(console: Console, *, options: ReportOptions, showing: ReportOutput) -> ExitCode:
    """Make the report and show it."""
    return _shown(console, ReportKind.SHOW, options, showing)


CAPACITY_HELP: Final = """Show broker budgets: capacity after replication, the share committed by limits, and actual use.

Capacity comes from spec.brokerCapacity of each QuotaCluster; without it there is no budget. For brokers over budget, the
largest excesses over a fair share are listed.

\b
Example:
  kquota usage capacity --cluster prod --lake ./lake
  kquota usage capacity --all --lake s3://metrics/kquota --from 7d"""


@command(help=CAPACITY_HELP)
@report_options()
@showing_options()
@click.pass_obj
def capacity(console: Console, *, options: ReportOptions, showing: ReportOutput) -> ExitCode:
    """Make the report and show it."""
    return _shown(console, ReportKind.CAPACITY, options, showing)


REPORT_HELP: Final = """Write one report: use against limits over time, headroom, capacity, what-if and recommendations.

The what-if and the recommendations are the newest that `kquota usage simulate` and `kquota usage recommend` wrote to
the lake; the report shows their time window. A page (--out report.html) needs no network and no script.

\b
Example:
  kquota usage report --cluster prod --lake ./lake --out report.html
  kquota usage report --all --lake ./lake --from 7d --out report.html"""


@command(help=REPORT_HELP)
@report_options()
@showing_options()
@click.pass_obj
def report(console: Console, *, options: ReportOptions, showing: ReportOutput) -> ExitCode:
    """Make the report and show it."""
    return _shown(console, ReportKind.REPORT, options, showing)


CLIENT_HELP: Final = """Write one page for one client: when brokers throttled it, by which limit, and the smallest limit that would not have.

It has the limit and its level, the clients that share it, the recorded delay, charts, and a ClientQuota with the proposed
limit; no name of another client. So it can be given to the client's team. Give all names that limits are set for: user,
client id, or both.

\b
Example:
  kquota usage client --cluster prod --lake ./lake --user alice --at 2026-11-21T14:03
  kquota usage client --cluster prod --lake ./lake --user alice --client-id checkout --from 7d --out checkout.html"""


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


FILES_HELP: Final = """List the Parquet files of a table, one address on a line, for DuckDB, Polars, Spark SQL or any other engine.

docs/tables.md describes the tables and their columns.

\b
Example:
  kquota usage files usage_sample --lake ./lake
  kquota usage files target_up --lake s3://metrics/kquota --cluster-id 4L6g3nShT-eMCtK--X86sw --from 7d"""


@command(help=FILES_HELP)
@click.argument("table")
@lake_option()
@option(
    "--cluster-id ID", "Only this Kafka cluster id; may be repeated.", name="ids", multiple=True
)
@window_options("all days")
@click.pass_obj
def files(
    console: Console, /, table: str, lake: str, ids: tuple[str, ...], window: WindowOptions
) -> ExitCode:
    """Print the address of each file."""
    from reconciler.base.installation import needs
    from reconciler.usage.tables import TABLES

    needs("usage", "kquota usage files")
    from reconciler.app.recorded_use.selection import opened_lake
    from reconciler.usage.samples import day_of

    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}", hint=f"one of {', '.join(TABLES)}")
    days = {}
    if window.is_given:
        begin, end = window.span(SystemClock(), 2**62)
        days = {"from_day": day_of(begin), "to_day": day_of(end - 1)}
    tables = opened_lake(lake)
    for unit in tables.units(TABLES[table], ids or None, **days):
        console.fact(tables.store.display_path(unit.path))
    return ExitCode.DONE
