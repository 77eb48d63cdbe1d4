"""``kquota override``: another limit for some hours, on top of what is declared; list them; end them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from reconciler.cli.commands import Group
from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.options import Where, format_option, where_options
from reconciler.cli.orders import validate_option
from reconciler.cli.overriding_kube import Kubernetes, kubernetes_options
from reconciler.cli.values import Duration, EntityText, limit
from reconciler.errors import UsageError
from reconciler.quota.keys import FIELDS, Key

if TYPE_CHECKING:
    from reconciler.cli.where import Target
    from reconciler.quota.entity import Entity
    from reconciler.quota.owned import Override, Pair
    from reconciler.quota.report import Outcome
    from reconciler.reconcile import Observation, OverrideOrder
    from reconciler.render.documents import Json

HELP: Final = """Set a temporary limit; list or end temporary limits.

While an override is in force, plans and applies use it instead of the declared value and show both. key=unset removes a
limit for that time. Guards do not apply; the records keep who set it, until when and why.

When its time is over, kquota watch, the Kubernetes operator, kquota drift --watch --correct-drift, the next apply and
kquota override end --expired write the declared value, or the value from before. Without one of these the override's
value stays in Kafka; kquota drift and kquota doctor report it.

\b
Example:
  kquota override user=alice producer_byte_rate=50Mi --for 2h --reason 'INC-1234'
  kquota override list
  kquota override end user=alice producer_byte_rate

Where the Kubernetes operator acts, it has the records; then say --kubernetes and name the QuotaCluster:

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
it from a schedule where neither kquota watch nor the operator acts. It writes nothing if there is none.

\b
Example:
  kquota override end user=alice producer_byte_rate --yes
  kquota override end --expired --all --yes"""


class _SetByDefault(Group):
    """A group whose first word may be an entity: then ``set`` is meant. No entity is called like a command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            args = ["set", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_SetByDefault, help=HELP, no_args_is_help=True)
def override() -> None:
    """Only the place of the three commands."""


@override.command("set", help=SET_HELP)
@click.argument("entity", type=EntityText())
@click.argument("limits_given", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.option("--for", "seconds", type=Duration(), required=True, metavar="DURATION", help="How long.")  # fmt: skip
@click.option("--reason", required=True, help="Reason; shown in every plan while it is in force.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@where_options(many=False)
@kubernetes_options
@validate_option
@format_option("text", "json")
@click.pass_obj
def begin(
    console: Console,
    *,
    entity: "Entity",
    limits_given: Sequence[str],
    seconds: float,
    reason: str,
    yes: bool,
    where: Where,
    kube: Kubernetes,
    validate: str,
    output: str,
) -> Exit:
    """Turn the command line into override orders, and apply them."""
    from reconciler.cli.overriding import Shift, shift, wanted_for
    from reconciler.cli.records import who
    from reconciler.cli.where import target
    from reconciler.reconcile import OverrideOrder

    values = _values(entity, limits_given)
    _check_answer(console, yes=yes)
    if kube.kubernetes:
        from reconciler.cli import overriding_kube

        return overriding_kube.begin(
            console,
            where,
            kube,
            entity=entity,
            values=values,
            seconds=seconds,
            reason=reason,
            yes=yes,
            output=output,
        )
    by = who()

    def orders(seen: "Observation") -> "tuple[OverrideOrder, ...]":
        return tuple(
            OverrideOrder(
                entity=entity, key=key, value=value, until=seen.at + seconds, who=by, reason=reason
            )
            for key, value in values.items()
        )

    pairs = frozenset((entity, key) for key in values)
    given = Shift(begin=orders, end=frozenset(), pairs=lambda _: pairs)
    wanted = wanted_for(target(where), validate, yes=yes, output=output, command="override")
    return shift(console, wanted, given)


@override.command("end", help=END_HELP)
@click.argument("entity", type=EntityText(), required=False)
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--expired", is_flag=True, help="Revert every override whose time is over.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@where_options()
@kubernetes_options
@validate_option
@format_option("text", "json")
@click.pass_obj
def end(
    console: Console,
    *,
    entity: "Entity | None",
    keys: Sequence[str],
    expired: bool,
    yes: bool,
    where: Where,
    kube: Kubernetes,
    validate: str,
    output: str,
) -> Exit:
    """End overrides of an entity (the named keys, or all that it has), or revert those that have expired."""
    from reconciler.cli.overriding import Shift, shift, wanted_for
    from reconciler.cli.where import target

    _check_answer(console, yes=yes)
    if expired:
        if entity is not None or kube.kubernetes:
            raise UsageError(
                "the operator reverts expired overrides by itself"
                if kube.kubernetes
                else "--expired is about every expired override; leave out the entity"
            )
        return _end_expired(console, where, validate, yes=yes, output=output)
    if entity is None or where.every:
        raise UsageError(
            "name one entity of one cluster",
            hint="--expired reverts all expired overrides, with --all on every cluster",
        )
    if kube.kubernetes:
        from reconciler.cli import overriding_kube

        named = [_key(name) for name in keys]
        return overriding_kube.end(
            console, where, kube, entity=entity, keys=named, yes=yes, output=output
        )
    chosen = target(where)
    recorded = [pair for pair in _overrides(console, chosen)[1] if pair[0] == entity]
    pairs = frozenset((entity, _key(name)) for name in keys) or frozenset(recorded)
    if not pairs:
        from reconciler.render.names import entity_text

        raise UsageError(f"there is no override of {entity_text(entity)}")
    given = Shift(begin=lambda _: (), end=pairs, pairs=lambda _: pairs)
    wanted = wanted_for(chosen, validate, yes=yes, output=output, command="override")
    return shift(console, wanted, given)


def _end_expired(console: Console, where: Where, validate: str, *, yes: bool, output: str) -> Exit:
    """Revert every expired override of the clusters; one cluster that fails does not stop the others."""
    from reconciler.cli.every import for_each
    from reconciler.cli.overriding import Shift, shift, wanted_for
    from reconciler.cli.showing import show_outcomes
    from reconciler.cli.where import targets

    chosen = targets(where)
    outcomes: list[tuple[Target, Outcome | None]] | None = None
    if len(chosen) > 1 and output == "json":
        outcomes = []

    def pairs(observation: "Observation") -> "frozenset[Pair]":
        overrides = observation.owned.overrides
        return frozenset(pair for pair in overrides if observation.at >= overrides[pair].until)

    given = Shift(begin=lambda _: (), end=frozenset(), pairs=pairs)

    def revert(chosen_target: "Target") -> Exit:
        wanted = wanted_for(chosen_target, validate, yes=yes, output=output, command="override")
        return shift(console, replace(wanted, gathered=outcomes), given)

    code = for_each(console, chosen, revert)
    if outcomes is not None:
        show_outcomes(console, outcomes)
    return code


@override.command("list", help=LIST_HELP)
@where_options(many=False)
@kubernetes_options
@format_option("text", "json")
@click.pass_obj
def listed(console: Console, *, where: Where, kube: Kubernetes, output: str) -> Exit:
    """Read the records and print."""
    from reconciler.cli.where import target
    from reconciler.client.clock import SystemClock

    if kube.kubernetes:
        from reconciler.cli import overriding_kube
        from reconciler.quota.entity import sort_key

        cluster_id, there = overriding_kube.listed(where, kube)
        found = dict(sorted(there.items(), key=lambda one: (sort_key(one[0][0]), one[0][1])))
    else:
        cluster_id, found = _overrides(console, target(where))
    now = SystemClock().now()
    from reconciler.cli.override_rows import row, table_of

    if output == "json":
        from reconciler.render.documents import dump

        rows: list[Json] = [row(one, now) for one in found.values()]
        console.fact(
            dump(
                {
                    "kind": "kquota-overrides",
                    "format": 1,
                    "clusterId": cluster_id,
                    "overrides": rows,
                }
            )
        )
        return Exit.DONE
    table_of(console, list(found.values()), now)
    return Exit.DONE


def _overrides(console: Console, chosen: "Target") -> "tuple[str, dict[Pair, Override]]":
    """Cluster id and overrides, sorted; the cluster is asked who it is, because records go by its id."""
    from reconciler.cli.asking import connected, expected_cluster
    from reconciler.cli.records import read_only_inventory
    from reconciler.cli.running import run
    from reconciler.client.clock import SystemClock
    from reconciler.quota.entity import sort_key

    async def ask() -> "tuple[str, dict[Pair, Override]]":
        async with connected(console, chosen) as client:
            cluster = await expected_cluster(client, chosen)
        owned = await read_only_inventory(chosen, SystemClock()).load(cluster.id)
        pairs = sorted(owned.overrides, key=lambda pair: (sort_key(pair[0]), pair[1]))
        return cluster.id, {pair: owned.overrides[pair] for pair in pairs}

    return run(ask())


def _values(entity: "Entity", given: Sequence[str]) -> dict[Key, float | None]:
    from reconciler.quota.entity import ABSENT
    from reconciler.quota.keys import RULES

    values: dict[Key, float | None] = {}
    for text in given:
        name, _, value = text.partition("=")
        key, number = (_key(name), None) if value == "unset" else limit(text)
        if key in values:
            raise UsageError(f"{name} stands twice")
        if RULES[key].on_ip != (entity[2] is not ABSENT):
            raise UsageError(f"{key} does not belong on this form of entity")
        values[key] = number
    return values


def _key(name: str) -> Key:
    names = {key.value: key for key in Key} | FIELDS
    if name not in names:
        raise UsageError(f"unknown key {name!r}", hint=f"the keys are {', '.join(Key)}")
    return names[name]


def _check_answer(console: Console, *, yes: bool) -> None:
    if not yes and not console.asks:
        raise UsageError("there is no terminal to ask on", hint="say --yes if you mean it")
