"""``kquota usage simulate`` and ``recommend``: simulate new limits on recorded use; recommend limits from it."""

from typing import Final

import click

from reconciler.app.recorded_use.recommendation import RecommendOptions, run_recommend
from reconciler.app.recorded_use.simulation import SimulateOptions, simulated
from reconciler.cli.framework.commands import ExitCode, command, flag, option
from reconciler.cli.framework.console import Console, ConsoleNotices, ProgressLine
from reconciler.cli.options.shared import FILE, FOLDER, OptionPack, format_option
from reconciler.cli.usage.options import (
    ReportOutput,
    clusters_options,
    engine_options,
    lake_option,
    most_option,
    window_options,
)

SIMULATE_HELP: Final = """Simulate new limits on recorded use: who is throttled, for how long, and with what worst delay.

The new limits are those of the project's manifests (or of PATH) applied to the last snapshot of each cluster in the lake;
or saved plans (--plan), or complete snapshots (--after). All rows are written to the lake (impact_row); the worst tenants
are shown. With files, --cluster and --cluster-id must match them. Exit code 3: a result violates spec.simulate of the
project. Nothing is written to any cluster.

\b
Example:
  kquota usage simulate --lake ./lake --cluster prod
  kquota usage simulate --lake s3://metrics/kquota --plan plan.json --from 30d --format markdown
  kquota usage simulate --lake ./lake --after tomorrow.json --engine spark --master 'local[4]' --memory 4g"""


@command(help=SIMULATE_HELP)
@OptionPack(
    "options",
    SimulateOptions,
    [
        click.argument("paths", nargs=-1, metavar="[PATH]..."),
        lake_option(),
        clusters_options(),
        window_options(),
        option(
            "--plan FILE",
            "Plan saved by kquota plan --out; may be repeated, one per cluster.",
            FILE,
            name="plans",
            multiple=True,
        ),
        option("--after FILE", "Snapshot of the new limits; may be repeated.", FILE, multiple=True),
        most_option(
            200,
            "Maximum number of rows, one for each broker and group of clients; a tenant is never cut, and at least one is shown.",
        ),
        engine_options(),
    ],
)
@flag("--require-evidence", "Exit 5 unless there is evidence for every change.")
@format_option("text", "json", "markdown")
@click.pass_obj
def simulate(
    console: Console, *, options: SimulateOptions, require_evidence: bool, output: str
) -> ExitCode:
    """Run the simulation, show its report, and return the exit code."""
    from reconciler.cli.output import evidence_code
    from reconciler.usage.reports.usage import UsageReport

    with ConsoleNotices(console) as notices, ProgressLine(console) as progress:
        simulation = simulated(notices, options, progress)
    for note in simulation.evidence:
        if note.stale:
            console.warning(f"evidence of {note.cluster_id}: {note.stale}")
    report = UsageReport(evidence=simulation.evidence, simulation=simulation)
    ReportOutput(output=output).show(console, report)
    return evidence_code(simulation, require_evidence=require_evidence)


RECOMMEND_HELP: Final = """Recommend the limit that each recorded client group needs for its tier, with the evidence.

Tiers come from spec.simulate.tiers of the project, current limits from the last snapshot in the lake. A limit is
computed from all data except the last week, and tested on that week: if it fails, it is REFUSED; if its data spans
less than two weeks, it is INSUFFICIENT. Both are listed. Entities whose document has the label
kafka-quotas.io/sizing: pinned are reported only.

--out writes ClientQuota documents with their evidence as comments, for review and merge; nothing is applied. An existing
document is written completely, with its new limits and without its comments. Each run replaces the file of a cluster, or
removes it if no recommendations remain; other files are not changed.

\b
Example:
  kquota usage recommend --lake ./lake --cluster prod --from 30d
  kquota usage recommend --lake s3://metrics/kquota --all --out proposals/ --format markdown"""


@command(help=RECOMMEND_HELP)
@OptionPack(
    "options",
    RecommendOptions,
    [
        lake_option(),
        clusters_options(),
        window_options("30d"),
        option(
            "--out DIR",
            "Folder for the documents, one file per cluster; it must not be a folder of manifests.",
            FOLDER,
            name="folder",
        ),
        most_option(200, "Maximum number of rows to print."),
        engine_options(),
    ],
)
@format_option("text", "json", "markdown")
@click.pass_obj
def recommend(console: Console, *, options: RecommendOptions, output: str) -> ExitCode:
    """Compute recommendations, show the report, list the written files."""
    with ProgressLine(console) as progress:
        result = run_recommend(console, options, progress)
    for note in result.advised.report.evidence:
        if note.stale:
            console.warning(f"evidence of {note.cluster_id}: {note.stale}")
    ReportOutput(output=output).show(console, result.advised.report)
    for path in result.put.written:
        console.note(f"wrote {path}")
    for path in result.put.removed:
        console.note(f"removed {path}: no recommendations remain")
    for path in result.put.absent:
        console.note(f"{path} is not written: no limit is recommended to change")
    return ExitCode.DONE
