"""Warnings for reviewers of a plan: it limits the principal of kquota, a document blocks a limit, values look like bits."""

from collections.abc import Iterable
from typing import TypeAlias

from reconciler.quota.entity import Entity, EntityParts
from reconciler.quota.keys import COLUMNS, RULES, Key
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal, may_share_client, resolve, unranked
from reconciler.quota.state import QuotaState

UnrankedKey: TypeAlias = tuple[EntityParts, Key]
"""An entity with a type other than Kafka's, and a key that it limits."""


def own_limits(
    live: QuotaState, changes: Iterable[QuotaChange], principal: Principal
) -> tuple[str, ...]:
    """Return warnings for a plan that changes a limit of the principal that applies it."""
    before_limits = resolve(live, principal)
    after_limits = resolve(apply_to(live, changes), principal)
    return tuple(
        f"{effective.key} limits the principal of this tool, {principal.user}: this tool may be throttled"
        for effective in after_limits.effective
        if effective.value is not None and effective.value != before_limits.limit(effective.key)
    )


def blocked_limits(plan: Plan) -> tuple[str, ...]:
    """Return a warning for declared limits that are not written because another document owns them and is frozen."""
    blocked = sum(finding.claim is not None for finding in plan.findings_for(Cause.FROZEN))
    if not blocked:
        return ()
    limits = "1 declared limit" if blocked == 1 else f"{blocked:,} declared limits"
    reason = "another document, which is suspended or invalid, owns what is declared"
    return (
        f"not written: {limits}, because {reason}; delete that document, or declare the limit there",
    )


def unranked_limits(live: QuotaState, changes: Iterable[QuotaChange]) -> tuple[UnrankedKey, ...]:
    """Return live limits of changed keys with an entity type other than Kafka's: their clients' effective limit is unknown.

    Only limits that can match a client of a changed entity are returned.
    """
    entities_by_key: dict[Key, list[Entity]] = {}
    for change in changes:
        entities_by_key.setdefault(change.key, []).append(change.entity)
    return tuple(
        (entity_parts, key)
        for entity_parts, values in unranked(live)
        for key in COLUMNS
        if str(key) in dict(values)
        and any(may_share_client(entity_parts, entity) for entity in entities_by_key.get(key, ()))
    )


def bit_slips(changes: Iterable[QuotaChange]) -> tuple[QuotaChange, ...]:
    """Return declared byte rates that become exactly eight times larger or smaller, as with bits instead of bytes.

    Only a warning, because intended changes by this factor are common.
    """
    return tuple(
        change
        for change in changes
        if RULES[change.key].is_bytes
        and change.cause not in {Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED}
        and change.before
        and change.after
        and change.after / change.before in {8.0, 0.125}
    )
