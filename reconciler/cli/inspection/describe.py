"""``kquota describe`` and ``kquota snapshot``: live quotas as a table or JSON; a lossless file of all quotas."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from reconciler.app.clusters.runtime import connect_client, expected_cluster
from reconciler.app.clusters.targets import target
from reconciler.app.event_loop import run
from reconciler.app.requests import TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.cli.framework.commands import ExitCode, command, flag, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import ENTITY, format_option, out_option, where_options
from reconciler.codecs.state import state_document
from reconciler.quota.entity import Entity
from reconciler.quota.state import QuotaState
from reconciler.render.cluster_state import state_text
from reconciler.render.json_values import dump
from reconciler.render.units import instant

HELP: Final = """Show the live quotas of a cluster: all of them, or those of some entities.

kquota export writes them as manifests, kquota snapshot without loss.
kafka-client-quotas --describe matches entities by their parts; kquota resolve shows the limits of a client.

\b
Example:
  kquota describe --cluster prod
  kquota describe --only user=checkout --only client-id=checkout
  kquota describe --only 'user=<default>' --format json"""


@command(help=HELP)
@option("--only ENTITY", "Show this entity only; may be repeated.", ENTITY, multiple=True)
@where_options(many=False)
@format_option("table", "json")
@click.pass_obj
def describe(
    console: Console,
    *,
    only: Sequence[Entity],
    where: TargetRequest,
    output: str,
) -> ExitCode:
    """Describe all quotas and print the requested ones."""
    cluster_target = target(where)

    async def ask() -> tuple[str, QuotaState]:
        async with connect_client(console, cluster_target) as client:
            cluster = await expected_cluster(client, cluster_target)
            return cluster.id, await client.describe()

    cluster_id, state = run(ask())
    if only:
        live = {subject: state.limits[subject] for subject in only if subject in state.limits}
        state = QuotaState(limits=live)
    if output == "table":
        console.fact(state_text(state, style=console.style))
    else:
        console.document(state_document(state, cluster_id=cluster_id, taken_at=""))
    return ExitCode.DONE


SNAPSHOT_HELP: Final = """Save all quotas of a cluster without loss, including unknown entity types, unknown keys and unusual values.

Equal quotas give equal files unless --taken-at is set. Use the file with `kquota plan --offline --snapshot`.

\b
Example:
  kquota snapshot --cluster prod --out prod.json
  kquota snapshot --bootstrap-server localhost:9092 | sha256sum"""


@command(help=SNAPSHOT_HELP)
@out_option()
@flag("--taken-at", "Include the time in the snapshot.")
@where_options(many=False)
@click.pass_obj
def snapshot(
    console: Console, *, out_path: Path | None, taken_at: bool, where: TargetRequest
) -> ExitCode:
    """Describe all quotas and write them unchanged."""
    cluster_target = target(where)

    async def ask() -> str:
        async with connect_client(console, cluster_target) as client:
            cluster = await expected_cluster(client, cluster_target)
            state = await client.describe()
        when = instant(SystemClock().now()) if taken_at else ""
        return dump(state_document(state, cluster_id=cluster.id, taken_at=when))

    console.fact_in(out_path, run(ask()))
    return ExitCode.DONE
