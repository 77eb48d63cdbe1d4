"""``kquota usage files``: lists the Parquet files of a table."""

from typing import Final

import click

from reconciler.app.recorded_use.selection import WindowOptions
from reconciler.base.clock import SystemClock
from reconciler.cli.framework.commands import ExitCode, command, option
from reconciler.cli.framework.console import Console
from reconciler.cli.usage.options import lake_option, window_options
from reconciler.errors import UsageError

HELP: Final = """List the Parquet files of a table, one address on a line, for DuckDB, Polars, Spark SQL or any other engine.

docs/tables.md describes the tables and their columns.

\b
Example:
  kquota usage files usage_sample --lake ./lake
  kquota usage files target_up --lake s3://metrics/kquota --cluster-id 4L6g3nShT-eMCtK--X86sw --from 7d"""


@command(help=HELP)
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
    from reconciler.app.recorded_use.lakes import opened
    from reconciler.usage.samples import day_of

    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}", hint=f"one of {', '.join(TABLES)}")
    days = {}
    if window.is_given:
        begin, end = window.span(SystemClock(), 2**62)
        days = {"from_day": day_of(begin), "to_day": day_of(end - 1)}
    tables = opened(lake)
    for unit in tables.units(TABLES[table], ids or None, **days):
        console.fact(tables.store.display_path(unit.path))
    return ExitCode.DONE
