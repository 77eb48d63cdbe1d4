"""Removal budgets of a loop: how many limits of each tenant may be removed within a window, and which removals wait.

A command refuses a plan with too many removals (`guards.check`); a loop sends the first ones and delays the rest until
the window allows them. A tenant is the namespace of the document of a limit, so tenants do not use each other's
budgets; a much larger bound applies to all tenants together.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from reconciler.quota.entity import level
from reconciler.quota.ownership import OwnershipRecords, Pair
from reconciler.quota.planner.guards import MIN_SHARE_FROM, Guard, Guards, Violation
from reconciler.quota.planner.plan import QuotaChange

TENANTS_AT_LIMIT: Final = 5
"""The bound on all tenants together is this many times ``max_removals``, or the percentage of all limits if that is more."""

WINDOW_SECONDS: Final = 3600.0
"""Length of the window if `guards.window` is not set."""

NEXT_AT: Final = "the next is made at "
"""Part of the message of every removal that becomes possible when the window moves on."""

MOST_MOMENTS: Final = 120
"""Maximum number of entries per tenant; the two oldest are then merged, at the later of their times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCount:
    """Removals of one tenant at one time."""

    at: float  # when, in seconds since the epoch
    tenant: str  # namespace of the documents; "" = limits without a document
    count: int  # number of removals
    owned: int  # number of owned pairs of the tenant before them
    owned_by_all: int  # number of owned pairs of all tenants before them


def tenant_of(change: QuotaChange) -> str:
    """Return the tenant whose budget a removal uses."""
    return "" if change.owner is None else change.owner.document.partition("/")[0]


def counts_as_removal(change: QuotaChange) -> bool:
    """Whether a budget counts the change: not the start or the end of an override."""
    return change.removes and not change.is_temporary


def owned_by_tenant(owned: OwnershipRecords) -> Counter[str]:
    """Count the owned pairs of each tenant."""
    counts = Counter(
        owner.document.partition("/")[0]
        for record in owned.records.values()
        for _, owner in record.pairs()
    )
    counts.update(owned.elsewhere.owned)
    return counts


def counts_of(
    changes: Iterable[QuotaChange], owned: OwnershipRecords, *, at: float
) -> tuple[RemovalCount, ...]:
    """Count the removals among some changes per tenant, for the history."""
    counts = Counter(tenant_of(change) for change in changes if counts_as_removal(change))
    if not counts:
        return ()
    owned_counts = owned_by_tenant(owned)
    return tuple(
        RemovalCount(
            at=at,
            tenant=tenant,
            count=count,
            owned=owned_counts[tenant],
            owned_by_all=owned_counts.total(),
        )
        for tenant, count in sorted(counts.items())
    )


def condense(counts: Iterable[RemovalCount]) -> tuple[RemovalCount, ...]:
    """Return the same removals with at most :data:`MOST_MOMENTS` entries per tenant; none expires earlier."""
    by_tenant: dict[str, list[RemovalCount]] = {}
    for removal in sorted(counts, key=lambda removal_count: removal_count.at):
        tenant_removals = by_tenant.setdefault(removal.tenant, [])
        tenant_removals.append(removal)
        if len(tenant_removals) > MOST_MOMENTS:
            first, second = tenant_removals[:2]
            tenant_removals[:2] = [
                RemovalCount(
                    at=second.at,
                    tenant=removal.tenant,
                    count=first.count + second.count,
                    owned=first.owned,
                    owned_by_all=first.owned_by_all,
                )
            ]
    return tuple(sorted((item for removals in by_tenant.values() for item in removals), key=_order))


def _order(removal: RemovalCount) -> tuple[float, str]:
    return removal.at, removal.tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalAllowance:
    """The removals that one reconciliation may send."""

    history: Sequence[RemovalCount] = ()  # removals within the window that ends now
    now: float = 0.0  # seconds since the epoch
    window: float = WINDOW_SECONDS  # length of the window in seconds
    # Pairs whose removal is in the history already and may have to be sent again.
    paid: frozenset[Pair] = frozenset()
    # When each removal was first planned; the oldest go first, of equal ones the widest level.
    asked_since: Mapping[Pair, float] = field(default_factory=dict[Pair, float])

    def violations(
        self, changes: Iterable[QuotaChange], owned: OwnershipRecords, guards: Guards
    ) -> dict[QuotaChange, Violation]:
        """Return the removals that must wait, each with a violation that shows nothing about other tenants."""
        waiting_removals = [
            change
            for change in changes
            if counts_as_removal(change) and change.pair not in self.paid
        ]
        if not waiting_removals:
            return {}
        # Of the same age, wider levels go first: a removal waits for them, so before them it could not be sent.
        waiting_removals.sort(
            key=lambda change: (
                self.asked_since.get(change.pair, self.now),
                -level(change.entity),
            )
        )
        owned_counts = owned_by_tenant(owned)
        budgets = {
            tenant: _RemovalBudget(
                [removal for removal in self.history if removal.tenant == tenant],
                owned_counts[tenant],
                self,
                guards,
            )
            for tenant in {tenant_of(change) for change in waiting_removals}
        }
        total_budget = _RemovalBudget(
            list(self.history), owned_counts.total(), self, guards, together=True
        )
        waiting: list[tuple[QuotaChange, bool]] = []
        for change in waiting_removals:
            budget = budgets[tenant_of(change)]
            if not budget.has_room():
                waiting.append((change, True))
            elif not total_budget.has_room():
                waiting.append((change, False))
            else:
                budget.use()
                total_budget.use()
        counts = Counter(tenant_of(change) for change, _ in waiting)
        return {
            change: (budgets[tenant] if is_own else total_budget).violation(
                change, tenant, waiting=counts[tenant]
            )
            for change, is_own in waiting
            for tenant in (tenant_of(change),)
        }


class _RemovalBudget:
    """The remaining budget of one tenant, or of all together, in this reconciliation."""

    def __init__(
        self,
        history: list[RemovalCount],
        owned: int,
        allowance: RemovalAllowance,
        guards: Guards,
        *,
        together: bool = False,
    ) -> None:
        self._history = sorted(history, key=_order)
        self._owned, self._allowance, self._guards = owned, allowance, guards
        self._together = together
        self._now_used = 0

    def has_room(self) -> bool:
        """Whether the budget allows one more removal."""
        return self.used < self._limit(self._base(0))

    def use(self) -> None:
        """Count one more removal in this reconciliation."""
        self._now_used += 1

    @property
    def used(self) -> int:
        """Removals of the window and of this reconciliation."""
        return sum(removal.count for removal in self._history) + self._now_used

    def _base(self, dropped: int) -> int:
        """Return the number of owned pairs when the window began, without the oldest entries."""
        for removal in self._history[dropped:]:
            return removal.owned_by_all if self._together else removal.owned
        return self._owned

    def _share(self, base: int) -> int | None:
        """Return the bound by percentage, at least one so that each removal is sent at some time; ``None`` = it does not apply."""
        percent = self._guards.max_removed_percent
        if base < MIN_SHARE_FROM or percent >= 100:
            return None
        return max(int(percent * base / 100), 1 if percent > 0 else 0)

    def _limit(self, base: int) -> int:
        share, max_removals = self._share(base), self._guards.max_removals
        if self._together:
            return max(
                TENANTS_AT_LIMIT * max_removals, 0 if share is None or not max_removals else share
            )
        return max_removals if share is None else min(max_removals, share)

    def _next_at(self) -> float | None:
        """Return when one more removal is allowed; ``None`` = never, with the current guards."""
        remaining = self.used
        for index, removal in enumerate(self._history):
            remaining -= removal.count
            if remaining < self._limit(self._base(index + 1)):
                return removal.at + self._allowance.window
        if self._limit(self._owned) <= 0:
            return None
        return self._allowance.now + self._allowance.window

    def violation(self, change: QuotaChange, tenant: str, *, waiting: int) -> Violation:
        """Return the violation for a removal that waits."""
        base = self._base(0)
        limit, share = self._limit(base), self._share(base)
        by_share = not self._together and share is not None and share < self._guards.max_removals
        at = self._next_at()
        within = f"within {_duration(self._allowance.window)}"
        whose = f"of namespace {tenant}" if tenant else "of limits without a document"
        if self._together:
            message = f"the removals of all namespaces together have reached their bound {within}"
        elif by_share:
            percent = f"{self._guards.max_removed_percent:g} % of the {base} limits that it had"
            message = f"{self.used} of {limit} removals {whose} are used {within} ({percent} when the window began)"
        else:
            message = f"{self.used} of {limit} removals {whose} are used {within}"
        then = "no removals while the guard is 0" if at is None else f"{NEXT_AT}{_text(at)}"
        return Violation(
            guard=Guard.MAX_REMOVED_SHARE if by_share else Guard.MAX_REMOVALS,
            message=f"{message}; {waiting} wait; {then}",
            entity=change.entity,
            key=change.key,
            retry_at=at,
        )


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds:g}s"


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
