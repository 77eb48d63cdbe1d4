r"""``kafka-client-quotas``: the command that KIP-546 proposed and Kafka never released.

Options, terms and output follow the KIP. What it leaves open is decided here: ``--describe`` without a filter
describes everything; output is sorted; ``ip`` is allowed besides ``user`` and ``client-id``; ``--resolve`` without a
client id resolves a client with an empty id, to which only user quotas apply; contradictory options exit 1. Entity
types are open: the broker validates them. ``--any`` is the third match type of the protocol, for which the KIP has no option.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from reconciler import __version__
from reconciler.app.clusters.connection import client_config, connection_events
from reconciler.app.event_loop import run
from reconciler.cli import client_quotas_arguments as kip
from reconciler.cli.client_quotas_arguments import (
    PROGRAM,
    ClientQuotasArguments,
    operation_of,
    read_call,
)
from reconciler.cli.framework.commands import CONTEXT, ExitCode, flag, option, run_mapped
from reconciler.cli.framework.console import Console
from reconciler.errors import KquotaError, UsageError
from reconciler.quota.entity import parts
from reconciler.quota.precedence import Principal
from reconciler.quota.state import (
    Applied,
    OpenAlteration,
    QuotaState,
    Rejected,
    Unknown,
    filter_of,
    set_values,
)
from reconciler.render.cluster_state import anonymous_note, unknown_warnings
from reconciler.render.units import PER_BROKER

if TYPE_CHECKING:
    from reconciler.client import QuotaClient

HELP: Final = f"""Describe, resolve and alter client quotas, as specified in KIP-546.

\b
Example:
  kafka-client-quotas --bootstrap-server localhost:9092 --describe \\
      --names=client-id=my-client
  kafka-client-quotas --bootstrap-server localhost:9092 --resolve \\
      --names=user=user-two,client-id=my-client
  kafka-client-quotas --bootstrap-server localhost:9092 --alter \\
      --names=client-id=my-client --defaults=user \\
      --add=consumer_byte_rate=2000000 --delete=producer_byte_rate

\b
A name that is empty, begins with <, or has a comma, a quote or a
backslash is a JSON string, as in kquota: --names='user="CN=a,O=b"'.
The user "<default>" is not the default user, <default>.
{PER_BROKER}"""


@click.command(name=PROGRAM, help=HELP, context_settings=dict(CONTEXT))
@option("--bootstrap-server HOST:PORT,...", "Bootstrap servers.")
@option("--command-config FILE", "Java properties file of the client.")
@flag("--describe", "Quotas of the entities that match.")
@flag("--resolve", "Which value applies to a client, and its source.")
@flag("--alter", "Set and remove quotas of one entity.")
@option("--names TYPE=NAME,...", "Entity types with a name.", multiple=True)
@option("--defaults TYPE,...", "Entity types as the default.", multiple=True)
@option(
    "--any TYPE,...",
    "With --describe: entity types with any name, or as the default.",
    name="any_names",
    multiple=True,
)
@option("--add KEY=VALUE,...", "With --alter: what to set.", multiple=True)
@option("--delete KEY,...", "With --alter: what to remove.", multiple=True)
@flag("--validate-only", "With --alter: only validate on the broker.")
@click.version_option(__version__, "--version", message="%(prog)s %(version)s")
@click.pass_obj
def command(
    console: Console,
    *,
    bootstrap_server: str | None,
    command_config: str | None,
    describe: bool,
    resolve: bool,
    alter: bool,
    names: Sequence[str],
    defaults: Sequence[str],
    any_names: Sequence[str],
    add: Sequence[str],
    delete: Sequence[str],
    validate_only: bool,
) -> ExitCode:
    """Check everything that can be checked without a broker, then send the request."""
    operation = operation_of(describe=describe, resolve=resolve, alter=alter)
    call = read_call(
        operation,
        names=names,
        defaults=defaults,
        any_names=any_names,
        add=add,
        delete=delete,
        validate_only=validate_only,
    )
    if bootstrap_server is None and command_config is None:
        raise UsageError("--bootstrap-server is missing")

    from reconciler.client import QuotaClient

    config = client_config(
        console, bootstrap_server=bootstrap_server, command_config=command_config
    )

    async def work() -> ExitCode:
        async with QuotaClient(config, events=connection_events(console)) as client:
            return await _OPERATIONS[operation](console, client, call)

    return run(work())


async def _describe(
    console: Console, client: "QuotaClient", call: ClientQuotasArguments
) -> ExitCode:

    state = await client.describe(filter_of(call.entity, call.any_names, strict=False))
    blocks = [
        "\n".join((kip.entity_line(entity_parts), *kip.value_lines(values)))
        for entity_parts, values in quota_rows(state)
    ]
    console.fact("\n\n".join(blocks))
    return ExitCode.DONE


async def _resolve(
    console: Console, client: "QuotaClient", call: ClientQuotasArguments
) -> ExitCode:

    names = dict(call.names)
    principal = Principal(
        user=names.get("user"), client_id=names.get("client-id"), ip=names.get("ip")
    )
    resolution = (await client.resolve([principal]))[principal]
    if isinstance(resolution, KquotaError):
        raise resolution

    if note := anonymous_note([resolution]):
        console.note(note)
    for warning in unknown_warnings([resolution]):
        console.warning(warning)
    for effective in sorted(resolution.effective, key=lambda limit: str(limit.key)):
        if effective.value is not None and effective.source is not None and effective.is_known:
            (line,) = kip.value_lines([(effective.key, effective.value)])
            console.fact(f"{line} {kip.entity_line(parts(effective.source))}")
    return ExitCode.DONE


async def _alter(console: Console, client: "QuotaClient", call: ClientQuotasArguments) -> ExitCode:

    operations = (*call.add.items(), *((key, None) for key in call.delete))
    alteration = OpenAlteration(entity=call.entity, operations=operations)
    result = (await client.alter_open([alteration], validate_only=call.validate_only))[call.entity]
    match result:
        case Applied():
            return ExitCode.DONE
        case Rejected():
            words = f"the broker refused this: {result.name}: {result.message}"
        case Unknown():
            words = (
                f"the result is unknown: {result.reason}; run --describe to see the current value"
            )
        case _:
            words = "this was not sent"
    console.error(f"{kip.entity_line(call.entity)}: {words}")
    return ExitCode.ERROR


_OPERATIONS: Final = {"describe": _describe, "resolve": _resolve, "alter": _alter}


def quota_rows(
    state: QuotaState,
) -> list[tuple[tuple[tuple[str, str | None], ...], list[tuple[str, float]]]]:
    """Return ``(parts, values)`` of every entity that has a value; entities of unknown types come last."""
    rows = [
        (
            parts(subject),
            [*set_values(state.limits[subject]), *state.foreign_values.get(subject, ())],
        )
        for subject in state.entities()
    ]
    return [
        *rows,
        *((entity_parts, list(values)) for entity_parts, values in state.foreign_entities),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; never raises."""
    console = Console.of_process()
    argument_list = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        return int(
            command.main(argument_list, prog_name=PROGRAM, standalone_mode=False, obj=console) or 0
        )

    return run_mapped(console, work)
