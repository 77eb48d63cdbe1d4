"""``kquota spark recommend``: a limit for each recorded client group, with its evidence; documents on request, nothing applied."""

from pathlib import Path
from typing import Final

import click

from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import format_option
from reconciler.cli.spark.jobs.session import SparkOptions, running_options
from reconciler.cli.spark.options import (
    ClusterSelection,
    WindowOptions,
    clusters_options,
    lake_option,
    window_options,
)

HELP: Final = """Recommend the limit that each recorded client group needs for its tier, with the evidence.

The tiers are spec.simulate.tiers of the project, today's limits the last look in the lake. A limit is sized by
everything but the last week, and has to keep its promise on that week: else it is REFUSED, and with less than a
fortnight it is INSUFFICIENT; both are listed. Entities whose document has the label kafka-quotas.io/sizing: pinned are
only reported on.

--out writes ClientQuota documents, each with its evidence as a comment, for people to merge; nothing is applied. A
document that is there already is repeated whole with its new limits, but for its comments. Each run replaces the file of
a cluster, or removes it if nothing is proposed any more; other files are not changed.

\b
Example:
  kquota spark recommend --lake ./lake --cluster prod --from 30d
  kquota spark recommend --lake s3://metrics/kquota --all --out proposals/ --format markdown"""


@command(help=HELP)
@lake_option()
@clusters_options()
@window_options("30d")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Folder for the documents, one file per cluster; it must not be a folder of manifests.")  # fmt: skip
@click.option("--most", type=click.IntRange(1, 10_000), default=200, show_default=True, metavar="N", help="Maximum number of rows to print.")  # fmt: skip
@running_options()
@format_option("text", "json", "markdown")
@click.pass_obj
def recommend(
    console: Console,
    *,
    lake: str,
    clusters: ClusterSelection,
    window: WindowOptions,
    out: Path | None,
    most: int,
    running: SparkOptions,
    output: str,
) -> ExitCode:
    """Size, report, write."""
    from reconciler.cli.output.usage_results import show
    from reconciler.cli.spark.jobs import recommendation

    result = recommendation.run_recommend(
        console,
        recommendation.RecommendOptions(
            lake=lake, clusters=clusters, window=window, running=running, most=most, folder=out
        ),
    )
    for note in result.advised.report.evidence:
        if note.stale:
            console.warning(f"evidence of {note.cluster_id}: {note.stale}")
    show(console, result.advised.report, output)
    for path in result.put.written:
        console.note(f"wrote {path}")
    for path in result.put.removed:
        console.note(f"removed {path}: nothing is proposed any more")
    return ExitCode.DONE
