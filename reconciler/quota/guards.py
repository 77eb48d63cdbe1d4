"""What a plan may not do: every violation at once, each with the field and the flag that allow it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from reconciler.quota.entity import DEFAULT, Entity
from reconciler.quota.keys import RULES, Key
from reconciler.quota.outlook import Reach, reach_of
from reconciler.quota.patterns import EntityPattern
from reconciler.quota.plan import Change, Plan
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import State

MIN_SHARE_FROM: Final = 20
"""Below this many owned pairs a share of them says nothing."""


class NewlyUnlimited(StrEnum):
    """What to do about clients that lose their last limit."""

    LIST = "List"
    REFUSE = "Refuse"


class Guard(StrEnum):
    """Every guard, by the name of its field."""

    MAX_REMOVALS = "maxRemovals"
    MAX_REMOVED_SHARE = "maxRemovedPercent"
    MAX_CHANGE_FACTOR = "maxChangeFactor"
    NEWLY_UNLIMITED = "newlyUnlimited"
    UNIT_SLIP = "bounds"
    BOUNDS = "bounds.range"
    PROTECTED = "protectDefaults"
    EMPTY_DESIRED = "allowEmpty"
    TWIN_SPELLING = "twinSpelling"


FLAGS: Final[Mapping[Guard, str]] = {
    Guard.MAX_REMOVALS: "--max-removals N",
    Guard.MAX_REMOVED_SHARE: "--max-removed-percent P",
    Guard.MAX_CHANGE_FACTOR: "--max-change-factor F",
    Guard.NEWLY_UNLIMITED: "--allow-newly-unlimited",
    Guard.UNIT_SLIP: "--allow-small-values",
    Guard.BOUNDS: "",
    Guard.PROTECTED: "--allow-defaults",
    Guard.EMPTY_DESIRED: "--allow-empty",
    Guard.TWIN_SPELLING: "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The range of values that some entities may have for a key.

    Attributes:
        entities: For which entities.
        key: Which key.
        minimum: Smallest value; ``None`` = no bound. A bound replaces the guard against slips of the unit.
        maximum: Largest value; ``None`` = no bound.
    """

    entities: EntityPattern
    key: Key
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The limits of one plan, from the trusted side.

    Attributes:
        max_removals: Most removals of one plan.
        max_removed_percent: Most removals in percent of the pairs that we own, counted from 20 owned pairs on.
        max_change_factor: How much larger or smaller a limit may become for a client limited before and after.
        newly_unlimited: Whether a client may lose its last limit.
        protect_defaults: Whether anything on a default entity needs permission.
        allow_small_values: Whether values that look like a slip of the unit are meant.
        allow_empty: Whether no document at all is meant although we own something.
        bounds: Ranges; the first that matches entity and key holds.
        removals_before: Removals already made in the window of a loop; 0 for a command.
    """

    max_removals: int = 10
    max_removed_percent: float = 20.0
    max_change_factor: float = 10.0
    newly_unlimited: NewlyUnlimited = NewlyUnlimited.LIST
    protect_defaults: bool = True
    allow_small_values: bool = False
    allow_empty: bool = False
    bounds: tuple[Bound, ...] = field(default_factory=tuple[Bound, ...])
    removals_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that a plan may not do.

    Attributes:
        guard: Which guard says so.
        message: A sentence with the numbers.
        entity: The entity concerned; ``None`` = the whole plan.
        key: The key concerned.
        place: ``path:line`` of the rule, or "".
    """

    guard: Guard
    message: str
    entity: Entity | None = None
    key: Key | None = None
    place: str = ""

    @property
    def allow_with(self) -> str:
        """What allows it: the field of the cluster's guards and, if there is one, the flag."""
        flag = FLAGS[self.guard]
        name = f"guards.{self.guard}" if flag else str(self.guard)
        return f"{name} or {flag}" if flag else name


def check(plan: Plan, guards: Guards, live: State) -> tuple[Violation, ...]:
    """All violations of a plan, in a fixed order; empty = it may be applied."""
    return (
        *_empty(plan, guards),
        *_removals(plan, guards),
        *_defaults(plan.changes, guards),
        *_values(plan.changes, guards),
        *_effects(plan.changes, guards, live),
        *(
            Violation(
                guard=Guard.TWIN_SPELLING,
                entity=twin.entity,
                key=Key.CONNECTION_CREATION_RATE,
                message=(
                    f"ip={twin.entity[2]} is live as ip={twin.live[2]}, which is the same address:"
                    f" remove that first with `{twin.removal}`"
                ),
            )
            for twin in plan.twins
        ),
    )


def own_limits(live: State, changes: Iterable[Change], principal: Principal) -> tuple[str, ...]:
    """Warnings where a plan newly limits the very principal that applies it."""
    after = live.with_values((change.entity, change.key, change.after) for change in changes)
    before_limits, after_limits = resolve(live, principal), resolve(after, principal)
    return tuple(
        f"{one.key} limits our own principal {principal.user}: this tool may be throttled"
        for one in after_limits.effective
        if one.value is not None and one.value != before_limits.limit(one.key)
    )


def _empty(plan: Plan, guards: Guards) -> list[Violation]:
    if guards.allow_empty or plan.desired_pairs or not plan.owned_pairs:
        return []
    message = f"no document declares anything, but {plan.owned_pairs} pairs are ours: a wrong path looks like this"
    return [Violation(guard=Guard.EMPTY_DESIRED, message=message)]


def _removals(plan: Plan, guards: Guards) -> list[Violation]:
    count = sum(change.removes for change in plan.changes) + guards.removals_before
    found: list[Violation] = []
    if count > guards.max_removals:
        message = f"{count} removals are more than the {guards.max_removals} that are allowed"
        found.append(Violation(guard=Guard.MAX_REMOVALS, message=message))
    share = 100 * count / plan.owned_pairs if plan.owned_pairs else 0.0
    if plan.owned_pairs >= MIN_SHARE_FROM and share > guards.max_removed_percent:
        message = (
            f"{count} removals are {share:.1f} % of the {plan.owned_pairs} pairs that are ours;"
            f" {guards.max_removed_percent:g} % are allowed"
        )
        found.append(Violation(guard=Guard.MAX_REMOVED_SHARE, message=message))
    return found


def _defaults(changes: Iterable[Change], guards: Guards) -> list[Violation]:
    if not guards.protect_defaults:
        return []
    return [
        _of(
            change,
            Guard.PROTECTED,
            f"{change.action} on a default entity reaches clients that nobody named",
        )
        for change in changes
        if DEFAULT in change.entity
    ]


def _values(changes: Iterable[Change], guards: Guards) -> list[Violation]:
    """Values outside their bounds, and values that look like a slip of the unit where no bound speaks."""
    found: list[Violation] = []
    for change in changes:
        if change.after is None:
            continue
        rule = RULES[change.key]
        bound = next(
            (
                one
                for one in guards.bounds
                if one.key is change.key and one.entities.matches(change.entity)
            ),
            None,
        )
        if bound is None:
            if change.after < rule.slip and not guards.allow_small_values:
                message = f"{rule.field} {change.after:g} is below {rule.slip:g} ({rule.unit}): a slip of the unit?"
                found.append(_of(change, Guard.UNIT_SLIP, message))
        elif bound.minimum is not None and change.after < bound.minimum:
            found.append(
                _of(
                    change,
                    Guard.BOUNDS,
                    f"{rule.field} {change.after:.15g} is below its bound {bound.minimum:.15g}",
                )
            )
        elif bound.maximum is not None and change.after > bound.maximum:
            found.append(
                _of(
                    change,
                    Guard.BOUNDS,
                    f"{rule.field} {change.after:.15g} is above its bound {bound.maximum:.15g}",
                )
            )
    return found


def _effects(changes: tuple[Change, ...], guards: Guards, live: State) -> list[Violation]:
    """What the whole plan does to clients: too large a jump, or no limit left."""
    found: list[Violation] = []
    after = live.with_values((change.entity, change.key, change.after) for change in changes)
    for change in changes:
        reach = reach_of(change, live, after)
        found.extend(_jump(change, reach, guards))
        if (
            guards.newly_unlimited is NewlyUnlimited.REFUSE
            and reach.after is None
            and reach.before is not None
        ):
            found.append(
                _of(change, Guard.NEWLY_UNLIMITED, f"clients under it lose their last {change.key}")
            )
    return found


def _jump(change: Change, reach: Reach, guards: Guards) -> list[Violation]:
    if reach.before is None or reach.after is None:
        return []
    factor = reach.after / reach.before
    if 1 / guards.max_change_factor <= factor <= guards.max_change_factor:
        return []
    message = (
        f"{change.key} goes from {reach.before:.15g} to {reach.after:.15g} for clients under it:"
        f" a factor of {max(factor, 1 / factor):.3g}, {guards.max_change_factor:g} is allowed"
    )
    return [_of(change, Guard.MAX_CHANGE_FACTOR, message)]


def _of(change: Change, guard: Guard, message: str) -> Violation:
    place = change.claim.place(change.key) if change.claim is not None else ""
    return Violation(
        guard=guard, message=message, entity=change.entity, key=change.key, place=place
    )
