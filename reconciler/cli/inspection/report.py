"""``kquota report``: one self-contained HTML page of clusters' quotas, and of what the manifests would change."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from reconciler.app.requests import RecordSource, TargetRequest
from reconciler.cli.framework.commands import command, option
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.plan import (
    offline_option,
    principals_option,
    snapshot_option,
    source_options,
)
from reconciler.cli.options.shared import FILE, out_option, where_options
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.app.clusters.targets import ClusterTarget
    from reconciler.app.notices import Notices
    from reconciler.render.page.cluster import ClusterPage

HELP: Final = """Write one HTML page: live quotas, limits of clients, plan, drift and history.

The page needs no network. If the project configures manifests, or PATH names some, it also shows what they would change.
Nothing is written to the cluster. --history takes an audit log; kquota apply writes .kquota/audit.jsonl.

\b
Example:
  kquota report --cluster prod --out report.html
  kquota report --cluster prod --history .kquota/audit.jsonl > report.html
  kquota report --offline --snapshot prod.json --out report.html
  kquota report --bootstrap-server localhost:9092 --out report.html"""


@command(help=HELP)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@out_option()
@offline_option
@snapshot_option
@option("--history FILE", "Audit log to show.", FILE)
@principals_option
@where_options(revisions=True)
@source_options
@click.pass_obj
def report(
    console: Console,
    *,
    paths: Sequence[str],
    out_path: Path | None,
    offline: bool,
    snapshot: Path | None,
    history: Path | None,
    principals: str | None,
    where: TargetRequest,
    sources: RecordSource,
) -> ExitCode:
    """Read all clusters, then write one page."""
    from reconciler.app.change.principals import read_principals
    from reconciler.app.clusters.targets import offline_targets, targets
    from reconciler.app.fleet import preview_row, rows_of
    from reconciler.app.html_page import page_of
    from reconciler.app.inspection.report import PageRequest, report_cluster
    from reconciler.cli.output.fleet import code_of_fleet, for_clusters
    from reconciler.cli.output.plans import show_config_changes
    from reconciler.render.fleet_summary import fleet_summary_text

    if offline != (snapshot is not None):
        raise UsageError(
            "--offline and --snapshot must be used together",
            hint="create a snapshot with kquota snapshot --taken-at --out prod.json",
        )
    cluster_targets = offline_targets(where, paths, untrusted=True) if offline else targets(where)
    if snapshot is not None and len(cluster_targets) > 1:
        raise UsageError("--snapshot is for one cluster; choose it with --cluster")
    request = PageRequest(
        paths=tuple(paths),
        sources=sources,
        snapshot=snapshot,
        history=history,
        principals=() if principals is None else read_principals(principals, paths),
    )

    async def work(notices: "Notices", target: "ClusterTarget") -> "ClusterPage":
        return await report_cluster(notices, target, request)

    results = for_clusters(console, cluster_targets, work, concurrency=where.concurrency)
    rows = rows_of(results, lambda result, page: preview_row(result, page.preview))
    code = code_of_fleet(results, lambda _: ExitCode.DONE)
    pages = [result.value for result in results if result.value is not None]
    if not pages:
        if len(results) > 1:
            console.note(fleet_summary_text(rows, style=console.style))
        return code
    warnings = show_config_changes(console, where)
    full = [
        replace(page, preview=replace(page.preview, warnings=(*page.preview.warnings, *warnings)))
        for page in pages
    ]
    console.fact_in(out_path, page_of(full))
    if len(results) > 1:
        console.note(fleet_summary_text(rows, style=console.style))
    return code
