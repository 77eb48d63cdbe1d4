"""The result of a plan for each pair: a second, slow implementation from the text of the three-way table.

Nothing here uses ``table``, ``policy.PERMITTED`` or ``plan``. Overrides are left out.
"""

from dataclasses import dataclass

from reconciler.quota.entity import ABSENT, Entity
from reconciler.quota.keys import COLUMNS, Key, same_value
from reconciler.quota.ownership import Owner
from reconciler.quota.policy import DeletionPolicy, DriftMode, Policy, Rules
from reconciler.quota.state import QuotaState
from tests.policies import CHANGING, CREATING, REMOVING, SWEEPING
from tests.quota.strategies import NOW, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """One pair: its desired, last applied and live value, and its owner."""

    key: Key
    want: float | None
    last: float | None
    live: float | None
    owner: Owner | None

    def same(self, number: float | None, other_number: float | None) -> bool:
        return same_value(self.key, number, other_number)


def target_of(world: World) -> QuotaState:
    """The state after an apply without errors."""
    subjects = {*world.desired.limits, *world.owned.records, *world.live.limits}
    return world.live.with_values(
        (subject, key, target(world, subject, key)) for subject in subjects for key in COLUMNS
    )


def target(world: World, subject: Entity, key: Key) -> float | None:
    sides = sides_of(world, subject, key)
    frozen = sides.owner is not None and sides.owner.document in world.desired.frozen
    disputed = any(
        (conflict.entity, conflict.key) == (subject, key) for conflict in world.desired.conflicts
    )
    ignored = any(rule.covers(subject, key, NOW) for rule in world.rules.ignore)
    policy = policy_of(world.rules)
    in_scope = not world.rules.scope or any(p.matches(subject) for p in world.rules.scope)
    if frozen or disputed or ignored or not in_scope:
        return sides.live
    if sides.want is None:
        return sides.live if not may_remove(world, policy, subject, sides) else None
    return sides.want if may_set(world, policy, sides) else sides.live


def sides_of(world: World, subject: Entity, key: Key) -> Sides:
    column = COLUMNS.index(key)
    want = world.desired.limits.get(subject, (None,) * len(COLUMNS))[column]
    live = world.live.value(subject, key)
    record = world.owned.records.get(subject)
    last = record.applied[column] if record else None
    owner = record.owners[column] if record else None
    intent = world.owned.intents.get((subject, key))
    if intent is not None and same_value(key, intent.value, live):
        last, owner = intent.value, intent.owner
    elif intent is not None:
        owner = owner or intent.owner
    return Sides(key=key, want=want, last=last, live=live, owner=owner)


def policy_of(rules: Rules) -> Policy:
    unconfirmed = rules.policy is Policy.SYNC and not rules.sync_confirmed
    return Policy.UPSERT if unconfirmed else rules.policy


def may_set(world: World, policy: Policy, sides: Sides) -> bool:
    if sides.same(sides.want, sides.live):
        return False  # in sync, adopted or converged
    writer = policy in CHANGING
    if sides.last is None:
        return policy in (CREATING if sides.live is None else CHANGING)
    if sides.same(sides.want, sides.last):
        return writer and world.rules.drift is DriftMode.CORRECT
    return writer  # spec, with drift or without


def may_remove(world: World, policy: Policy, subject: Entity, sides: Sides) -> bool:
    rules = world.rules
    if sides.live is None or not rules.complete or (subject, sides.key) in world.desired.halted:
        return False
    if sides.last is None:
        return False
    if policy not in REMOVING or not (rules.force or sides.same(sides.last, sides.live)):
        return False
    assert sides.owner is not None
    deletion_policy = sides.owner.deletion_policy
    key_left = sides.owner.document in world.desired.documents
    is_asked = key_left or deletion_policy is DeletionPolicy.DELETE
    is_orphan = (subject, sides.key) in world.owned.orphaned
    return (is_asked and not is_orphan) or (deletion_policy is None and policy in SWEEPING)


def may_match_same(first: Entity, second: Entity) -> bool:
    """Whether some client can fall under both entities.

    Two entities never apply together only if both name the same slot differently, or if one is an ip
    entity and the other is not (connection quotas are independent of users and client ids).
    """
    if (first[2] is ABSENT) != (second[2] is ABSENT):
        return False
    return all(
        first_name == second_name
        for first_name, second_name in zip(first, second, strict=True)
        if isinstance(first_name, str) and isinstance(second_name, str)
    )
