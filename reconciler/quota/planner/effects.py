"""The effect of one change on the clients of its entity: their limits before and after a plan, and warnings for reviewers.

An entity may apply to several kinds of clients: a limit of a user applies to its client-ids without an entity of their
own, and to clients without a client-id, which fall back to other levels. So each kind is computed. Clients that have
a closer entity are left to :func:`reconciler.quota.planner.impact.assess`, which resolves each known principal.

A removal relies on the limits that its clients fall back to: one that was reviewed while a default protected its clients
must not run without it.
"""

import math
from array import array
from collections.abc import Iterable
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, EntityParts, Slot, sort_key
from reconciler.quota.keys import COLUMN_OF, COLUMNS, RULES, Key
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import (
    Principal,
    ip_candidates,
    may_match_client,
    may_share_client,
    precedence_levels,
    resolve,
    unranked_entities,
)
from reconciler.quota.state import ForeignEntity, Limits, QuotaState

_STRANGER: Final[tuple[Slot, ...]] = (DEFAULT,)
"""The user or client-id slots of a client that no named entity matches: only defaults match it."""


class LimitEffect(NamedTuple):
    """The limit of one kind of client before and after a plan. A tuple, because tuples are built faster."""

    before: float | None  # its limit from any level, None = unlimited
    after: float | None  # the same after the whole plan
    is_decisive: bool  # whether the changed entity is the source of one of the two


def change_factor(before: float | None, after: float | None) -> float | None:
    """Return the ratio of two limits; ``None`` unless both are set and the ratio is positive and finite."""
    if not before or not after:
        return None
    factor = after / before
    return factor if 0 < factor < math.inf else None


class Direction(StrEnum):
    """The effect of a change on the clients of its entity."""

    TIGHTENED = "tightened"
    LOOSENED = "loosened"
    NEWLY_LIMITED = "newly limited"
    NEWLY_UNLIMITED = "newly unlimited"
    UNCHANGED = "unchanged"
    UNKNOWN = "unknown"  # an entity type that Kafka does not define may decide


class Effect(NamedTuple):
    """One change, and the limits of its clients before and after the whole plan. A tuple, because tuples are built faster."""

    change: QuotaChange
    direction: Direction  # whether it tightens or loosens the limit
    before: float | None  # their limit before, from any level; None = unlimited
    after: float | None  # their limit after
    factor: float | None  # `after / before` if both can be enforced, else None


class PlanEffects:
    """The effects of some changes on the clients of their entities, for guards and the impact.

    Attributes:
        live: The state before.
        changes: The changes.
        after: The state after all of them.
        effects: For each change, the effect on the most common kind of client that its entity decides, or else on the most
            common kind.
        jumps: For each change, the largest factor by which it changes the limit of clients that its entity decides, up or
            down; 1 for clients that are not limited before or after, infinite for a ratio that is no number.
        unlimited: The places of changes after which clients have no limit any more.
    """

    def __init__(self, live: QuotaState, changes: Iterable[QuotaChange]) -> None:
        self.live: Final = live
        self.changes: Final = tuple(changes)
        self.after: Final = apply_to(live, self.changes)
        self.jumps: Final = array("d")
        self.unlimited: Final = set[int]()
        foreign, effects = tuple(unranked_entities(live)), list[Effect]()
        for subject, group in groupby(self.changes, key=attrgetter("entity")):
            levels = _levels(subject, live, self.after)
            if levels[0] == levels[-1]:  # as of most: no client-id has a limit of its own
                del levels[1:]
            for change in group:
                by_client = _effects(subject, COLUMN_OF[change.key], levels)
                decisive = [effect for effect in by_client if effect.is_decisive]
                effects.append(_effect(change, (decisive or by_client)[0], foreign))
                jump = 1.0
                for before, after, _ in decisive:
                    jump = max(jump, jump_of(before, after))
                    if after is None and before is not None:
                        self.unlimited.add(len(self.jumps))
                self.jumps.append(jump)
        self.effects: Final = tuple(effects)


def jump_of(before: float | None, after: float | None) -> float:
    """Return the factor by which a limit grows or shrinks; infinite if the ratio is not positive and finite."""
    if before is None or after is None or before == after:
        return 1.0
    factor = change_factor(before, after)
    return math.inf if factor is None else max(factor, 1 / factor)


def _effect(change: QuotaChange, effect: LimitEffect, foreign: Iterable[ForeignEntity]) -> Effect:
    before, after, _ = effect
    direction = direction_of(before, after)
    for entity_parts, values in foreign:
        if may_match_client(entity_parts, _typical_client(change.entity)) and any(
            name == change.key and not before == value == after for name, value in values
        ):
            direction = Direction.UNKNOWN
    return Effect(change, direction, before, after, change_factor(before, after))


def _typical_client(subject: Entity) -> Principal:
    """Return a client that an entity matches, with no name that any other entity has."""
    user, client_id, ip = (
        slot if isinstance(slot, str) else _NOBODY if slot is DEFAULT else None for slot in subject
    )
    return Principal(user=_NOBODY if ip is user is None else user, client_id=client_id, ip=ip)


_NOBODY: Final = "\0"
"""A name that no entity has."""


def direction_of(before: float | None, after: float | None) -> Direction:
    """Return the direction from one limit to another; ``None`` = unlimited."""
    if before == after:
        return Direction.UNCHANGED
    if before is None or after is None:
        return Direction.NEWLY_LIMITED if before is None else Direction.NEWLY_UNLIMITED
    return Direction.TIGHTENED if after < before else Direction.LOOSENED


def effects_of(change: QuotaChange, live: QuotaState, after: QuotaState) -> tuple[LimitEffect, ...]:
    """Return the effect on each kind of client of the changed entity, the most common first; never empty.

    Args:
        live: The state before.
        after: The state after the whole plan.
    """
    levels = _levels(change.entity, live, after)
    return _effects(change.entity, COLUMN_OF[change.key], levels)


_Levels: TypeAlias = "list[tuple[Entity, Limits]]"
"""The entities with limits that can apply to a kind of client, closest first."""


def _levels(subject: Entity, live: QuotaState, after: QuotaState) -> list[tuple[_Levels, _Levels]]:
    """Return the levels of each kind of client of an entity, in two states."""
    before_limits, after_limits = live.limits, after.limits
    return [
        (
            [(each, before_limits[each]) for each in candidates if each in before_limits],
            [(each, after_limits[each]) for each in candidates if each in after_limits],
        )
        for candidates in candidates_by_client(subject)
    ]


def _effects(
    subject: Entity, column: int, levels: Iterable[tuple[_Levels, _Levels]]
) -> tuple[LimitEffect, ...]:
    effects: list[LimitEffect] = []
    for before_levels, after_levels in levels:
        was, old = _first(before_levels, column)
        will, new = _first(after_levels, column)
        effects.append(LimitEffect(old, new, subject in (was, will)))
    return tuple(effects)


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


def _first(levels: _Levels, column: int) -> tuple[Entity | None, float | None]:
    for candidate, limits in levels:
        value = limits[column]
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


# ---- limits that removals rely on -------------------------------------------------------------


class Fallback(NamedTuple):
    """One limit that clients of a removed pair fall back to."""

    entity: Entity
    key: Key
    value: float  # the live value, below overrides


def fallbacks(changes: Iterable[QuotaChange], live: QuotaState) -> tuple[Fallback, ...]:
    """Return the live limits, below overrides, that clients of removals fall back to, sorted; without changed ones."""
    own, relied = set[Pair](), set[Pair]()
    kinds: set[tuple[Key, type]] = set()  # of removals whose clients may have any client-id
    for change in changes:
        subject, key = change.pair
        own.add(change.pair)
        if change.removes:
            relied.update((wider, key) for wider in _wider(subject))
            if subject[2] is ABSENT and not isinstance(subject[1], str):
                kinds.add((key, type(subject[0])))
    for key, user in kinds:
        relied.update((wider, key) for wider in live.limits if _names_a_client_id(wider, user))
    return tuple(
        Fallback(entity, key, value)
        for entity, key in sorted(
            relied - own, key=lambda pair: (sort_key(pair[0]), COLUMN_OF[pair[1]])
        )
        if (value := live.value(entity, key)) is not None
    )


def _names_a_client_id(wider: Entity, user: type) -> bool:
    """Whether a limit names a client-id and may be that of any client of an entity without one.

    Args:
        user: The type of the user slot of that entity.
    """
    if not isinstance(wider[1], str) or isinstance(wider[0], str):
        return False
    return user is str if wider[0] is None else user is not bool


def _wider(subject: Entity) -> tuple[Entity, ...]:
    """Return the entities behind this one for some of its clients, which may have any client-id."""
    user, client_id, ip = subject
    if ip is not ABSENT:
        return ip_candidates("")[1:] if isinstance(ip, str) else ()
    users: tuple[Slot, ...] = (
        () if user is ABSENT else (user, DEFAULT) if isinstance(user, str) else _STRANGER
    )
    client_ids = (client_id, DEFAULT) if isinstance(client_id, str) else _STRANGER
    levels = precedence_levels(users, client_ids)
    return levels[levels.index(subject) + 1 :]
