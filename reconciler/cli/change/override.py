"""``kquota override``: set temporary limits that take precedence over declared ones; list them; end them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from reconciler.app.change.override import OverrideChange, override_run, overrides_of
from reconciler.app.clusters.targets import target, targets
from reconciler.app.event_loop import run
from reconciler.app.requests import TargetRequest
from reconciler.base.clock import SystemClock
from reconciler.cli.change import operator_overrides
from reconciler.cli.change.apply_output import ApplyOutput, apply_all
from reconciler.cli.change.operator_overrides import KubernetesOptions, kubernetes_options
from reconciler.cli.framework.commands import ExitCode, Group, flag, option
from reconciler.cli.framework.console import Console, ConsoleNotices
from reconciler.cli.options.plan import validate_option
from reconciler.cli.options.shared import (
    ENTITY,
    DurationParameter,
    ReasonParameter,
    format_option,
    key_named,
    limit,
    where_options,
)
from reconciler.errors import UsageError
from reconciler.quota.entity import ABSENT, Entity, canonical_address, sort_key
from reconciler.quota.keys import RULES, Key
from reconciler.render.cluster_state import overrides_document, overrides_text

HELP: Final = """Set a temporary limit; list or end temporary limits.

While an override is in force, plans and applies use it instead of the declared value and show both. key=unset removes a
limit for that time. Of the guards only those of the value apply (--any-value); the records contain who set
it, until when and why.

An override does not end by itself: at its end, kquota watch, the Kubernetes operator or kquota drift --watch
--correct-drift writes the declared value, or the value from before. If none of them runs, the override's value stays in
Kafka until the next apply or kquota override end --expired; kquota drift and kquota doctor report it.

\b
Example:
  kquota override user=alice producer_byte_rate=50Mi --for 2h --reason 'INC-1234'
  kquota override list
  kquota override end user=alice producer_byte_rate

With the Kubernetes operator, use --kubernetes and the name of the QuotaCluster:

\b
  kquota override user=alice producer_byte_rate=50Mi --for 2h --reason 'INC-1234' \\
    --kubernetes --cluster prod --operator-namespace kafka-quotas"""

SET_HELP: Final = """Begin an override (the same as `kquota override ENTITY key=value ...`).

\b
Example:
  kquota override set user=alice producer_byte_rate=50Mi --for 2h --reason 'INC-1234'"""

LIST_HELP: Final = """List overrides that are in force, and expired ones whose value is still live.

\b
Example:
  kquota override list --cluster prod --format json"""

END_HELP: Final = """End overrides of an entity now, or revert all expired ones.

Writes what is declared, or the value from before the override. --expired reverts every override whose time is over; run
it from a schedule where neither kquota watch nor the operator runs. Without an expired override nothing is written.

\b
Example:
  kquota override end user=alice producer_byte_rate --yes
  kquota override end --expired --all --yes"""


class _OverrideGroup(Group):
    """A group whose first argument may be an entity, which implies ``set``. No entity has the name of a command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["set", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_OverrideGroup, help=HELP, no_args_is_help=True)
def override() -> None:
    """Hold the three commands."""


@override.command("set", help=SET_HELP)
@click.argument("entity", type=ENTITY)
@click.argument("limits_given", nargs=-1, required=True, metavar="KEY=VALUE...")
@option(
    "--for DURATION",
    "How long; at most 366d.",
    DurationParameter(max_days=366),
    name="seconds",
    required=True,
)
@option(
    "--reason",
    "Reason; shown in every plan while it is in force.",
    ReasonParameter(),
    required=True,
)
@flag("--yes -y", "Do not ask for confirmation.")
@flag("--new-entity", "The entity has no limit and no document yet.")
@flag(
    "--any-value",
    "Allow a value outside guards.bounds, or one that looks like a mistake in the unit.",
)
@flag(
    "--here",
    "Outside a project: record the override in ./.kquota, which no one else sees.",
    name="recorded_locally",
)
@where_options(many=False)
@kubernetes_options
@validate_option
@format_option("text", "json")
@click.pass_obj
def begin(
    console: Console,
    *,
    entity: Entity,
    limits_given: Sequence[str],
    seconds: float,
    reason: str,
    yes: bool,
    new_entity: bool,
    any_value: bool,
    recorded_locally: bool,
    where: TargetRequest,
    kube: KubernetesOptions,
    validate: str,
    output: str,
) -> ExitCode:
    """Convert the command line to override requests, and apply them."""
    values = _values(entity, limits_given)
    if where.by_address and not (recorded_locally or kube.kubernetes):
        raise UsageError(
            f"outside a project the override is recorded in {Path.cwd() / '.kquota'} only: other people do not see it, and"
            " no other process ends it",
            hint="run it in the folder of the project, or pass --here",
        )
    console.check_can_ask(yes=yes)
    if kube.kubernetes:
        return operator_overrides.begin(
            console,
            where,
            kube,
            entity=entity,
            values=values,
            seconds=seconds,
            reason=reason,
            any_value=any_value,
            yes=yes,
            output=output,
        )
    change = OverrideChange.beginning(
        entity, values, seconds=seconds, reason=reason, is_new=new_entity
    )
    return _run_override(
        console, where, change, validate, yes=yes, output=output, any_value=any_value
    )


@override.command("end", help=END_HELP)
@click.argument("entity", type=ENTITY, required=False)
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@flag("--expired", "Revert every override whose time is over.")
@flag("--yes -y", "Do not ask for confirmation.")
@where_options()
@kubernetes_options
@validate_option
@format_option("text", "json")
@click.pass_obj
def end(
    console: Console,
    *,
    entity: Entity | None,
    keys: Sequence[str],
    expired: bool,
    yes: bool,
    where: TargetRequest,
    kube: KubernetesOptions,
    validate: str,
    output: str,
) -> ExitCode:
    """End overrides of an entity (the given keys, or all that it has), or revert those that have expired."""
    console.check_can_ask(yes=yes)
    if expired:
        if entity is not None or kube.kubernetes:
            raise UsageError(
                "--expired cannot be combined with --kubernetes: the operator reverts expired overrides"
                if kube.kubernetes
                else "--expired reverts every expired override; remove the entity from the command"
            )
        return _run_override(
            console,
            where,
            OverrideChange(reverts_expired=True),
            validate,
            yes=yes,
            output=output,
        )
    if entity is None or where.every:
        raise UsageError(
            "give one entity and one cluster",
            hint="--expired reverts all expired overrides, with --all on every cluster",
        )
    if kube.kubernetes:
        named_keys = [key_named(name) for name in keys]
        return operator_overrides.end(
            console, where, kube, entity=entity, keys=named_keys, yes=yes, output=output
        )
    cluster_target = target(where)
    with ConsoleNotices(console) as notices:
        recorded = run(overrides_of(notices, cluster_target))[1]
    pairs = operator_overrides.ending_pairs(
        entity,
        [key_named(name) for name in keys],
        recorded,
        list_command=cluster_target.command("override", "list"),
    )
    change = OverrideChange(end=pairs)
    return _run_override(console, where, change, validate, yes=yes, output=output)


def _run_override(
    console: Console,
    where: TargetRequest,
    change: OverrideChange,
    validate: str,
    *,
    yes: bool,
    output: str,
    any_value: bool = False,
) -> ExitCode:

    open_run = partial(override_run, change=change, validate=validate, any_value=any_value)
    return apply_all(
        console,
        targets(where),
        open_run,
        ApplyOutput(output=output, yes=yes, concurrency=where.concurrency),
    )


@override.command("list", help=LIST_HELP)
@where_options(many=False)
@kubernetes_options
@format_option("text", "json")
@click.pass_obj
def list_overrides(
    console: Console, *, where: TargetRequest, kube: KubernetesOptions, output: str
) -> ExitCode:
    """Read the records and print the overrides."""
    if kube.kubernetes:
        cluster_id, stored = operator_overrides.list_overrides(where, kube)
        overrides = dict(
            sorted(stored.items(), key=lambda item: (sort_key(item[0][0]), item[0][1]))
        )
    else:
        with ConsoleNotices(console) as notices:
            cluster_id, overrides = run(overrides_of(notices, target(where)))

    now, rows = SystemClock().now(), list(overrides.values())
    if output == "json":
        console.document(overrides_document(rows, cluster_id=cluster_id, now=now))
    else:
        console.fact(overrides_text(rows, now=now, style=console.style))
    return ExitCode.DONE


def _values(entity: Entity, assignments: Sequence[str]) -> dict[Key, float | None]:

    values: dict[Key, float | None] = {}
    if isinstance(ip := entity[2], str) and canonical_address(ip) != ip:
        raise UsageError(
            f"ip {ip!r} is no address in canonical form: the end of its override would take every limit off that address",
            hint=f"write {canonical_address(ip) or 'the address'}",
        )
    for text in assignments:
        name, _, value = text.partition("=")
        key, number = (key_named(name), None) if value == "unset" else limit(text)
        if key in values:
            raise UsageError(f"{name} is given twice")
        if RULES[key].on_ip != (entity[2] is not ABSENT):
            raise UsageError(f"{key} cannot be set for this form of entity")
        values[key] = number
    return values
