"""``kquota export``: live quotas as manifests, and a list of what no manifest can hold."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.commands import command
from reconciler.cli.console import Console, ProgressLine
from reconciler.cli.exits import Exit
from reconciler.cli.options import FILE, Where, where_options
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.manifest.write import LeftOut
    from reconciler.quota.state import State

HELP: Final = """Live quotas as manifests that read back to the same values.

What no manifest can hold (foreign entity types and keys, empty names, odd values) is listed on standard
error, and the exit code is then 1, unless --partial says that this is known.

\b
Example:
  kquota export --cluster prod > quotas/prod.yaml
  kquota export --bootstrap-server localhost:9092 --cluster prod --namespace platform --out prod.yaml"""


@command(help=HELP)
@click.option("--namespace", default="default", show_default=True, help="Where the documents live.")
@click.option("--out", type=FILE, metavar="FILE", help="Where to; replaced whole. Default: stdout.")
@click.option("--partial", is_flag=True, help="Content with what manifests can hold.")
@where_options(many=False)
@click.pass_obj
def export(
    console: Console, *, namespace: str, out: Path | None, partial: bool, where: Where
) -> Exit:
    """One describe, written as documents."""
    from reconciler.cli.asking import connected, expected_cluster
    from reconciler.cli.files import write_text
    from reconciler.cli.running import run
    from reconciler.cli.where import target
    from reconciler.manifest import write

    chosen = target(where)
    if not chosen.name:
        raise UsageError(
            "the documents need a name for the cluster (clusterRef)", hint="say it with --cluster"
        )

    async def ask() -> "State":
        async with connected(console, chosen) as client:
            _ = await expected_cluster(client, chosen)
            return await client.describe()

    state = run(ask())
    with ProgressLine(console) as progress:
        made = write.export(
            state,
            cluster=chosen.name,
            namespace=namespace,
            progress=lambda done, total: progress("export", done, total),
        )
    if out is None:
        console.fact(made.text)
    else:
        write_text(out, made.text)
        console.note(f"{made.documents} documents written to {out}")
    if made.complete:
        return Exit.DONE
    say = console.warning if partial else console.error
    say(f"{len(made.left_out)} values cannot be carried by manifests:")
    for line in left_out_lines(made.left_out):
        console.detail(line)
    if not partial:
        console.hint("--partial exports without them; snapshot keeps everything")
    return Exit.DONE if partial else Exit.ERROR


def left_out_lines(left_out: "Iterable[LeftOut]") -> list[str]:
    """One line for each, safe to print."""
    from reconciler.render.names import escaped, parts_text
    from reconciler.render.units import number

    return [
        f"{parts_text(one.entity)} {escaped(one.key)}={number(one.value)}: {escaped(one.why)}"
        for one in left_out
    ]
