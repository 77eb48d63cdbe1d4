"""``kquota spark ingest``: recorded use from a Prometheus or from files, looks at limits and applies, into the lake."""

from pathlib import Path
from typing import Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import FILE, format_option
from reconciler.cli.spark_options import (
    Clusters,
    Window,
    clusters_options,
    lake_option,
    window_options,
)
from reconciler.cli.values import Duration
from reconciler.errors import UsageError

EVIDENCE: Final = "telemetry.evidenceUri"
"""What ``--publish`` without a place means."""

HELP: Final = """Recorded use into the lake: what brokers measured, decoded, with every gap and doubt counted by name.

Without --file, Prometheus is asked (telemetry.prometheus of the cluster): from where the last run ended, and three
hours more, because data comes late. What a run brings in twice is kept once; a run that was killed goes on where it was.
A series counts only if telemetry.matchers fit it, a broker only if app-info or telemetry.brokerId names it.

Where files of the lake are damaged or missing, --from begins days of points and looks anew: what is whole stays, what is
lost is told, and what is read comes in again. --rebuild does the same for samples, and checks all evidence with --publish.

\b
Example:
  kquota spark ingest --cluster prod --lake s3://metrics/kquota --publish
  kquota spark ingest --cluster-id 4L6g3nShT-eMCtK--X86sw --lake ./lake --step 30s --broker-id 'regex:pod:.*-([0-9]+)' --file export.parquet
  kquota snapshot --cluster prod --taken-at --out now.json && kquota spark ingest --cluster prod --lake ./lake --snapshot now.json"""


@command(help=HELP)
@lake_option()
@clusters_options()
@window_options("where the last run ended, 14d at first")
@click.option("--prometheus", metavar="URL", help="The HTTP API, instead of telemetry.prometheus.")
@click.option("--http-config", type=FILE, metavar="FILE", help="Authorization, TLS and headers for it, as Prometheus' own http_config.")  # fmt: skip
@click.option("--file", "files", type=FILE, multiple=True, metavar="PATH", help="Read this instead of Prometheus; may be repeated.")  # fmt: skip
@click.option("--input-format", "form", type=click.Choice(["auto", "prometheus-json", "openmetrics", "parquet", "csv"]), default="auto", show_default=True, help="How files are written.")  # fmt: skip
@click.option("--time-unit", type=click.Choice(["auto", "s", "ms", "us", "ns", "iso"]), default="auto", show_default=True, help="How times in Parquet, CSV and text files are written; auto: by their size.")  # fmt: skip
@click.option("--dialect", metavar="NAME|FILE", help="How brokers are exported; found out if not said.")  # fmt: skip
@click.option("--snapshot", "snapshots", type=FILE, multiple=True, metavar="FILE", help="A look at limits (kquota snapshot --taken-at); may be repeated.")  # fmt: skip
@click.option("--audit-log", "audit_logs", type=FILE, multiple=True, metavar="FILE", help="What kquota apply wrote down; may be repeated.")  # fmt: skip
@click.option("--matchers", metavar="MATCHERS", help="Instead of telemetry.matchers.")
@click.option("--broker-id", metavar="RULE", help="Instead of telemetry.brokerId: label:NAME or regex:NAME:PATTERN.")  # fmt: skip
@click.option(
    "--step", type=Duration(), metavar="DURATION", help="Instead of telemetry.scrapeStep."
)
@click.option("--max-gap", type=Duration(), metavar="DURATION", help="Instead of telemetry.maxGap.")
@click.option("--publish", is_flag=False, flag_value=EVIDENCE, metavar="[URI]", help="Then publish evidence, to telemetry.evidenceUri or here.")  # fmt: skip
@click.option("--rebuild", is_flag=True, help="Assemble all days of the lake anew; read nothing unless --file is given.")  # fmt: skip
@format_option("text", "json")
@click.pass_obj
def ingest(  # noqa: PLR0917 - click hands everything over by name
    console: Console,
    /,
    lake: str,
    clusters: Clusters,
    window: Window,
    prometheus: str | None,
    http_config: Path | None,
    files: tuple[Path, ...],
    form: str,
    time_unit: str,
    dialect: str | None,
    snapshots: tuple[Path, ...],
    audit_logs: tuple[Path, ...],
    matchers: str | None,
    broker_id: str | None,
    step: float | None,
    max_gap: float | None,
    publish: str | None,
    output: str,
    *,
    rebuild: bool,
) -> Exit:
    """Read, keep, assemble, publish, tell."""
    from reconciler.cli.extras import needs

    needs("usage", "kquota spark ingest")
    from reconciler.cli import ingest_report, ingesting

    chosen = clusters.chosen()
    if clusters.every and prometheus is None:
        known = tuple(one for one in chosen if one.settings and one.settings.telemetry)
        for other in chosen:
            if other not in known:
                console.warning(f"{other.shown} has no telemetry in the project: left out")
        if not known:
            raise UsageError(
                "no cluster of the project has telemetry, so there is nothing to bring in",
                hint="write telemetry (prometheus, scrapeStep) of a cluster, or name it with --cluster",
            )
        chosen = known
    given = ingesting.Given(
        prometheus=prometheus,
        matchers=matchers,
        broker_id=broker_id,
        step=step,
        max_gap=max_gap,
        evidence=None if publish in {None, EVIDENCE} else publish,
    )
    work = ingesting.Work(
        lake=lake,
        sources=tuple(ingesting.source(one, given) for one in chosen),
        window=window,
        http_config=http_config,
        files=files,
        form=form,
        time_unit=time_unit,
        dialect=dialect or "",
        snapshots=snapshots,
        audit_logs=audit_logs,
        publish=publish is not None,
        rebuild=rebuild,
    )
    told = ingesting.done(console, work)
    console.fact(ingest_report.json(told) if output == "json" else ingest_report.text(told))
    for one in told.clusters:
        for failure in one.failures:
            console.error(f"{one.shown}: {failure}")
    for line in told.failures:
        console.error(line)
    return Exit.ERROR if told.failed else Exit.DONE
