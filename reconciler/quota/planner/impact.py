"""What a plan means for people: who gets another limit, what is tightened or loosened, what can never apply, what goes silent."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from reconciler.quota.entity import ABSENT, Entity, level, sort_key
from reconciler.quota.keys import COLUMN_OF, COLUMNS, RULES, Key
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.effects import LimitEffect, effect_of
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.planner.preconditions import (
    fallbacks,
    is_wider,
    meets_every_client_id,
    names_only_client,
)
from reconciler.quota.precedence import EffectiveLimit, Principal, resolve
from reconciler.quota.state import QuotaState, set_values


class Direction(StrEnum):
    """What a change does to the clients that it is written for."""

    TIGHTENED = "tightened"
    LOOSENED = "loosened"
    NEWLY_LIMITED = "newly limited"
    NEWLY_UNLIMITED = "newly unlimited"
    UNCHANGED = "unchanged"


class BucketSharing(StrEnum):
    """Who draws on the limit of a client afterwards, compared with before: a bucket is counted under its metric tags."""

    SAME = "same"
    SPLIT = "split"  # shared with fewer: from all client-ids of a user to this one alone
    JOINED = "joined"  # shared with more
    OTHER = "other"  # shared with others: from all client-ids of a user to all users of a client-id
    BEGUN = "begun"  # there was no limit to share
    ENDED = "ended"  # there is none any more


class Effect(NamedTuple):
    """One change, and what its clients get before and after the whole plan. A tuple, because a plan has one for each change.

    Attributes:
        change: The change.
        direction: In one word.
        before: Their limit before, from whichever level; ``None`` = unlimited.
        after: Their limit after.
        factor: ``after / before`` where both can be enforced, else ``None``.
    """

    change: QuotaChange
    direction: Direction
    before: float | None
    after: float | None
    factor: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedPrincipal:
    """A known principal whose limit for a key changes.

    Attributes:
        principal: Who.
        key: Which key.
        before: What it has now.
        after: What it gets.
    """

    principal: Principal
    key: Key
    before: EffectiveLimit
    after: EffectiveLimit

    @property
    def moved(self) -> bool:
        """Whether the bucket changes; a limit of the same size counted anew is a fresh burst."""
        return self.before.bucket != self.after.bucket

    @property
    def direction(self) -> Direction:
        """Which way its limit goes."""
        return direction_of(self.before.value, self.after.value)

    @property
    def factor(self) -> float | None:
        """How many times larger its limit becomes; ``None`` unless both are numbers that can be enforced."""
        return LimitEffect(
            before=self.before.value, after=self.after.value, is_decisive=True
        ).factor

    @property
    def sharing(self) -> BucketSharing:
        """With whom it shares its limit, compared with before."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowedLimit:
    """A limit that can never apply, because another one is closer to every client that it could match."""

    entity: Entity
    key: Key
    by: Entity


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenRule:
    """A limit that loses to a closer one for some clients.

    Attributes:
        entity: Whose limit.
        value: The limit after the plan.
        place: ``path:line`` where it is declared, "" where it is declared nowhere.
    """

    entity: Entity
    value: float
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HidingOrphan:
    """An orphaned limit, and the rules that would hold for some of its clients if it were not there.

    Attributes:
        entity: Whose limit is orphaned.
        key: Which key.
        rules: The closest of them, at most :data:`NAMED_RULES`.
        total: How many there are.
    """

    entity: Entity
    key: Key
    rules: tuple[HiddenRule, ...]
    total: int


NAMED_RULES: Final = 8
"""How many of the rules that an orphan hides are named; one of a user may hide those of every client-id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """Everything a plan means.

    Attributes:
        effects: One per change, in plan order.
        affected: Known principals with another limit, sorted by principal and column.
        shadows: Limits that can never apply after the plan, sorted.
        new_shadows: Those of them that could apply before.
        silent: Keys whose last quota in the whole cluster is removed: brokers stop recording their metrics.
        principal_count: How many principals were asked about.
        hiding: What orphans hide, in plan order; orphans that hide nothing are left out.
    """

    effects: tuple[Effect, ...]
    affected: tuple[AffectedPrincipal, ...]
    shadows: tuple[ShadowedLimit, ...]
    new_shadows: tuple[ShadowedLimit, ...]
    silent: tuple[Key, ...]
    principal_count: int
    hiding: tuple[HidingOrphan, ...] = ()

    def count(self, direction: Direction) -> int:
        """How many changes go this way."""
        return sum(effect.direction is direction for effect in self.effects)


def assess(
    plan: Plan,
    live: QuotaState,
    *,
    known_principals: Iterable[Principal] = (),
    desired: DesiredState | None = None,
) -> Impact:
    """The impact of a plan on a live state.

    Args:
        plan: What is to be done.
        live: The state that it was made from.
        known_principals: Principals to ask about: users with quotas, SCRAM users, a given list, recorded usage.
        desired: All documents, for the places of rules that orphans hide.
    """
    after = apply_to(live, plan.changes)
    touched = {change.key for change in plan.changes}
    principals = sorted(set(known_principals), key=_by_names)
    before_shadows = set(shadows(live, touched))
    after_shadows = shadows(after, touched)
    return Impact(
        effects=tuple(_effect(change, live, after) for change in plan.changes),
        affected=tuple(_affected(principals, live, after, touched)) if touched else (),
        shadows=after_shadows,
        new_shadows=tuple(shadow for shadow in after_shadows if shadow not in before_shadows),
        silent=_silent(plan, live, after),
        principal_count=len(principals),
        hiding=_hiding(plan, after, desired or DesiredState()),
    )


def known_from(state: QuotaState) -> frozenset[Principal]:
    """The principals that a state itself names: every user, every user with client-id, every ip."""
    principals: set[Principal] = set()
    for user, client_id, ip in state.limits:
        if isinstance(ip, str):
            principals.add(Principal(ip=ip))
        elif isinstance(user, str):
            principals.add(
                Principal(user=user, client_id=client_id if isinstance(client_id, str) else None)
            )
    return frozenset(principals)


def shadows(state: QuotaState, keys: Iterable[Key] = COLUMNS) -> tuple[ShadowedLimit, ...]:
    """Limits of a state that can never apply.

    Every client has a user, so a limit of the default user is closer than any bare client-id; and a limit of default
    user with default client-id is closer to every client that a bare client-id could match. No other level hides
    another one whole: the closer ones name a client, or leave clients without a client id.
    """
    columns = [COLUMN_OF[key] for key in keys if not RULES[key].on_ip]
    shadowed: list[ShadowedLimit] = []
    for subject, limits in state.limits.items():
        if level(subject) not in (7, 8):
            continue
        for column in columns:
            if limits[column] is None:
                continue
            for candidate in _over(subject):
                over = state.limits.get(candidate)
                if over is not None and over[column] is not None:
                    shadowed.append(
                        ShadowedLimit(entity=subject, key=COLUMNS[column], by=candidate)
                    )
                    break
    return tuple(
        sorted(shadowed, key=lambda shadow: (sort_key(shadow.entity), COLUMN_OF[shadow.key]))
    )


def _over(subject: Entity) -> tuple[Entity, ...]:
    """Entities that are closer to every client of a bare client-id entity."""
    client_id = subject[1]
    same_client = (Entity((None, client_id, ABSENT)),) if isinstance(client_id, str) else ()
    return (*same_client, Entity((None, None, ABSENT)), Entity((None, ABSENT, ABSENT)))


def _effect(change: QuotaChange, live: QuotaState, after: QuotaState) -> Effect:
    effect = effect_of(change, live, after)
    return Effect(
        change=change,
        direction=direction_of(effect.before, effect.after),
        before=effect.before,
        after=effect.after,
        factor=effect.factor,
    )


def direction_of(before: float | None, after: float | None) -> Direction:
    """Which way a limit goes; ``None`` = unlimited."""
    if before == after:
        return Direction.UNCHANGED
    if before is None or after is None:
        return Direction.NEWLY_LIMITED if before is None else Direction.NEWLY_UNLIMITED
    return Direction.TIGHTENED if after < before else Direction.LOOSENED


def _affected(
    principals: Iterable[Principal], live: QuotaState, after: QuotaState, touched: Collection[Key]
) -> Iterable[AffectedPrincipal]:
    """Clients with another limit; a key that no change names is the same for every client."""
    for principal in principals:
        pairs = zip(
            resolve(live, principal, touched).effective,
            resolve(after, principal, touched).effective,
            strict=True,
        )
        for old, new in pairs:
            if (old.value, old.bucket) != (new.value, new.bucket):
                yield AffectedPrincipal(principal=principal, key=old.key, before=old, after=new)


def _silent(plan: Plan, live: QuotaState, after: QuotaState) -> tuple[Key, ...]:
    removed = {change.key for change in plan.changes if change.removes}
    if not removed:
        return ()
    remaining_keys = {key for limits in after.limits.values() for key, _ in set_values(limits)}
    had = {key for limits in live.limits.values() for key, _ in set_values(limits)}
    return tuple(
        key for key in COLUMNS if key in removed and key in had and key not in remaining_keys
    )


def _hiding(plan: Plan, after: QuotaState, desired: DesiredState) -> tuple[HidingOrphan, ...]:
    by_client: dict[tuple[Key, type], list[Entity]] = {}
    hidings: list[HidingOrphan] = []
    for finding in plan.orphans:
        subject, key = finding.entity, finding.key
        rules = [rule for rule in fallbacks(subject) if after.value(rule, key) is not None]
        total = len(rules)
        if meets_every_client_id(subject):
            # Which of them are wider depends on nothing else of the orphan.
            kind = (key, type(subject[0]))
            if kind not in by_client:
                by_client[kind] = [
                    rule
                    for rule in after.entities()
                    if names_only_client(rule)
                    and is_wider(subject, rule)
                    and after.value(rule, key) is not None
                ]
            total += len(by_client[kind])
            rules += by_client[kind][:NAMED_RULES]
        if rules:
            named_rules = sorted(rules, key=sort_key)[:NAMED_RULES]
            shown_rules = tuple(_rule(rule, key, after, desired) for rule in named_rules)
            hidings.append(HidingOrphan(entity=subject, key=key, rules=shown_rules, total=total))
    return tuple(hidings)


def _rule(subject: Entity, key: Key, after: QuotaState, desired: DesiredState) -> HiddenRule:
    value, claim = after.value(subject, key), desired.claim(subject, key)
    assert value is not None  # noqa: S101 - only rules with a value hide or are hidden
    return HiddenRule(entity=subject, value=value, place="" if claim is None else claim.place(key))


def _by_names(principal: Principal) -> tuple[tuple[bool, str], ...]:
    """A total order: a name that is not asked for comes before the empty one."""
    return tuple(
        (name is not None, name or "")
        for name in (principal.user, principal.client_id, principal.ip)
    )
