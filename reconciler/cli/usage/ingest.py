"""``kquota usage ingest``: writes recorded use and snapshots of limits into the lake."""

from typing import Final

import click

from reconciler.app.recorded_use.selection import EVIDENCE, IngestOptions
from reconciler.cli.framework.commands import ExitCode, command, flag, option
from reconciler.cli.framework.console import Console, ProgressLine
from reconciler.cli.options.shared import DURATION, FILE, OptionPack, format_option
from reconciler.cli.usage.options import clusters_options, lake_option, window_options

HELP: Final = """Ingest recorded use into the lake, and report gaps by reason.

Without --file, Prometheus is queried (telemetry.prometheus of the cluster) from the day in which the last run ended, three hours back, because
data can arrive late. Days are read and written completely; a source with less data of a day than the lake does not replace it.
Only series that match telemetry.matchers are used, and only brokers that app-info or telemetry.brokerId identifies.

Pass all files of a day in one run.

\b
Example:
  kquota usage ingest --cluster prod --lake s3://metrics/kquota --previews
  kquota usage ingest --cluster-id 4L6g3nShT-eMCtK--X86sw --lake ./lake --step 30s --broker-id 'regex:pod:.*-([0-9]+)' --file export.txt.gz
  kquota snapshot --cluster prod --taken-at --out now.json && kquota usage ingest --cluster prod --lake ./lake --snapshot now.json"""


@command(help=HELP)
@OptionPack(
    "options",
    IngestOptions,
    [
        lake_option(),
        clusters_options(),
        window_options("where the last run ended, 14d at first"),
        option(
            "--prometheus URL", "URL of the Prometheus HTTP API  [default: telemetry.prometheus]."
        ),
        option(
            "--http-config FILE",
            "File with authorization, TLS and headers, in the format of Prometheus' http_config.",
            FILE,
        ),
        option(
            "--file PATH",
            "File of OpenMetrics text to read instead of Prometheus; may be repeated.",
            FILE,
            name="files",
            multiple=True,
        ),
        option("--dialect NAME|FILE", "Dialect of the exporter  [default: detected]."),
        option(
            "--snapshot FILE",
            "Snapshot of the limits (kquota snapshot --taken-at); may be repeated.",
            FILE,
            name="snapshots",
            multiple=True,
        ),
        option("--matchers MATCHERS", "Series matchers  [default: telemetry.matchers]."),
        option(
            "--broker-id RULE",
            "Rule for broker ids: label:NAME or regex:NAME:PATTERN  [default: telemetry.brokerId].",
        ),
        option(
            "--step DURATION",
            "Time between two samples  [default: telemetry.scrapeStep].",
            DURATION,
        ),
        option(
            "--previews [URI]",
            "Copy the last 14 days afterwards to this URI, which plans read  [default: telemetry.evidenceUri].",
            is_flag=False,
            flag_value=EVIDENCE,
        ),
        flag(
            "--rebuild",
            "Read days again (14d, or from --from on) and apply the present step.",
        ),
        flag(
            "--replace",
            "Replace stored days, also by a reading with fewer points; not by one that is incomplete.",
        ),
    ],
)
@format_option("text", "json")
@click.pass_obj
def ingest(console: Console, *, options: IngestOptions, output: str) -> ExitCode:
    """Ingest, and print the report."""
    from reconciler.base.installation import needs

    needs("usage", "kquota usage ingest")
    from reconciler.app.recorded_use import ingest
    from reconciler.evidence.output import ingest_report

    with ProgressLine(console) as progress:
        summary = ingest.run_ingest(console, options, progress)
    console.fact(
        ingest_report.json(summary)
        if output == "json"
        else ingest_report.text(summary, style=console.style)
    )
    for cluster_summary in summary.clusters:
        for failure in cluster_summary.failures:
            console.error(f"{cluster_summary.display_name}: {failure}")
    for line in summary.failures:
        console.error(line)
    return ExitCode.ERROR if summary.failed else ExitCode.DONE
