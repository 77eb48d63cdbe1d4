"""``kquota report``: one self-contained HTML page of a cluster's quotas, and of what the documents would change."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.context.plan_preparation import InventoryOptions, source_options
from reconciler.cli.context.principals import (
    knowing,
    principals_option,
    read_principals,
)
from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import FILE, ClusterOptions, where_options
from reconciler.errors import UsageError
from reconciler.quota.precedence import Principal

if TYPE_CHECKING:
    from reconciler.cli.context.cluster_targets import ClusterTarget
    from reconciler.cli.context.plan_preparation import PlanTask
    from reconciler.reconcile import PreparedPlan
    from reconciler.render.html.facts import ClusterPage
    from reconciler.render.html.history import ChangeHistory

HELP: Final = """Write one HTML page: live quotas, effective limits of any client, plan, drift and history.

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
@click.option("--out", type=FILE, metavar="FILE", help="Where to; replaced whole. Default: stdout.")
@click.option("--offline", is_flag=True, help="Connect to no cluster.")
@click.option("--snapshot", type=FILE, metavar="FILE", help="Snapshot to plan against (requires --offline).")  # fmt: skip
@click.option("--history", type=FILE, metavar="FILE", help="Audit log to show.")
@principals_option
@where_options(revisions=True)
@source_options
@click.pass_obj
def report(
    console: Console,
    *,
    paths: Sequence[str],
    out: Path | None,
    offline: bool,
    snapshot: Path | None,
    history: Path | None,
    principals: str | None,
    where: ClusterOptions,
    sources: InventoryOptions,
) -> ExitCode:
    """Look at each cluster, then write one page."""
    from reconciler.app.html_page import page_of
    from reconciler.base.text_files import write_text
    from reconciler.cli.context.cluster_iteration import for_each
    from reconciler.cli.context.cluster_targets import offline_targets, targets
    from reconciler.cli.output.plans import show_config_changes

    if offline != (snapshot is not None):
        raise UsageError(
            "--offline and --snapshot go together: without a cluster, a snapshot says what is live",
            hint="kquota snapshot --taken-at --out prod.json makes one",
        )
    cluster_targets = offline_targets(where, paths, untrusted=True) if offline else targets(where)
    if snapshot is not None and len(cluster_targets) > 1:
        raise UsageError("a snapshot is of one cluster; choose it with --cluster")
    looks: list[ClusterPage] = []
    options = _PageOptions(
        paths=tuple(paths),
        sources=sources,
        snapshot=snapshot,
        history=history,
        known_principals=() if principals is None else read_principals(principals, paths),
    )

    def work(target: "ClusterTarget") -> ExitCode:
        looks.append(_observe(console, target, options))
        return ExitCode.DONE

    code = for_each(console, cluster_targets, work)
    if not looks:
        return code
    warnings = show_config_changes(console, where)
    full = [
        replace(
            cluster_page,
            preview=replace(
                cluster_page.preview, warnings=(*cluster_page.preview.warnings, *warnings)
            ),
        )
        for cluster_page in looks
    ]
    page = page_of(full, page="report")
    if out is None:
        console.fact(page)
    else:
        write_text(out, page, private=True)
        console.note(f"written to {out}")
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageOptions:
    """What was typed, besides the cluster."""

    paths: tuple[str, ...]
    sources: InventoryOptions
    snapshot: Path | None
    history: Path | None
    known_principals: tuple[Principal, ...]


def _observe(console: Console, target: "ClusterTarget", options: _PageOptions) -> "ClusterPage":
    from reconciler.render.html.facts import ClusterPage

    declared = bool(options.paths or target.project_cluster.manifests)
    if not declared and options.sources.since is not None:
        raise UsageError("--since needs manifests to compare with")
    make = _planned if declared else _without_documents
    prepared = make(console, target, options)
    cluster_id = prepared.plan.cluster_id
    return ClusterPage(
        name=target.display_name,
        preview=prepared.preview,
        live=prepared.observation.live,
        owned=prepared.observation.owned,
        history=None if options.history is None else _history(options.history, cluster_id),
        declared=declared,
    )


def _planned(console: Console, target: "ClusterTarget", options: _PageOptions) -> "PreparedPlan":
    """What ``plan`` would show."""
    from reconciler.cli.context.plan_preparation import task_for
    from reconciler.cli.context.reconcile_options import unlimited

    task = task_for(console, target, options.paths, unlimited("auto"), options.sources)
    return _prepare(console, knowing(task, options.known_principals), options.snapshot)


def _without_documents(
    console: Console, target: "ClusterTarget", options: _PageOptions
) -> "PreparedPlan":
    """What is live and what is ours, without documents: nothing is declared, so nothing is planned."""
    from reconciler.cli.context.documents import ClusterDocuments
    from reconciler.cli.context.plan_preparation import PlanTask
    from reconciler.cli.context.reconcile_options import (
        orders_for,
        origin_of,
        unlimited,
    )
    from reconciler.cli.context.runtime import RecordOptions
    from reconciler.quota.planner.desired_state import DesiredState
    from reconciler.quota.policy import DriftMode, Policy
    from reconciler.reconcile import preview
    from reconciler.reconcile.drift import as_applied

    keeps_records = not options.sources.no_inventory
    orders = orders_for(
        target,
        unlimited("none"),
        complete=True,
        removals_known=keeps_records,
        origin=origin_of(target),
    )
    rules = target.settings.rules(
        policy=Policy.OBSERVE, drift=DriftMode.WARN, removals_known=keeps_records
    )
    orders = replace(orders, rules=rules)
    nothing = ClusterDocuments(
        cluster=target.name, desired=DesiredState(), warnings=(), complete=True, count=0, files=0
    )
    records = RecordOptions(none=options.sources.no_inventory)
    task = PlanTask(target=target, documents=nothing, orders=orders, records=records)
    first = _prepare(console, task, options.snapshot)
    # Our own records as the documents: what differs from them is drift.
    return preview(
        first.observation, as_applied(first.observation), orders, verdict=first.preview.verdict
    )


def _prepare(console: Console, task: "PlanTask", snapshot: Path | None) -> "PreparedPlan":
    from reconciler.app.event_loop import run
    from reconciler.cli.context.plan_preparation import prepared_for
    from reconciler.cli.context.runtime import world

    if snapshot is not None:
        from reconciler.cli.context.offline_plan import plan_offline

        return plan_offline(console, task, snapshot)

    async def ask() -> "PreparedPlan":
        async with world(
            console, task.target, task.records, command="report", writes=False
        ) as runtime:
            return await prepared_for(task, runtime)

    return run(ask())


def _history(path: Path, cluster_id: str) -> "ChangeHistory":
    from reconciler.codecs.audit_log import history_of
    from reconciler.inventory.audit_log import read_entries

    return history_of(read_entries(path), cluster_id=cluster_id, location=str(path))
