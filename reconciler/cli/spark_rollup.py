"""``kquota spark rollup``: five-minute sums and daily histograms of the days whose samples changed."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import format_option
from reconciler.cli.spark_options import lake_option
from reconciler.cli.spark_running import Running, run, running_options

if TYPE_CHECKING:
    from reconciler.spark.jobs.rollup import Done

KIND: Final = "kquota-rollup"
FORMAT: Final = 1

HELP: Final = """Compute five-minute sums and daily histograms of days whose samples changed.

A run that was killed leaves every day as it was, or done. Reports, capacity and long windows read these tables.

\b
Example:
  kquota spark rollup --lake ./lake
  kquota spark rollup --lake s3://metrics/kquota --remote sc://spark.example.com"""


@command(help=HELP)
@lake_option()
@click.option("--cluster-id", "ids", multiple=True, metavar="ID", help="Only this Kafka cluster id; may be repeated.")  # fmt: skip
@click.option("--rebuild", is_flag=True, help="Recompute all days, changed or not.")
@running_options()
@format_option("text", "json")
@click.pass_obj
def rollup(
    console: Console,
    /,
    lake: str,
    ids: tuple[str, ...],
    running: Running,
    output: str,
    *,
    rebuild: bool,
) -> Exit:
    """Run the job and tell what it made."""
    done: Done = run("rollup", lake, running, cluster=ids, rebuild=rebuild)
    console.fact(told(done) if output == "json" else _text(done))
    return Exit.DONE


def told(done: "Done") -> str:
    """What was made, as a document."""
    from reconciler.render.documents import dump
    from reconciler.spark.running import document

    return dump({"kind": KIND, "format": FORMAT, **document(done)})


def _text(done: "Done") -> str:
    return "\n".join(
        f"{one.table}: {one.units} days made ({one.rows} rows), {one.unchanged} were up to date"
        for one in done.tables
    )
