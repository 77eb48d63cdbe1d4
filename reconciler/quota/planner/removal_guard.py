"""The removal guard of loops: tenants that ask for too many removals get none, and other tenants go on.

A command refuses a plan with too many removals as a whole (`guards.check`). In a loop, the removals of a tenant (the
namespace of the document) that are asked for count together with those made in the last hour, so that many small
deletions do not pass. A withheld removal stays asked for, until the tenant asks for less or the configuration allows it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from reconciler.quota.ownership import Moment, OwnershipRecords, Pair
from reconciler.quota.planner.guards import Guard, Guards, Violation, too_many_removals
from reconciler.quota.planner.plan import QuotaChange

TENANTS_AT_LIMIT: Final = 5
"""One plan removes at most this many times ``max_removals`` of all tenants together."""

COUNTED_SECONDS: Final = 3600.0
"""How long removals count after the latest one of their tenant."""

REMOVAL_GUARDS: Final = frozenset({Guard.MAX_REMOVALS, Guard.MAX_REMOVED_SHARE})
"""The guards of the number of removals."""

NONE_IS_MADE: Final = "none of them is made"
"""Part of the message of every removal that this guard withholds."""


class RemovalCount(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """The removals of one tenant, counted until an hour passes without one."""

    tenant: str  # namespace of the documents; "" = limits without a document
    count: Annotated[int, Meta(ge=0)]  # number of removals
    at: Moment  # time of the latest one


def counts_as_removal(change: QuotaChange) -> bool:
    """Whether the guard counts the change: not the start or the end of an override."""
    return change.removes and not change.is_temporary


def owned_by_tenant(owned: OwnershipRecords) -> Counter[str]:
    """Count the owned pairs of each tenant."""
    counts = Counter(
        owner.document.partition("/")[0]
        for record in owned.records.values()
        for _, owner in record.pairs()
    )
    counts.update(owned.elsewhere.owned)
    return counts


def counts_after(
    counts: Iterable[RemovalCount], changes: Iterable[QuotaChange], *, now: float
) -> tuple[RemovalCount, ...]:
    """Return the counts with the removals among some changes, which are made now; sorted by tenant.

    A time in the future, because the clock was set back, still counts, so that no removal is forgotten.
    """
    current = {count.tenant: count for count in counts if count.at > now - COUNTED_SECONDS}
    for tenant, number in _removals_by_tenant(changes).items():
        earlier = current[tenant].count if tenant in current else 0
        current[tenant] = RemovalCount(tenant=tenant, count=earlier + number, at=now)
    return tuple(current[tenant] for tenant in sorted(current))


# All or none of a tenant's removals, not the first ones: docs/adr/removal-guard.md.
def excess_removals(
    changes: Collection[QuotaChange],
    counts: Sequence[RemovalCount],
    owned: OwnershipRecords,
    guards: Guards,
    *,
    now: float,
    counted: Collection[Pair] = (),
) -> dict[QuotaChange, Violation]:
    """Return the removals that must not be made now, each with a violation that shows nothing about other tenants.

    Args:
        counts: The removals of the last hour.
        now: Seconds since the epoch.
        counted: Pairs whose removal is among ``counts`` and may have to be sent again.
    """
    approved = {approval.namespace for approval in guards.approved_removals if now < approval.until}
    removals = [
        change
        for change in changes
        if counts_as_removal(change)
        and change.pair not in counted
        and change.namespace not in approved
    ]
    recent = Counter({count.tenant: count.count for count in counts_after(counts, (), now=now)})
    owned_counts = owned_by_tenant(owned)
    requested = _removals_by_tenant(removals)
    refused = {
        tenant: violation
        for tenant, number in requested.items()
        if (violation := _of_tenant(tenant, number, recent[tenant], owned_counts[tenant], guards))
    }
    remaining = sum(number for tenant, number in requested.items() if tenant not in refused)
    of_all = too_many_removals(
        remaining,
        owned_counts.total(),
        replace(guards, max_removals=TENANTS_AT_LIMIT * guards.max_removals),
    )
    if of_all:
        message = f"too many limits of all namespaces together would be removed; {NONE_IS_MADE}"
        everything = replace(of_all[0], message=message)
        refused = {tenant: refused.get(tenant, everything) for tenant in requested}
    return {
        change: replace(refused[change.namespace], entity=change.entity, key=change.key)
        for change in removals
        if change.namespace in refused
    }


def _removals_by_tenant(changes: Iterable[QuotaChange]) -> Counter[str]:
    return Counter(change.namespace for change in changes if counts_as_removal(change))


def _of_tenant(
    tenant: str, requested: int, recent: int, owned: int, guards: Guards
) -> Violation | None:
    violations = too_many_removals(requested + recent, owned + recent, guards)
    if not violations:
        return None
    whose = f"namespace {tenant}" if tenant else "limits without a document"
    message = (
        f"{whose}: {violations[0].message}, {recent} of them made in the last hour; {NONE_IS_MADE}"
    )
    if tenant:
        message += " until guards.approvedRemovals has the namespace"
    return replace(violations[0], message=message)
