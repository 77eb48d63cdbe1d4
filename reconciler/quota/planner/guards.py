"""Guards: bounds on a plan. Returns all violations at once, each with the field and the flag that allow it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import DEFAULT, Entity
from reconciler.quota.keys import RULES, Key, limit
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.patterns import EntityPattern
from reconciler.quota.planner.budgets import Budget, BudgetUse, budget_uses
from reconciler.quota.planner.effects import PlanEffects, effects_of, jump_of
from reconciler.quota.planner.plan import Plan, QuotaChange
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
    owned: OwnershipRecords,
    principals: Collection[Principal],
    plan_effects: PlanEffects | None = None,
) -> tuple[tuple[BudgetUse, ...], tuple[Violation, ...]]:
    """Return the use of each budget, and all violations of a plan: those of :func:`check` and of budgets.

    Args:
        live: As for :func:`check`; all limits of the cluster.
        owned: The records with the documents of the limits.
        principals: The known clients.
    """
    uses = budget_uses(plan, guards.budgets, live, owned=owned, principals=principals)
    return uses, (*check(plan, guards, live, plan_effects), *budget_violations(uses))


def budget_violations(uses: Iterable[BudgetUse]) -> list[Violation]:
    """Return a violation for each change that raises what a budget of mode Refuse does not allow."""
    return [
        _violation_of(
            change,
            Guard.BUDGET,
            use.words
            + ("" if fits is None else f"; at most {limit(change.key, fits)} fits for this limit"),
        )
        for use in uses
        if use.is_refused
        for change, fits in use.raised_by
    ]


def override_violations(changes: Iterable[QuotaChange], guards: Guards) -> list[Violation]:
    """Return the violations of overrides that begin, which are judged by their values alone; of no other change."""
    return _value_violations([item for item in changes if item.cause is Cause.OVERRIDE], guards)


def declaration_violations(changes: Sequence[QuotaChange], guards: Guards) -> list[Violation]:
    """Return the violations that need no live state: those of the changes that a document alone declares."""
    return [
        *_default_violations(changes, guards),
        *_protection_violations(changes, guards.protected),
        *_value_violations(changes, guards),
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


def _default_violations(changes: Iterable[QuotaChange], guards: Guards) -> list[Violation]:
    if not guards.protect_defaults:
        return []
    return [
        _violation_of(
            change,
            Guard.PROTECTED,
            f"{change.action} on a default entity affects every client without a more specific quota",
        )
        for change in changes
        if DEFAULT in change.entity
    ]


def _protection_violations(
    changes: Iterable[QuotaChange], protections: Sequence[Protection]
) -> list[Violation]:
    """Return a violation for each change of a protected entity, with the first protection that matches."""
    if not protections:
        return []
    violations: list[Violation] = []
    for change in changes:
        for protection in protections:
            if protection.entities.matches(change.entity):
                reason = f": {protection.reason}" if protection.reason else ""
                message = f"{change.action} on a protected entity{reason}"
                violations.append(_violation_of(change, Guard.PROTECTED_ENTITIES, message))
                break
    return violations


def _value_violations(changes: Iterable[QuotaChange], guards: Guards) -> list[Violation]:
    """Return values outside their bounds, or below the unit check if no minimum is set."""
    violations: list[Violation] = []
    for change in changes:
        is_override = change.cause is Cause.OVERRIDE
        if change.after is None or (change.claim is None and not is_override):
            continue
        rule, value = RULES[change.key], change.after
        bound = range_of(change, guards.bounds)
        if bound.minimum is None and value < rule.slip and not guards.allow_small_values:
            message = f"{rule.field} {limit(change.key, value)} is below {limit(change.key, rule.slip)}: a wrong unit?"
            violations.append(_violation_of(change, Guard.BOUNDS_UNIT, message))
        if bound.minimum is not None and value < bound.minimum:
            message = (
                f"{rule.field} {limit(change.key, value)} is below its bound"
                f" {limit(change.key, bound.minimum)}"
            )
            violations.append(_violation_of(change, Guard.BOUNDS_RANGE, message))
        if bound.maximum is not None and value > bound.maximum:
            message = (
                f"{rule.field} {limit(change.key, value)} is above its bound"
                f" {limit(change.key, bound.maximum)}"
            )
            violations.append(_violation_of(change, Guard.BOUNDS_RANGE, message))
    return violations


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
