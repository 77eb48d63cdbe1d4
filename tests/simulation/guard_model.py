"""An independent implementation of the guards: the changes that they refuse, from the changes and the live quotas."""

from collections.abc import Collection, Iterator, Mapping
from itertools import product

from reconciler.quota.entity import ABSENT, DEFAULT, Entity
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Pair
from reconciler.quota.patterns import EVERYTHING
from reconciler.quota.planner.guards import Guards, NewlyUnlimited, Violation
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.value_ranges import ValueRange
from reconciler.quota.state import QuotaState
from tests.quota.log_model import seat

SMALLEST = {
    Key.PRODUCER_BYTE_RATE: 1024.0,
    Key.CONSUMER_BYTE_RATE: 1024.0,
    Key.REQUEST_PERCENTAGE: 1.0,
    Key.CONTROLLER_MUTATION_RATE: 0.0,
    Key.CONNECTION_CREATION_RATE: 1.0,
}
"""Values below look like a mistake in the unit."""

Refusal = tuple[str, Entity | None, Key | None, str]
"""Guard, entity and key (``None`` = the whole plan), reason of a protection."""


def refusal_of(violation: Violation) -> Refusal:
    """Return the comparable part of a violation."""
    reason = violation.message.partition("protected entity: ")[2]
    return str(violation.guard), violation.entity, violation.key, reason


def refusals(
    plan: Plan, guards: Guards, live: QuotaState, owned: int, overrides: Mapping[Pair, Override]
) -> set[Refusal]:
    """Return what the guards refuse of a plan.

    Args:
        plan: The plan.
        guards: The guards.
        live: The quotas of one describe.
        owned: Number of owned quota keys before the plan.
        overrides: The recorded overrides. Under one, a declared value counts as a change of the one from before.
    """
    before = dict(_values(live))
    for pair, override in overrides.items():
        _ = before.pop(pair, None)
        if override.before is not None:
            before[pair] = override.before
    planned = [change for change in plan.changes if change.pair not in overrides]
    planned += plan.pending
    after = dict(before)
    for change in planned:
        if change.after is None:
            _ = after.pop(change.pair, None)
        else:
            after[change.pair] = change.after
    removals = sum(change.after is None for change in planned)
    of_plan = set(_of_plan(plan, guards, removals, owned))
    return of_plan.union(
        (name, change.entity, change.key, reason)
        for guard in (_of_change, _of_value)
        for change in planned
        for name, reason in guard(change, guards)
    ).union(
        (name, change.entity, change.key, "")
        for change in planned
        for name in _of_clients(change, guards, before, after)
    )


def _values(live: QuotaState) -> Iterator[tuple[tuple[Entity, Key], float]]:
    for entity, limits in live.limits.items():
        for key, value in zip(COLUMNS, limits, strict=True):
            if value is not None:
                yield (entity, key), value


def _of_plan(plan: Plan, guards: Guards, removals: int, owned: int) -> Iterator[Refusal]:
    if owned and not plan.documents and not plan.desired_pairs and not guards.allow_empty:
        yield "allowEmpty", None, None, ""
    if removals > guards.max_removals:
        yield "maxRemovals", None, None, ""
    if owned >= 20 and removals and 100 * removals > guards.max_removed_percent * owned:
        yield "maxRemovedPercent", None, None, ""


def _of_change(change: QuotaChange, guards: Guards) -> Iterator[tuple[str, str]]:
    if guards.protect_defaults and any(slot is DEFAULT for slot in change.entity):
        yield "protectDefaults", ""
    reasons = [rule.reason for rule in guards.protected if rule.entities.matches(change.entity)]
    if reasons:
        yield "protected", reasons[0]
    if change.after is None or change.claim is None:
        return


def _of_value(change: QuotaChange, guards: Guards) -> Iterator[tuple[str, str]]:
    value = change.after
    if change.claim is None or value is None:
        return
    bound = _bound(change, guards.bounds)
    least = None if bound is None else bound.minimum
    most = None if bound is None else bound.maximum
    if least is None and value < SMALLEST[change.key] and not guards.allow_small_values:
        yield "bounds", ""
    if (least is not None and value < least) or (most is not None and value > most):
        yield "bounds.range", ""


def _bound(change: QuotaChange, ranges: Collection[ValueRange]) -> ValueRange | None:
    return next(
        (r for r in ranges if r.key is change.key and r.entities.matches(change.entity)), None
    )


def _of_clients(
    change: QuotaChange,
    guards: Guards,
    before: Mapping[tuple[Entity, Key], float],
    after: Mapping[tuple[Entity, Key], float],
) -> Iterator[str]:
    """Yield the guards that the new limits of clients without a closer entity violate."""
    worst = 1.0
    for entities in clients_of(change.entity):
        old = next((entity for entity in entities if (entity, change.key) in before), None)
        new = next((entity for entity in entities if (entity, change.key) in after), None)
        if change.entity not in {old, new} or old is None:
            continue
        if new is None:
            if guards.newly_unlimited is NewlyUnlimited.REFUSE:
                yield "newlyUnlimited"
            continue
        was, will = before[old, change.key], after[new, change.key]
        worst = max(worst, will / was, was / will)
    value = change.before if change.after is None else change.after
    bound = _bound(change, guards.bounds)
    is_approved = (
        bound is not None
        and value is not None
        and bound.minimum is not None
        and bound.maximum is not None
        and bound.entities != EVERYTHING
        and bound.maximum / bound.minimum < 1000
        and bound.minimum <= value <= bound.maximum
    )
    if worst > guards.max_change_factor * (1 + 1e-9) and not is_approved:
        yield "maxChangeFactor"


def clients_of(entity: Entity) -> Iterator[tuple[Entity, ...]]:
    """Yield the entities that apply to clients of an entity, closest first; other names of the clients occur nowhere."""
    user, client_id, ip = entity
    if ip is not ABSENT:
        yield ((entity,) if ip is DEFAULT else (entity, Entity((ABSENT, ABSENT, None))))
        return
    users = [user if isinstance(user, str) else "a user that occurs nowhere"]
    clients = [client_id if isinstance(client_id, str) else "a client-id that occurs nowhere"]
    if client_id is ABSENT:
        clients.append("")
    yield from (seat(*names) for names in product(users, clients))
