"""The effect of one change on the clients of its entity: their limits before and after a plan, and warnings for reviewers.

An entity may apply to several kinds of clients: a limit of a user applies to its client-ids without an entity of their
own, and to clients without a client-id, which fall back to other levels. So each kind is computed. Clients that have
a closer entity are left to :func:`reconciler.quota.planner.impact.assess`, which resolves each known principal.
"""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, EntityParts, Slot
from reconciler.quota.keys import COLUMN_OF, COLUMNS, RULES, Key
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import (
    Principal,
    ip_candidates,
    may_share_client,
    precedence_levels,
    resolve,
    unranked_entities,
)
from reconciler.quota.state import NO_LIMITS, Limits, QuotaState

_STRANGER: Final[tuple[Slot, ...]] = (DEFAULT,)
"""The user or client-id slots of a client that no named entity matches: only defaults match it."""


class LimitEffect(NamedTuple):
    """The limit of one kind of client before and after a plan. A tuple, because tuples are built faster."""

    before: float | None  # its limit from any level, None = unlimited
    after: float | None  # the same after the whole plan
    is_decisive: bool  # whether the changed entity is the source of one of the two

    @property
    def factor(self) -> float | None:
        """Ratio of ``after`` to ``before``, see :func:`change_factor`."""
        return change_factor(self.before, self.after)


def change_factor(before: float | None, after: float | None) -> float | None:
    """Return the ratio of two limits; ``None`` unless both are set and the ratio is positive and finite."""
    if not before or not after:
        return None
    factor = after / before
    return factor if 0 < factor < math.inf else None


class PlanEffects:
    """The effects of some changes on the clients of their entities, each computed once: guards and the impact ask for them.

    Attributes:
        live: The state before.
        changes: The changes.
        after: The state after all of them.
    """

    def __init__(self, live: QuotaState, changes: Iterable[QuotaChange]) -> None:
        self.live: Final = live
        self.changes: Final = tuple(changes)
        self.after: Final = apply_to(live, self.changes)
        self._effects: dict[tuple[Entity, Key], tuple[LimitEffect, ...]] = {}

    def of(self, change: QuotaChange) -> tuple[LimitEffect, ...]:
        """Return :func:`effects_of` a change."""
        effects = self._effects.get(change.pair)
        if effects is None:
            effects = self._effects[change.pair] = effects_of(change, self.live, self.after)
        return effects

    def main_of(self, change: QuotaChange) -> LimitEffect:
        """Return the effect on the most common kind of client that the entity decides, or else on the most common kind."""
        effects = self.of(change)
        for effect in effects:
            if effect.is_decisive:
                return effect
        return effects[0]


def effects_of(change: QuotaChange, live: QuotaState, after: QuotaState) -> tuple[LimitEffect, ...]:
    """Return the effect on each kind of client of the changed entity, the most common first; never empty.

    Args:
        live: The state before.
        after: The state after the whole plan.
    """
    subject, column = change.entity, COLUMN_OF[change.key]
    effects: list[LimitEffect] = []
    for candidates in candidates_by_client(subject):
        was, old = _first(live.limits, candidates, column)
        will, new = _first(after.limits, candidates, column)
        effects.append(LimitEffect(old, new, subject in (was, will)))
    return tuple(effects)


@lru_cache(maxsize=64)  # the changes of an entity follow one another
def candidates_by_client(subject: Entity) -> tuple[tuple[Entity, ...], ...]:
    """Return, for each kind of client of an entity, the entities that can apply to it, closest first."""
    user, client_id, ip = subject
    if isinstance(ip, str):
        return (ip_candidates(ip),)
    if ip is DEFAULT:
        return (ip_candidates("")[1:],)
    users = (user, DEFAULT) if isinstance(user, str) else _STRANGER
    if isinstance(client_id, str):
        return (precedence_levels(users, (client_id, DEFAULT)),)
    with_client_id = precedence_levels(users, _STRANGER)
    return (
        (with_client_id, precedence_levels(users, ())) if client_id is ABSENT else (with_client_id,)
    )


def _first(
    limits: Mapping[Entity, Limits], candidates: tuple[Entity, ...], column: int
) -> tuple[Entity | None, float | None]:
    for candidate in candidates:
        value = limits.get(candidate, NO_LIMITS)[column]
        if value is not None:
            return candidate, value
    return None, None


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
        for entity_parts, values in unranked_entities(live)
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
        and not change.is_temporary
        and change.before
        and change.after
        and change.after / change.before in {8.0, 0.125}
    )
