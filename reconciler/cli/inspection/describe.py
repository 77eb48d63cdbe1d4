"""``kquota describe``: live quotas as a table, JSON or YAML."""

from typing import TYPE_CHECKING, Final

import click

from reconciler.app.requests import TargetRequest
from reconciler.cli.framework.commands import command
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.options.shared import format_option, where_options
from reconciler.cli.options.value_types import EntityParameter
from reconciler.errors import UsageError

if TYPE_CHECKING:
    from reconciler.quota.entity import Entity
    from reconciler.quota.filters import Filter
    from reconciler.quota.state import QuotaState

HELP: Final = """Show the live quotas of a cluster: all of them, or those of matching entities.

--format yaml prints manifests, with a comment for quotas that no manifest can express (kquota snapshot is lossless).
--matching shows every entity that has these parts, with or without others; --exactly shows only those without others.

\b
Example:
  kquota describe --cluster prod
  kquota describe --matching client-id=checkout
  kquota describe --matching 'user=<default>' --exactly --format json"""


@command(help=HELP)
@click.option("--matching", type=EntityParameter(), metavar="ENTITY", help="Show only entities that have these parts.")  # fmt: skip
@click.option(
    "--exactly", is_flag=True, help="Show only entities with exactly the parts of --matching."
)
@where_options(many=False)
@format_option("table", "json", "yaml")
@click.pass_obj
def describe(
    console: Console,
    *,
    matching: "Entity | None",
    exactly: bool,
    where: TargetRequest,
    output: str,
) -> ExitCode:
    """One describe, printed."""
    from reconciler.app.clusters.runtime import connected, expected_cluster
    from reconciler.app.clusters.targets import target
    from reconciler.app.event_loop import run

    if exactly and matching is None:
        raise UsageError("--exactly needs --matching")
    cluster_target = target(where)

    async def ask() -> "tuple[str, QuotaState]":
        async with connected(console, cluster_target) as client:
            cluster = await expected_cluster(client, cluster_target)
            return cluster.id, await client.describe(_filter(matching, strict=exactly))

    cluster_id, state = run(ask())
    if output == "table":
        from reconciler.cli.output.plans import style_of
        from reconciler.render.cluster_state import state_text

        console.fact(state_text(state, style=style_of(console)))
        return ExitCode.DONE
    if output == "json":
        from reconciler.codecs.state import state_document
        from reconciler.render.json_values import dump

        console.fact(dump(state_document(state, cluster_id=cluster_id, taken_at="")))
    else:
        from reconciler.cli.inspection.export import left_out_lines
        from reconciler.manifest.writer import export

        exported = export(state, cluster=cluster_target.name or "live")
        comments = [f"# in no manifest: {line}" for line in left_out_lines(exported.left_out)]
        console.fact("\n".join([*comments, exported.text]) or "# no quotas")
    return ExitCode.DONE


def _filter(matching: "Entity | None", *, strict: bool) -> "Filter":
    from reconciler.quota.entity import parts
    from reconciler.quota.filters import ALL, Component, Filter

    if matching is None:
        return ALL
    components = tuple(Component(entity_type=kind, match=name) for kind, name in parts(matching))
    return Filter(components=components, strict=strict)
