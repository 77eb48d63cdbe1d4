"""Drift by itself: what somebody changed behind our back, whatever the documents say today."""

from collections.abc import Mapping
from dataclasses import replace

from reconciler.errors import KquotaError
from reconciler.quota.change import Finding
from reconciler.quota.desired import Declaration, Desired, merge
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.plan import compare
from reconciler.quota.policy import Cause, Policy
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
    rules = replace(rules_for(orders, seen), policy=Policy.OBSERVE)
    plan = compare(
        desired=as_applied(seen), owned=seen.owned, live=seen.live, rules=rules, now=seen.at
    )
    return tuple(one for one in plan.found(Cause.DRIFT) if not one.ignored)


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
    """Documents that would ask for exactly what we applied last."""
    made: list[Declaration] = []
    for subject, record in seen.owned.records.items():
        columns = [
            (key, value, owner)
            for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True)
            if value is not None and owner is not None
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
