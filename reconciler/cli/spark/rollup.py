"""``kquota spark rollup``: five-minute sums and daily histograms of the days whose samples changed."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import format_option
from reconciler.cli.spark.jobs.session import SparkOptions, run, running_options
from reconciler.cli.spark.options import lake_option

if TYPE_CHECKING:
    from reconciler.evidence.spark.jobs.rollup import RollupReport

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
    running: SparkOptions,
    output: str,
    *,
    rebuild: bool,
) -> ExitCode:
    """Run the job and report what it made."""
    report: RollupReport = run("rollup", lake, running, cluster=ids, rebuild=rebuild)
    console.fact(document_text(report) if output == "json" else _text(report))
    return ExitCode.DONE


def document_text(report: "RollupReport") -> str:
    """What was made, as a document."""
    from reconciler.evidence.spark.runtime.job_runner import document
    from reconciler.render.json_values import dump

    return dump({"kind": KIND, "format": FORMAT, **document(report)})


def _text(report: "RollupReport") -> str:
    return "\n".join(
        f"{table.table}: {table.units} days made ({table.rows} rows), {table.unchanged} were up to date"
        for table in report.tables
    )
