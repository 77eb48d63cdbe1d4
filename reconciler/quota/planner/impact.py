"""The impact of a plan: principals with another limit, direction of each change, limits that never apply, metrics that end."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct

from reconciler.quota.entity import ABSENT, Entity, level, sort_key
from reconciler.quota.keys import COLUMN_OF, COLUMNS, RULES, Key
from reconciler.quota.planner.effects import (
    Direction,
    Effect,
    PlanEffects,
    change_factor,
    direction_of,
)
from reconciler.quota.planner.plan import Plan
from reconciler.quota.precedence import (
    EffectiveLimit,
    Principal,
    closer_for_all,
    resolve,
)
from reconciler.quota.state import NO_LIMITS, QuotaState, set_values


class BucketSharing(StrEnum):
    """How the clients that share a limit change: Kafka counts a bucket under its metric tags."""

    SAME = "same"
    SPLIT = "split"  # shared by fewer clients: from all client-ids of a user to this one alone
    JOINED = "joined"  # shared by more clients
    OTHER = "other"  # shared by other clients: from all client-ids of a user to all users of a client-id
    BEGUN = "begun"  # no limit before
    ENDED = "ended"  # no limit after


class AffectedPrincipal(Struct, frozen=True, kw_only=True, gc=False):
    """A known principal whose limit for a key changes."""

    principal: Principal
    key: Key
    before: EffectiveLimit  # its limit before
    after: EffectiveLimit  # its limit after

    @property
    def is_known(self) -> bool:
        """Whether both limits are certain."""
        return self.before.is_known and self.after.is_known

    @property
    def moved(self) -> bool:
        """Whether the bucket changes, if known; a new bucket begins without recorded use, so it allows a burst."""
        return self.is_known and self.before.bucket != self.after.bucket

    @property
    def is_shared_anew(self) -> bool:
        """Whether its limit is shared with other clients than before."""
        return self.sharing in {BucketSharing.SPLIT, BucketSharing.JOINED, BucketSharing.OTHER}

    @property
    def direction(self) -> Direction:
        """Whether its limit is tightened or loosened."""
        if not self.is_known:
            return Direction.UNKNOWN
        return direction_of(self.before.value, self.after.value)

    @property
    def factor(self) -> float | None:
        """Ratio of its new limit to the old one; ``None`` unless both are known and set, and the ratio is positive and finite."""
        return change_factor(self.before.value, self.after.value) if self.is_known else None

    @property
    def sharing(self) -> BucketSharing:
        """How the clients that share its limit change, if known."""
        if not self.is_known:
            return BucketSharing.SAME
        if not self.before.bucket or not self.after.bucket:
            return BucketSharing.ENDED if self.before.bucket else BucketSharing.BEGUN
        was, will = (
            {at for at, tag in enumerate(effective.bucket) if tag}
            for effective in (self.before, self.after)
        )
        if was == will:
            return BucketSharing.SAME
        if was < will:
            return BucketSharing.SPLIT
        return BucketSharing.JOINED if will < was else BucketSharing.OTHER


class ShadowedLimit(Struct, frozen=True, kw_only=True, gc=False):
    """A limit that never applies, because another entity is closer for every client that it matches."""

    entity: Entity
    key: Key
    by: Entity


class UnmatchedClientId(Struct, frozen=True, kw_only=True, gc=False):
    """A limit whose client id no known client has, while the ids of several begin with it, as Kafka Streams makes them."""

    entity: Entity
    total: int  # the number of known ids that begin with it
    example: str  # the first of them


class Impact(Struct, frozen=True, kw_only=True, gc=False):
    """The impact of a plan on clients, limits and metrics."""

    effects: tuple[Effect, ...]  # one per change, in plan order
    # Known principals with another limit that no change of their own limit says, sorted by principal and column.
    affected: tuple[AffectedPrincipal, ...]
    shadows: tuple[ShadowedLimit, ...]  # limits that never apply after the plan, sorted
    new_shadows: tuple[ShadowedLimit, ...]  # those of them that could apply before
    # Keys whose last quota in the whole cluster is removed: brokers stop recording their metrics.
    silent: tuple[Key, ...]
    principal_count: int  # number of principals that were resolved
    affected_count: int = 0  # number of those with another limit
    # These principals, sorted; not part of a saved plan.
    principals: tuple[Principal, ...] = ()
    unmatched: tuple[UnmatchedClientId, ...] = ()  # of the limits that the plan sets, in plan order

    def count(self, direction: Direction) -> int:
        """Return the number of changes with this direction."""
        return sum(effect.direction is direction for effect in self.effects)


def assess(
    plan: Plan,
    live: QuotaState,
    *,
    known_principals: Iterable[Principal] = (),
    plan_effects: PlanEffects | None = None,
) -> Impact:
    """Compute the impact of a plan on a live state.

    Args:
        plan_effects: The effects of its changes on this state, if they are known.
        known_principals: Principals to resolve: users with quotas, SCRAM users, a configured list, recorded usage.
    """
    plan_effects = plan_effects or PlanEffects(live, plan.changes)
    after = plan_effects.after
    touched = {change.key for change in plan.changes}
    principals = sorted(set(known_principals), key=_principal_sort_key)
    affected, affected_count = _affected_principals(principals, plan, live, after)
    before_shadows = set(shadows(live, touched))
    after_shadows = shadows(after, touched)
    return Impact(
        effects=plan_effects.effects,
        affected=tuple(affected),
        affected_count=affected_count,
        shadows=after_shadows,
        new_shadows=tuple(shadow for shadow in after_shadows if shadow not in before_shadows),
        silent=_silent_keys(plan, live, after),
        principal_count=len(principals),
        principals=tuple(principals),
        unmatched=tuple(_unmatched_client_ids(plan, principals)),
    )


def _unmatched_client_ids(
    plan: Plan, principals: Iterable[Principal]
) -> Iterator[UnmatchedClientId]:
    with_ids = [principal for principal in principals if principal.client_id]
    ids = sorted({("", principal.client_id or "") for principal in with_ids})
    ids_of_users = sorted(
        {(principal.user or "", principal.client_id or "") for principal in with_ids}
    )
    for subject in dict.fromkeys(change.entity for change in plan.changes if not change.removes):
        user, client_id, _ = subject
        if isinstance(client_id, str):
            known_ids, owner = (ids_of_users, user) if isinstance(user, str) else (ids, "")
            first = bisect_left(known_ids, (owner, client_id))
            total = bisect_left(known_ids, (owner, f"{client_id}\U0010ffff")) - first
            if total >= MANY_IDS and known_ids[first][1] != client_id:
                example = known_ids[first][1]
                yield UnmatchedClientId(entity=subject, total=total, example=example)


MANY_IDS: Final = 2
"""Fewest known client ids that make a limit of their common beginning look like a mistake."""


def shadows(state: QuotaState, keys: Iterable[Key] = COLUMNS) -> tuple[ShadowedLimit, ...]:
    """Return the limits of a state that never apply.

    Every client has a user, so a limit of the default user is closer than any bare client-id; and a limit of default
    user with default client-id is closer for every client that a bare client-id matches. No other level hides
    a whole level: the closer ones match only some clients, or no clients without a client-id.
    """
    columns = [COLUMN_OF[key] for key in keys if not RULES[key].on_ip]
    shadowed: list[ShadowedLimit] = []
    for subject, limits in state.limits.items():
        if level(subject) not in (7, 8):
            continue
        for column in columns:
            if limits[column] is None:
                continue
            for candidate in closer_for_all(subject):
                over = state.limits.get(candidate)
                if over is not None and over[column] is not None:
                    shadowed.append(
                        ShadowedLimit(entity=subject, key=COLUMNS[column], by=candidate)
                    )
                    break
    return tuple(
        sorted(shadowed, key=lambda shadow: (sort_key(shadow.entity), COLUMN_OF[shadow.key]))
    )


def own_entity(principal: Principal) -> Entity:
    """Return the entity with exactly the names of a client, as far as they are known."""
    user, client_id, ip = principal.user, principal.client_id, principal.ip
    return Entity(
        (
            ABSENT if user is None else user,
            ABSENT if client_id is None else client_id,
            ABSENT if ip is None else ip,
        )
    )


def _affected_principals(
    principals: Iterable[Principal], plan: Plan, live: QuotaState, after: QuotaState
) -> tuple[list[AffectedPrincipal], int]:
    """Return clients with another limit or bucket that no change of their own limit says, and the number of all.

    A limit of their own is the closest one: where a change replaces its value, the client need not be resolved.
    """
    keys = {change.key for change in plan.changes}
    columns = [(key, COLUMN_OF[key]) for key in keys]
    affected: list[AffectedPrincipal] = []
    count = 0
    for principal in principals:
        own = own_entity(principal)
        rows = live.limits.get(own, NO_LIMITS), after.limits.get(own, NO_LIMITS)
        replaced = {
            key
            for key, at in columns
            if None not in (rows[0][at], rows[1][at])
            and rows[0][at : at + 1] != rows[1][at : at + 1]  # parts of rows: NaN equals itself
        }
        # An empty name matches no level that has it, and an address may be spelled otherwise.
        if "" in own or principal.ip is not None:
            replaced = set[Key]()
        is_affected = bool(replaced)
        if resolved := keys - replaced:
            for old, new in zip(
                resolve(live, principal, resolved).effective,
                resolve(after, principal, resolved).effective,
                strict=True,
            ):
                if (old.value, old.bucket) != (new.value, new.bucket):
                    is_affected = True
                    column = COLUMN_OF[old.key]
                    if (rows[0][column], rows[1][column]) != (old.value, new.value):
                        affected.append(
                            AffectedPrincipal(
                                principal=principal, key=old.key, before=old, after=new
                            )
                        )
        count += is_affected
    return affected, count


def _silent_keys(plan: Plan, live: QuotaState, after: QuotaState) -> tuple[Key, ...]:
    removed = {change.key for change in plan.changes if change.removes}
    if not removed:
        return ()
    remaining_keys = {key for limits in after.limits.values() for key, _ in set_values(limits)}
    live_keys = {key for limits in live.limits.values() for key, _ in set_values(limits)}
    return tuple(
        key for key in COLUMNS if key in removed and key in live_keys and key not in remaining_keys
    )


def _principal_sort_key(principal: Principal) -> tuple[tuple[bool, str], ...]:
    """Return the key of a total order: an absent name comes before the empty one."""
    return tuple(
        (name is not None, name or "")
        for name in (principal.user, principal.client_id, principal.ip)
    )
