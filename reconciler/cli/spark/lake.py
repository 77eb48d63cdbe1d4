"""``kquota spark expire`` and ``rollup``: remove expired data from the lake; compute sums and histograms."""

import json
from typing import TYPE_CHECKING, Final

import click

from reconciler.app.recorded_use.spark_job import run
from reconciler.cli.framework.commands import command, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import format_option
from reconciler.cli.spark.options import lake_option, running_options
from reconciler.errors import UsageError
from reconciler.evidence.spark.runtime.session_settings import SessionSettings

if TYPE_CHECKING:
    from reconciler.errors import LakeError
    from reconciler.evidence.spark.jobs.rollup import RollupReport
    from reconciler.evidence.store.expiry import ExpiryReport, TableExpiry


EXPIRY_KIND: Final = "kquota-expired"
FORMAT: Final = 1

EXPIRE_HELP: Final = """Remove expired data and unused files from the lake.

Kept are: samples and results 30 days, sums of five minutes 396 days (13 months), histograms, snapshots of limits and
what was applied 762 days (25 months). Superseded generations and files that no manifest names go one day after
their last use, because a reader or writer may still need them.

\b
Example:
  kquota spark expire --lake s3://metrics/kquota --dry-run
  kquota spark expire --lake ./lake --keep target_up=90 --keep usage_sample=90"""


@command(help=EXPIRE_HELP)
@lake_option()
@option(
    "--keep TABLE=DAYS",
    "Retention of a table in days; may be repeated.",
    name="keep_options",
    multiple=True,
)
@flag("--dry-run", "Print what would be removed; remove nothing.")
@format_option("text", "json")
@click.pass_obj
def expire(
    console: Console, /, lake: str, keep_options: tuple[str, ...], output: str, *, dry_run: bool
) -> ExitCode:
    """Remove expired data, and print the report."""
    from reconciler.base.installation import needs

    needs("usage", "kquota spark expire")
    from reconciler.base.clock import SystemClock
    from reconciler.evidence.store.expiry import KEEP_DAYS, expired
    from reconciler.evidence.store.files import object_store

    keep = KEEP_DAYS | _days(keep_options)
    now_ms = int(SystemClock().now() * 1000)
    report = expired(object_store.opened(lake), now_ms, keep, dry_run=dry_run)
    console.fact(_expiry_document(report) if output == "json" else _expiry_text(report))
    for name, failure in report.failures.items():
        console.error(f"{name}: {_failure_text(failure)}")
    return ExitCode.ERROR if report.failures else ExitCode.DONE


def _days(keep_options: tuple[str, ...]) -> dict[str, int]:
    from reconciler.usage.tables import TABLES

    days_by_table: dict[str, int] = {}
    for item in keep_options:
        name, _, days = item.partition("=")
        if name not in TABLES:
            raise UsageError(
                f"--keep {item}: there is no table {name!r}", hint=f"one of {', '.join(TABLES)}"
            )
        if not (days.isascii() and days.isdigit() and int(days)):
            raise UsageError(f"--keep {item}: give a whole number of days, at least 1")
        days_by_table[name] = int(days)
    return days_by_table


def _expiry_text(report: "ExpiryReport") -> str:
    from reconciler.render.table import Cell, table
    from reconciler.render.units import count

    if not report.tables:
        return "Nothing was removed.\n" if report.failures else "No expired data.\n"
    rows: list[list[Cell | str]] = [
        [table.table, *(Cell(text=text, right=True) for text in _figures(table))]
        for table in report.tables
    ]
    total = report.total
    verb = "Would remove" if report.dry_run else "Removed"
    last = (
        f"{verb} {count(total.units, 'day of a cluster', 'days of clusters')},"
        f" {count(total.generations, 'superseded generation')} and {count(total.files, 'file')}"
        f" ({_size(total.size)})."
    )
    return "\n".join(
        [*table(rows, heads=("TABLE", "DAYS", "GENERATIONS", "FILES", "SIZE")), "", last, ""]
    )


def _figures(table: "TableExpiry") -> tuple[str, str, str, str]:
    return f"{table.units:,}", f"{table.generations:,}", f"{table.files:,}", _size(table.size)


def _size(amount: int) -> str:
    for name, unit in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if amount >= unit:
            return f"{amount / unit:.1f} {name}"
    return f"{amount} B"


def _failure_text(failure: "LakeError") -> str:
    return str(failure) + (f" ({failure.hint})" if failure.hint else "")


def _expiry_document(report: "ExpiryReport") -> str:
    def figures(table: "TableExpiry") -> dict[str, int]:
        return {
            "units": table.units,
            "generations": table.generations,
            "files": table.files,
            "bytes": table.size,
        }

    document = {
        "kind": EXPIRY_KIND,
        "format": FORMAT,
        "dryRun": report.dry_run,
        "tables": [{"table": table.table, **figures(table)} for table in report.tables],
        "total": figures(report.total),
        "failures": [
            {"table": name, "error": _failure_text(failure)}
            for name, failure in report.failures.items()
        ],
    }
    return json.dumps(document, indent=2) + "\n"


ROLLUP_KIND: Final = "kquota-rollup"

ROLLUP_HELP: Final = """Compute five-minute sums and daily histograms of days whose samples changed.

A killed run leaves each day either unchanged or complete. Reports, capacity and long windows read these tables.

\b
Example:
  kquota spark rollup --lake ./lake
  kquota spark rollup --lake s3://metrics/kquota --remote sc://spark.example.com"""


@command(help=ROLLUP_HELP)
@lake_option()
@option(
    "--cluster-id ID", "Only this Kafka cluster id; may be repeated.", name="ids", multiple=True
)
@flag("--rebuild", "Recompute all days, changed or not.")
@running_options()
@format_option("text", "json")
@click.pass_obj
def rollup(
    console: Console,
    /,
    lake: str,
    ids: tuple[str, ...],
    running: SessionSettings,
    output: str,
    *,
    rebuild: bool,
) -> ExitCode:
    """Run the job and print its report."""
    report: RollupReport = run("rollup", lake, running, cluster=ids, rebuild=rebuild)
    console.fact(rollup_document(report) if output == "json" else _rollup_text(report))
    return ExitCode.DONE


def rollup_document(report: "RollupReport") -> str:
    """Return the report of a rollup as JSON."""
    from reconciler.codecs.row_values import row_document
    from reconciler.render.json_values import dump

    return dump({"kind": ROLLUP_KIND, "format": FORMAT, **row_document(report)})


def _rollup_text(report: "RollupReport") -> str:
    return "\n".join(
        f"{table.table}: {table.units} days made ({table.rows} rows), {table.unchanged} were up to date"
        for table in report.tables
    )
