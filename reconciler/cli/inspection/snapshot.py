"""``kquota snapshot``: everything that a cluster has, without loss, in one file."""

from pathlib import Path
from typing import Final

import click

from reconciler.app.requests import TargetRequest
from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import FILE, where_options

HELP: Final = """Save all quotas of a cluster without loss, including unknown entity types, unknown keys and unusual values.

Equal quotas give equal files unless --taken-at is set. Use the file with `kquota plan --offline --snapshot`.

\b
Example:
  kquota snapshot --cluster prod --out prod.json
  kquota snapshot --bootstrap-server localhost:9092 | sha256sum"""


@command(help=HELP)
@click.option("--out", type=FILE, metavar="FILE", help="Where to; replaced whole. Default: stdout.")
@click.option("--taken-at", is_flag=True, help="Include the time in the snapshot.")
@where_options(many=False)
@click.pass_obj
def snapshot(
    console: Console, *, out: Path | None, taken_at: bool, where: TargetRequest
) -> ExitCode:
    """One describe of everything, written as it came."""
    from reconciler.app.clusters.runtime import connected, expected_cluster
    from reconciler.app.clusters.targets import target
    from reconciler.app.event_loop import run
    from reconciler.base.clock import SystemClock
    from reconciler.base.text_files import write_text
    from reconciler.codecs.state import state_document
    from reconciler.render.json_values import dump
    from reconciler.render.units import instant

    cluster_target = target(where)

    async def ask() -> str:
        async with connected(console, cluster_target) as client:
            cluster = await expected_cluster(client, cluster_target)
            state = await client.describe()
        when = instant(SystemClock().now()) if taken_at else ""
        return dump(state_document(state, cluster_id=cluster.id, taken_at=when))

    text = run(ask())
    if out is None:
        console.fact(text)
    else:
        write_text(out, text, private=True)
        console.note(f"written to {out}")
    return ExitCode.DONE
