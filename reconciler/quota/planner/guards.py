"""Guards: bounds on a plan. Returns all violations at once, each with the field and the flag that allow it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct, field

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import DEFAULT, Entity
from reconciler.quota.keys import RULES, Key, limit
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.patterns import EntityPattern
from reconciler.quota.planner.budgets import Budget, BudgetUse, budget_uses
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.planner.effects import PlanEffects, effects_of, jump_of
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.planner.temporary_limits import below_overrides
from reconciler.quota.planner.value_ranges import ValueRange, is_approved, range_of
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal
from reconciler.quota.state import QuotaState

MIN_SHARE_FROM: Final = 20
"""Below this number of owned pairs, the percentage of removals is not checked."""


class NewlyUnlimited(StrEnum):
    """What to do about clients that lose their last limit."""

    LIST = "List"
    REFUSE = "Refuse"


class Guard(StrEnum):
    """The guards, by the names of their fields."""

    MAX_REMOVALS = "maxRemovals"
    MAX_REMOVED_SHARE = "maxRemovedPercent"
    MAX_CHANGE_FACTOR = "maxChangeFactor"
    NEWLY_UNLIMITED = "newlyUnlimited"
    BOUNDS_UNIT = "bounds"
    BOUNDS_RANGE = "bounds.range"
    PROTECTED = "protectDefaults"
    PROTECTED_ENTITIES = "protected"
    EMPTY_DESIRED = "allowEmpty"
    DEFINITION = "definition"
    BUDGET = "budgets"


_APPROVAL: Final = "guards.bounds with min and max for this entity"

ALLOWED_WITH: Final[Mapping[Guard, tuple[str, str]]] = {
    Guard.MAX_REMOVALS: ("guards.maxRemovals", "--max-removals N"),
    Guard.MAX_REMOVED_SHARE: ("guards.maxRemovedPercent", "--max-removed-percent P"),
    Guard.MAX_CHANGE_FACTOR: (f"{_APPROVAL}, guards.maxChangeFactor", "--max-change-factor F"),
    Guard.NEWLY_UNLIMITED: ("guards.newlyUnlimited", "--allow-newly-unlimited"),
    Guard.BOUNDS_UNIT: ("guards.bounds", "--allow-small-values"),
    Guard.BOUNDS_RANGE: ("guards.bounds", ""),
    Guard.PROTECTED: ("guards.protectDefaults", "--allow-defaults"),
    Guard.PROTECTED_ENTITIES: ("guards.protected", ""),
    Guard.EMPTY_DESIRED: ("", "--allow-empty"),
    Guard.DEFINITION: ("an installed ClientQuota definition", ""),
    Guard.BUDGET: ("spec.budgets", ""),
}
"""What allows a violation: in the trusted configuration (or a step), and the option of a command that a person runs."""

ROUNDING: Final = 1 + 1e-9
"""Tolerance for float64 division: 7 / 0.7 is 10.000000000000002, which counts as a factor of 10."""


class Protection(Struct, frozen=True, kw_only=True, gc=False):
    """Entities that no plan may change."""

    entities: EntityPattern  # the protected entities
    reason: str = ""  # the configured reason, or ""


class RemovalApproval(Struct, frozen=True, kw_only=True, gc=False):
    """Lets the removals of one namespace pass the removal guard of loops until a time."""

    namespace: str
    until: float  # seconds since the epoch


class Guards(Struct, frozen=True, kw_only=True, gc=False):
    """The bounds on one plan, from the trusted configuration.

    Raises:
        QuotaValueError: A limit is below its minimum or NaN, with which every comparison is false.
    """

    # Maximum removals of one plan; in a loop, of one tenant, with those of the last hour.
    max_removals: int = 10
    # Maximum removals in percent of the owned pairs (in a loop, those of the tenant); checked from 20 owned pairs on.
    max_removed_percent: float = 20.0
    # Namespaces whose removals a loop makes whatever their number.
    approved_removals: tuple[RemovalApproval, ...] = field(
        default_factory=tuple[RemovalApproval, ...]
    )
    # Maximum factor by which a limit may grow or shrink for a client limited before and after. Its square is below the
    # smallest slip between units (1000), so that of a value and its slip at most one passes.
    max_change_factor: float = 30.0
    # Whether a client may lose its last limit.
    newly_unlimited: NewlyUnlimited = NewlyUnlimited.LIST
    protect_defaults: bool = True  # whether any change of a default entity needs permission
    # Whether values that look like a mistake in the unit are allowed.
    allow_small_values: bool = False
    # Whether a plan without any document is allowed although kquota owns pairs.
    allow_empty: bool = False
    # Ranges; the first that covers a quota applies.
    bounds: tuple[ValueRange, ...] = field(default_factory=tuple[ValueRange, ...])
    # Ranges of the tenants. `quota/grants.py` enforces them; here they only approve values.
    granted: tuple[ValueRange, ...] = field(default_factory=tuple[ValueRange, ...])
    # Entities that no plan may change.
    protected: tuple[Protection, ...] = field(default_factory=tuple[Protection, ...])
    # What limits may promise together.
    budgets: tuple[Budget, ...] = field(default_factory=tuple[Budget, ...])

    def __post_init__(self) -> None:
        for name, number, least in (
            (Guard.MAX_REMOVALS, self.max_removals, 0),
            (Guard.MAX_REMOVED_SHARE, self.max_removed_percent, 0),
            (Guard.MAX_CHANGE_FACTOR, self.max_change_factor, 1),
        ):
            if not number >= least:
                raise QuotaValueError(
                    f"guards.{name} must be a number of at least {least}, not {number}"
                )


class Violation(Struct, frozen=True, kw_only=True, gc=False):
    """One violation of a guard by a plan."""

    guard: Guard  # the violated guard
    message: str  # a sentence with the numbers
    entity: Entity | None = None  # the entity concerned; None = the whole plan
    key: Key | None = None  # the key concerned
    place: str = ""  # `path:line` of the declaration, or ""
    # The cause of the change; None = the whole plan. With entity and key it names one row of a plan.
    cause: Cause | None = None

    @property
    def allow_with(self) -> str:
        """What allows it for a person who runs a command: the setting, the option, or both."""
        return " or ".join(filter(None, ALLOWED_WITH[self.guard]))

    @property
    def setting(self) -> str:
        """What allows it in the trusted configuration; "" if only an option does."""
        return ALLOWED_WITH[self.guard][0]


def check(
    plan: Plan, guards: Guards, live: QuotaState, plan_effects: PlanEffects | None = None
) -> tuple[Violation, ...]:
    """Return all violations of a plan, in a fixed order; empty = it may be applied. Loops have another guard of removals.

    Args:
        live: The live state below temporary limits (``below_overrides``). What documents change there is judged, and how far
            a document with an end goes from it, which is also the way back. Overrides: :func:`override_violations`.
        plan_effects: Effects of changes of a state; used if it is this state, and the changes are those to judge.
    """
    planned = plan.reviewed
    above = [change for change in planned if change.cause is Cause.TEMPORARY]
    below = tuple(change for change in planned if change.cause is not Cause.TEMPORARY)
    if plan_effects is None or plan_effects.live is not live or plan_effects.changes != below:
        plan_effects = PlanEffects(live, below)
    return (
        *_nothing_declared(plan, guards),
        *too_many_removals(sum(change.removes for change in planned), plan.owned_pairs, guards),
        *declaration_violations(planned, guards),
        *_effect_violations(plan_effects, guards),
        *_effect_violations(PlanEffects(live, above), guards),
    )


def check_with_budgets(
    plan: Plan,
    guards: Guards,
    live: QuotaState,
    *,
    desired: DesiredState,
    owned: OwnershipRecords,
    logins: Collection[Principal],
    plan_effects: PlanEffects | None = None,
) -> tuple[tuple[BudgetUse, ...], tuple[Violation, ...]]:
    """Return the use of each budget, and all violations of a plan: those of :func:`check` and of budgets.

    Args:
        live: All live limits of the cluster, temporary ones included.
        desired: The documents.
        owned: The records with the documents of the limits.
        logins: Known clients beside those that have a limit of their own.
        plan_effects: As for :func:`check`.
    """
    uses = budget_uses(plan, guards.budgets, live, desired=desired, owned=owned, logins=logins)
    below = below_overrides(live, owned)
    return uses, (*check(plan, guards, below, plan_effects), *budget_violations(uses))


def budget_violations(uses: Iterable[BudgetUse]) -> list[Violation]:
    """Return the violations of budgets of mode Refuse: one for each change that raises the sum, or one for the whole plan.

    Nothing of a plan alone may raise a sum, as when a document moves to another namespace.
    """
    violations: list[Violation] = []
    for use in uses:
        if use.is_refused and not use.raised_by:
            violations.append(Violation(guard=Guard.BUDGET, message=use.words))
        for change, fits in use.raised_by if use.is_refused else ():
            words = (
                "" if fits is None else f"; at most {limit(change.key, fits)} fits for this limit"
            )
            violations.append(_violation_of(change, Guard.BUDGET, use.words + words))
    return violations


def override_violations(changes: Iterable[QuotaChange], guards: Guards) -> list[Violation]:
    """Return the violations of overrides that begin, which are judged by their values alone; of no other change."""
    begun = [change for change in changes if change.cause is Cause.OVERRIDE]
    return _violations_of(begun, guards, (_judge_value,))


def declaration_violations(changes: Sequence[QuotaChange], guards: Guards) -> list[Violation]:
    """Return the violations that need no live state: those of the changes that a document alone declares."""
    return _violations_of(changes, guards, OF_CHANGE)


def _violations_of(
    changes: Sequence[QuotaChange], guards: Guards, judges: Iterable["_Judge"]
) -> list[Violation]:
    return [
        _violation_of(change, guard, message)
        for judge in judges
        for change in changes
        for guard, message in judge(change, guards)
    ]


def _nothing_declared(plan: Plan, guards: Guards) -> list[Violation]:
    """Return a violation if nothing is declared but pairs are owned."""
    if guards.allow_empty or plan.documents or plan.desired_pairs or not plan.owned_pairs:
        return []
    message = f"no document declares anything, but {plan.owned_pairs} quota keys are managed; check the path of the manifests"
    return [Violation(guard=Guard.EMPTY_DESIRED, message=message)]


def too_many_removals(count: int, owned_pairs: int, guards: Guards) -> list[Violation]:
    """Return the violations of a number of removals.

    Args:
        count: Removals of the plan, without those that begin or end an override.
        owned_pairs: Number of owned pairs before the plan.
    """
    if not count:
        return []
    violations: list[Violation] = []
    if count > guards.max_removals:
        message = f"{count} removals are more than the {guards.max_removals} that are allowed"
        violations.append(Violation(guard=Guard.MAX_REMOVALS, message=message))
    if owned_pairs >= MIN_SHARE_FROM and 100 * count > guards.max_removed_percent * owned_pairs:
        message = (
            f"{count} removals are {100 * count / owned_pairs:.1f} % of the {owned_pairs} managed quota keys;"
            f" {guards.max_removed_percent:g} % are allowed"
        )
        violations.append(Violation(guard=Guard.MAX_REMOVED_SHARE, message=message))
    return violations


_Judge: TypeAlias = Callable[[QuotaChange, Guards], Iterator[tuple[Guard, str]]]
"""Yields the guards that refuse a change, each with a sentence."""


def _judge_default(change: QuotaChange, guards: Guards) -> Iterator[tuple[Guard, str]]:
    if guards.protect_defaults and DEFAULT in change.entity:
        yield (
            Guard.PROTECTED,
            f"{change.action} on a default entity affects every client without a more specific quota",
        )


def _judge_protected(change: QuotaChange, guards: Guards) -> Iterator[tuple[Guard, str]]:
    """Yield the first protection of its entity."""
    for protection in guards.protected:
        if protection.entities.matches(change.entity):
            reason = f": {protection.reason}" if protection.reason else ""
            yield Guard.PROTECTED_ENTITIES, f"{change.action} on a protected entity{reason}"
            return


def _judge_value(change: QuotaChange, guards: Guards) -> Iterator[tuple[Guard, str]]:
    """Yield a value outside its bounds, or below the unit check if no minimum is set; none that returns at an end."""
    value = change.after
    if value is None or (change.claim is None and change.cause is not Cause.OVERRIDE):
        return
    rule, bound = RULES[change.key], range_of(change, guards.bounds)
    least, most = bound.minimum, bound.maximum
    if least is None and value < rule.slip and not guards.allow_small_values:
        yield Guard.BOUNDS_UNIT, _value_text(change, "below", rule.slip) + ": a wrong unit?"
    if least is not None and value < least:
        yield Guard.BOUNDS_RANGE, _value_text(change, "below its bound", least)
    if most is not None and value > most:
        yield Guard.BOUNDS_RANGE, _value_text(change, "above its bound", most)


def _value_text(change: QuotaChange, comparison: str, bound: float) -> str:
    key = change.key
    return f"{RULES[key].field} {limit(key, change.after)} is {comparison} {limit(key, bound)}"


OF_CHANGE: Final[tuple[_Judge, ...]] = (_judge_default, _judge_protected, _judge_value)
"""The guards that look at one change alone, in the order of their violations."""


def _effect_violations(plan_effects: PlanEffects, guards: Guards) -> list[Violation]:
    """Return the changes after which clients have too large a jump, or no limit."""
    violations: list[Violation] = []
    for at, (change, jump) in enumerate(zip(plan_effects.changes, plan_effects.jumps, strict=True)):
        if jump > guards.max_change_factor * ROUNDING and not is_approved(
            change, guards.bounds, guards.granted
        ):
            violations.append(_jump_violation(change, jump, plan_effects, guards))
        if guards.newly_unlimited is NewlyUnlimited.REFUSE and at in plan_effects.unlimited:
            message = f"clients under it lose their last {change.key}"
            violations.append(_violation_of(change, Guard.NEWLY_UNLIMITED, message))
    return violations


# Why one factor, and 30: docs/adr/unit-slips.md.
def _jump_violation(
    change: QuotaChange, jump: float, plan_effects: PlanEffects, guards: Guards
) -> Violation:
    worst = next(
        effect
        for effect in effects_of(change, plan_effects.live, plan_effects.after)
        if effect.is_decisive and jump_of(effect.before, effect.after) == jump
    )
    largest = guards.max_change_factor
    message = (
        f"{change.key} goes from {limit(change.key, worst.before)} to {limit(change.key, worst.after)}"
        " for clients under it:"
        f" a factor of {_format_above(jump, largest)}, {largest:.15g} is allowed"
    )
    return _violation_of(change, Guard.MAX_CHANGE_FACTOR, message)


def _format_above(number: float, bound: float) -> str:
    """Format a factor with as few digits as show that it is above the bound."""
    texts = (f"{number:,.{digits}f}" for digits in range(18))
    return next((text for text in texts if float(text.replace(",", "")) > bound), f"{number:.17g}")


def _violation_of(change: QuotaChange, guard: Guard, message: str) -> Violation:
    place = change.claim.place(change.key) if change.claim is not None else ""
    return Violation(
        guard=guard,
        message=message,
        entity=change.entity,
        key=change.key,
        place=place,
        cause=change.cause,
    )
