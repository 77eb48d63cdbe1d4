"""Removal budgets of a loop: how many limits of each tenant may be removed within a window, and which removals wait.

A command refuses a plan with too many removals (`guards.check`); a loop makes the first ones and lets the rest wait until
the window has moved on. A tenant is the namespace of the document that a limit belongs to, so no tenant uses up what
another one may remove; a far larger bound holds for all tenants together.
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
from reconciler.quota.policy import Cause

UNCOUNTED: Final = frozenset({Cause.OVERRIDE, Cause.OVERRIDE_EXPIRED})
"""Removals that no budget counts: what an override asks for, and what its end brings back."""

TENANTS_AT_LIMIT: Final = 5
"""All tenants together may remove as much as so many of them alone, or the same percentage of all limits if that is more."""

WINDOW_SECONDS: Final = 3600.0
"""Length of the window where `guards.window` is not set."""

NEXT_AT: Final = "the next is made at "
"""Stands in the message of every removal that will be made once the window has moved on."""

MOST_MOMENTS: Final = 120
"""Moments that are remembered per tenant; older ones are then counted together, at the later of their times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCount:
    """Removals of one tenant at one time.

    Attributes:
        at: When, in seconds since the epoch.
        tenant: Namespace of the documents; "" = limits that belong to no document.
        count: How many.
        owned: How many pairs of the tenant were ours before them.
        owned_by_all: How many pairs of all tenants were ours before them.
    """

    at: float
    tenant: str
    count: int
    owned: int
    owned_by_all: int


def tenant_of(change: QuotaChange) -> str:
    """Whose budget a removal uses."""
    return "" if change.owner is None else change.owner.document.partition("/")[0]


def counts_as_removal(change: QuotaChange) -> bool:
    """Whether a budget counts the change."""
    return change.removes and change.cause not in UNCOUNTED


def owned_by_tenant(owned: OwnershipRecords) -> Counter[str]:
    """How many pairs of each tenant are ours."""
    return Counter(
        owner.document.partition("/")[0]
        for record in owned.records.values()
        for _, owner in record.pairs()
    )


def counts_of(
    changes: Iterable[QuotaChange], owned: OwnershipRecords, *, at: float
) -> tuple[RemovalCount, ...]:
    """The removals among some changes, as they are remembered."""
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


def condensed(counts: Iterable[RemovalCount]) -> tuple[RemovalCount, ...]:
    """The same removals in bounded space, none of them forgotten earlier."""
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
    """What may be removed in one pass.

    Attributes:
        history: Removals within the window that ends now.
        now: Seconds since the epoch.
        window: Length of the window in seconds.
        paid: Pairs whose removal is in the history already and may have to be sent again.
        asked_since: When a removal was first asked for; who waits longest goes first, of equals the widest level.
    """

    history: Sequence[RemovalCount] = ()
    now: float = 0.0
    window: float = WINDOW_SECONDS
    paid: frozenset[Pair] = frozenset()
    asked_since: Mapping[Pair, float] = field(default_factory=dict[Pair, float])

    def violations(
        self, changes: Iterable[QuotaChange], owned: OwnershipRecords, guards: Guards
    ) -> dict[QuotaChange, Violation]:
        """The removals that have to wait, and what is said to their documents: nothing about other tenants."""
        waiting_removals = [
            change
            for change in changes
            if counts_as_removal(change) and (change.entity, change.key) not in self.paid
        ]
        if not waiting_removals:
            return {}
        # A removal waits for those at wider levels: where they had no slot, its own slot would be of no use.
        waiting_removals.sort(
            key=lambda change: (
                self.asked_since.get((change.entity, change.key), self.now),
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
        everybody = _RemovalBudget(
            list(self.history), owned_counts.total(), self, guards, together=True
        )
        waiting: list[tuple[QuotaChange, bool]] = []
        for change in waiting_removals:
            budget = budgets[tenant_of(change)]
            if not budget.has_room():
                waiting.append((change, True))
            elif not everybody.has_room():
                waiting.append((change, False))
            else:
                budget.use()
                everybody.use()
        counts = Counter(tenant_of(change) for change, _ in waiting)
        return {
            change: (budgets[tenant] if is_own else everybody).violation(
                change, tenant, waiting=counts[tenant]
            )
            for change, is_own in waiting
            for tenant in (tenant_of(change),)
        }


class _RemovalBudget:
    """What one tenant, or all together, may still remove in this pass."""

    def __init__(
        self,
        history: list[RemovalCount],
        owned: int,
        allotment: RemovalAllowance,
        guards: Guards,
        *,
        together: bool = False,
    ) -> None:
        self._history = sorted(history, key=_order)
        self._owned, self._allotment, self._guards = owned, allotment, guards
        self._together = together
        self._now_used = 0

    def has_room(self) -> bool:
        """Whether one more removal is within the budget."""
        return self.used < self._limit(self._base(0))

    def use(self) -> None:
        """One more removal in this pass."""
        self._now_used += 1

    @property
    def used(self) -> int:
        """Removals of the window and of this pass."""
        return sum(removal.count for removal in self._history) + self._now_used

    def _base(self, dropped: int) -> int:
        """How many pairs were ours when the window began, without the oldest moments."""
        for removal in self._history[dropped:]:
            return removal.owned_by_all if self._together else removal.owned
        return self._owned

    def _share(self, base: int) -> int | None:
        """What the percentage allows, at least one so that nothing waits for ever; ``None`` = it says nothing."""
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
        """When there is room for one more; ``None`` = never, as the guards are."""
        remaining = self.used
        for index, removal in enumerate(self._history):
            remaining -= removal.count
            if remaining < self._limit(self._base(index + 1)):
                return removal.at + self._allotment.window
        if self._limit(self._owned) <= 0:
            return None
        return self._allotment.now + self._allotment.window

    def violation(self, change: QuotaChange, tenant: str, *, waiting: int) -> Violation:
        """What is said to a document whose removal waits."""
        base = self._base(0)
        limit, share = self._limit(base), self._share(base)
        by_share = not self._together and share is not None and share < self._guards.max_removals
        at = self._next_at()
        within = f"within {_duration(self._allotment.window)}"
        whose = f"of namespace {tenant}" if tenant else "of limits without a document"
        if self._together:
            message = f"the removals of all namespaces together have reached their bound {within}"
        elif by_share:
            percent = f"{self._guards.max_removed_percent:g} % of the {base} limits that it had"
            message = f"{self.used} of {limit} removals {whose} are used {within} ({percent} when the window began)"
        else:
            message = f"{self.used} of {limit} removals {whose} are used {within}"
        then = "none is made while the guard is 0" if at is None else f"{NEXT_AT}{_text(at)}"
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
