"""What ``override`` and ``rollback`` share: values of the night shift, prepared against documents or records, then applied."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from reconciler.cli.applying import Wanted, carry_out, told_outcome
from reconciler.cli.console import Console
from reconciler.cli.documents import load
from reconciler.cli.exits import Exit
from reconciler.cli.orders import orders_for, origin_of, unlimited
from reconciler.cli.planning import Sources, addressed, narrowed
from reconciler.cli.running import run
from reconciler.cli.where import Target
from reconciler.cli.world import Records, World, world
from reconciler.errors import KquotaError, Refused
from reconciler.quota.desired import Desired
from reconciler.quota.owned import Pair
from reconciler.quota.policy import Policy
from reconciler.quota.report import Outcome, Verdict
from reconciler.reconcile import Observation, Orders, OverrideOrder, Prepared, observe, preview
from reconciler.reconcile.drift import as_applied
from reconciler.reconcile.observe import rules_for
from reconciler.reconcile.validate import validate as asked_rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Overrides that begin or end.

    Attributes:
        begin: The overrides that begin; called with the observation that gives times and before-values.
        end: Pairs whose override ends now.
        pairs: All pairs that may be written; called with the observation.
        cluster_id: The id that must answer; ``None`` = as configured.
    """

    begin: Callable[[Observation], tuple[OverrideOrder, ...]]
    end: frozenset[Pair]
    pairs: Callable[[Observation], frozenset[Pair]]
    cluster_id: str | None = None


def shift(console: Console, wanted: Wanted, given: Shift) -> Exit:
    """Put overrides into force, or end them, as an apply of these pairs and nothing else.

    Raises:
        Refused: The policy in force writes nothing.
    """

    async def work() -> Outcome | None:
        async with world(
            console, wanted.target, Records(), command=wanted.command, writes=True
        ) as outside:
            orders, prepared = await _prepared(console, wanted, outside, given)
            return await carry_out(console, wanted, outside, orders, prepared)

    return told_outcome(console, wanted, run(work()))


async def _prepared(
    console: Console, wanted: Wanted, outside: World, given: Shift
) -> tuple[Orders, Prepared]:
    target = wanted.target
    orders = orders_for(
        target, wanted.limits, complete=True, removals_known=True, origin=origin_of(target)
    )
    if given.cluster_id is not None and orders.expected_cluster_id is None:
        orders = replace(orders, expected_cluster_id=given.cluster_id)
    seen = await observe(outside.ports, orders)
    if rules_for(orders, seen).in_force is Policy.OBSERVE:
        raise Refused(f"policy Observe is in force for {target.shown}: nothing may be written")
    pairs = given.pairs(seen)
    orders = replace(
        orders,
        overrides=given.begin(seen),
        ended=given.end,
        only=lambda subject, key: (subject, key) in pairs,
        own_principal=outside.own_principal,
        pace=wanted.pace,
    )
    desired = _desired(console, target, seen)
    first = preview(seen, desired, orders, verdict=Verdict(source="none"))
    verdict = await asked_rules(outside.ports, orders, seen, first.plan.changes)
    prepared = narrowed(replace(first, preview=replace(first.preview, verdict=verdict)), orders)
    return orders, addressed(prepared, target, outside)


def _desired(console: Console, target: Target, seen: Observation) -> Desired:
    """What is declared; at night a broken manifest must not be in the way, so our records will do."""
    if not target.chosen.manifests:
        return as_applied(seen)
    try:
        return load(target, ()).desired
    except KquotaError as error:
        console.warning(
            f"the manifests cannot be read, so what we applied last stands for them: {error}"
        )
        return as_applied(seen)


def wanted_for(
    target: Target,
    validate: str,
    *,
    yes: bool,
    output: str,
    command: str,
    next_words: tuple[str, ...] = ("override", "list"),
) -> Wanted:
    """An apply of overrides alone."""
    return Wanted(
        target=target,
        task=None,
        saved=None,
        limits=unlimited(validate),
        sources=Sources(since=None, no_inventory=False),
        yes=yes,
        expect_digest=None,
        max_age=0.0,
        pace=False,
        out=None,
        output=output,
        command=command,
        next_words=next_words,
    )
