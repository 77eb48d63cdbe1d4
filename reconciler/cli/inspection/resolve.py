"""``kquota resolve``: which limit applies to a client, per key, and which limits it overrides."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from reconciler.app.change.plan_preparation import read_principals
from reconciler.app.clusters.runtime import connect_client, expected_cluster, read_only_inventory
from reconciler.app.clusters.targets import target
from reconciler.app.event_loop import run
from reconciler.app.requests import TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.cli.framework.commands import ExitCode, command, option
from reconciler.cli.framework.console import Console
from reconciler.cli.options.shared import NAME, format_option, where_options
from reconciler.errors import ClientError, KquotaError, UsageError
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Pair
from reconciler.quota.precedence import Principal, Resolution
from reconciler.render.cluster_state import (
    anonymous_note,
    principal_text,
    resolutions_document,
    resolutions_text,
    temporary_notes,
    unknown_warnings,
)

if TYPE_CHECKING:
    from reconciler.client import QuotaClient

HELP: Final = """Show which limit applies to a client: value, level, source, who shares it, and which limits it overrides.

Every client has a user: one that does not authenticate is ANONYMOUS, and limits of the default user apply to it, too. Only user
quotas apply to a client without a client id.

\b
Example:
  kquota resolve --user alice --client-id checkout
  kquota resolve --cluster prod --user 'CN=alice,O=Acme' --client-id etl --ip 10.0.0.7
  kquota resolve --from clients.csv --format json"""


@command(help=HELP)
@option(
    "--user NAME",
    "Name of the principal, without the prefix User:  [default: ANONYMOUS, with --client-id].",
    NAME,
)
@option("--client-id NAME", "Client id, as the client sends it.", NAME)
@option("--ip ADDRESS", "Address that the client connects from.")
@option(
    "--from FILE",
    "CSV file of clients with the columns user, client_id and ip; - is standard input.",
    click.Path(),
    name="source",
)
@where_options(many=False)
@format_option("text", "json")
@click.pass_obj
def resolve(
    console: Console,
    *,
    user: str | None,
    client_id: str | None,
    ip: str | None,
    source: str | None,
    where: TargetRequest,
    output: str,
) -> ExitCode:
    """Resolve all clients from one connection, and print the results."""
    principals = _principals(user, client_id, ip, source)
    cluster_target = target(where)

    async def ask() -> tuple[str, Mapping[Principal, Resolution | KquotaError], str | None]:
        async with connect_client(console, cluster_target) as client:
            cluster = await expected_cluster(client, cluster_target)
            results = await client.resolve(principals)
            return cluster.id, results, await _callback(client)

    async def temporary(cluster_id: str) -> Mapping[Pair, Override]:
        try:
            records = await read_only_inventory(cluster_target, SystemClock()).load(cluster_id)
        except KquotaError as error:
            console.warning(f"whether a limit is temporary is unknown: {error}")
            return {}
        return records.overrides

    cluster_id, results, callback = run(ask())
    overrides = run(temporary(cluster_id))
    if callback is not None:
        console.warning(
            f"the brokers use the quota callback {callback}; the enforced limits may differ from Kafka's rules"
        )
    resolved = [result for result in results.values() if not isinstance(result, KquotaError)]

    if note := anonymous_note(resolved):
        console.note(note)
    for note in temporary_notes(resolved, overrides):
        console.note(note)
    for warning in unknown_warnings(resolved):
        console.warning(warning)
    if output == "json":
        document = resolutions_document(resolved, cluster_id=cluster_id, overrides=overrides)
        console.document(document | {"quotaCallback": callback})
    else:
        console.fact(resolutions_text(resolved, style=console.style))
    return _tell_refused(console, results)


def _tell_refused(
    console: Console, results: Mapping[Principal, Resolution | KquotaError]
) -> ExitCode:
    """Print the principals that are invalid; return the exit code."""
    errors = {
        principal: result
        for principal, result in results.items()
        if isinstance(result, KquotaError)
    }
    for principal, error in errors.items():
        console.error(f"{principal_text(principal)}: {error.message}")
    return ExitCode.ERROR if errors else ExitCode.DONE


async def _callback(client: "QuotaClient") -> str | None:
    """Return the class of the custom quota callback; ``None`` without one or if it cannot be read."""
    try:
        return await client.quota_callback()
    except ClientError:
        return None


def _principals(
    user: str | None, client_id: str | None, ip: str | None, source: str | None
) -> list[Principal]:

    names = (user, client_id, ip)
    if source is None:
        if names == (None, None, None):
            raise UsageError(
                "specify a client with --user, --client-id or --ip, or a file with --from",
                hint="for example kquota resolve --user alice --client-id checkout",
            )
        return [Principal(user=user, client_id=client_id, ip=ip)]
    if names != (None, None, None):
        raise UsageError(
            "--from cannot be combined with --user, --client-id and --ip; add the client to the file"
        )

    return list(read_principals(source))
