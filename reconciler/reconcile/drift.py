"""Drift without documents: live values that differ from those applied last, and values of overrides that have ended."""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.errors import KquotaError
from reconciler.quota.change import Finding, Plan
from reconciler.quota.desired import Declaration, Desired, merge
from reconciler.quota.expired_overrides import ExpiredOverride, expired_overrides
from reconciler.quota.keys import COLUMNS, Key, same_value
from reconciler.quota.owned import Override
from reconciler.quota.plan import compare
from reconciler.quota.policy import Cause, Policy, Rules
from reconciler.quota.report import Pass, Verdict
from reconciler.quota.state import limits_of
from reconciler.reconcile import records
from reconciler.reconcile.observe import Observation, observe, rules_for
from reconciler.reconcile.orders import Orders, Ports
from reconciler.reconcile.story import Prepared, preview


async def drift(ports: Ports, orders: Orders) -> tuple[Finding, ...]:
    """Live values that differ from those we applied last, whatever documents say; nothing is written.

    Raises:
        WrongCluster: Another cluster answers.
        InventoryError: The records cannot be read.
        ClientError: The cluster cannot be asked.
    """
    seen = await observe(ports, orders)
    plan = _compared(seen, rules_for(orders, seen))
    return tuple(one for one in plan.found(Cause.DRIFT) if not one.ignored)


def expired(seen: Observation, rules: Rules) -> tuple[ExpiredOverride, ...]:
    """The overrides that have ended and whose value is still live, whatever documents say."""
    return expired_overrides(_compared(seen, rules), seen.owned)


def _compared(seen: Observation, rules: Rules) -> Plan:
    return compare(
        desired=as_applied(seen),
        owned=seen.owned,
        live=seen.live,
        rules=replace(rules, policy=Policy.OBSERVE),
        now=seen.at,
    )


async def look(ports: Ports, orders: Orders, *, cluster: str, notes: bool) -> Pass:
    """One look for drift as a pass that writes nothing to the cluster; whatever happens is in the answer.

    Args:
        ports: The outside world.
        orders: What this look is told; its policy counts as ``Observe``.
        cluster: What the cluster is called.
        notes: Whether the records may learn when drift was first seen.

    Returns:
        The pass. ``sightings`` is left to the caller, who remembers earlier looks.
    """
    started = ports.clock.now()
    prepared: Prepared | None = None
    failure: KquotaError | None = None
    told = replace(orders, rules=replace(orders.rules, policy=Policy.OBSERVE), assess=False)
    try:
        seen = await observe(ports, told)
        prepared = preview(seen, as_applied(seen), told, verdict=Verdict(source="none"))
        if notes:
            await note_drift(ports, prepared)
    except KquotaError as error:
        failure = error
    return Pass(
        cluster=cluster,
        preview=None if prepared is None else prepared.preview,
        expired_overrides=()
        if prepared is None
        else expired_overrides(prepared.plan, prepared.seen.owned),
        live=None if prepared is None else prepared.seen.live,
        drift_since={} if prepared is None else prepared.seen.owned.drift_since,
        error=failure,
        started_at=started,
        ended_at=ports.clock.now(),
    )


async def note_drift(ports: Ports, prepared: Prepared) -> None:
    """Write down when drift was first seen, and where it is over; the only thing that a look may write."""
    seen = prepared.seen
    await ports.inventory.write(seen.cluster_id, records.drift_times(prepared.plan, seen.owned))


def as_applied(seen: Observation) -> Desired:
    """Documents that would ask for exactly what we applied last; under an override, for what was declared when it began."""
    made: list[Declaration] = []
    overrides = seen.owned.overrides
    for subject, record in seen.owned.records.items():
        columns = [
            (key, declared, owner)
            for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True)
            if value is not None
            and owner is not None
            and (declared := _declared(value, overrides.get((subject, key)), seen)) is not None
        ]
        for owner in dict.fromkeys(one for _, _, one in columns):
            values: Mapping[Key, float] = {k: v for k, v, o in columns if o == owner}
            made.append(
                Declaration(
                    document=owner.document,
                    entity=subject,
                    limits=limits_of(values),
                    deletion_policy=owner.deletion_policy,
                )
            )
    return merge(made)


def _declared(applied: float, override: Override | None, seen: Observation) -> float | None:
    """What a document declared where an override applied another value.

    A value that is neither the override's nor the declared one, after the end of the override, is drift from what was
    applied last.
    """
    if override is None:
        return applied
    key = override.key
    live = seen.live.value(override.entity, key)
    is_known = any(same_value(key, live, value) for value in (override.value, override.declared))
    return override.declared if seen.at < override.until or is_known else applied
