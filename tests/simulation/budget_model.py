"""An independent implementation of the removal budgets of a loop: how many removals a tenant may still send."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.guards import Guards
from reconciler.quota.planner.removal_budgets import RemovalCount

TENANTS = 5
"""The budget of all tenants together is this many times that of one."""

LEAST_OWNED = 20
"""A share is checked from this number of owned quota keys on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetModel:
    """The budgets before a reconciliation.

    Attributes:
        guards: The guards.
        counts: The removals of the window.
        owned: The records.
    """

    guards: Guards
    counts: Collection[RemovalCount]
    owned: OwnershipRecords

    def room(self, tenant: str) -> int:
        """Return how many removals the budget of a tenant allows now."""
        most, counts = (
            self.guards.max_removals,
            [count for count in self.counts if count.tenant == tenant],
        )
        first = min(counts, key=lambda count: count.at, default=None)
        share = self._share(self._owned()[tenant] if first is None else first.owned)
        allowed = most if share is None else min(most, share)
        return allowed - sum(count.count for count in counts)

    def room_of_all(self) -> int:
        """Return how many removals the budget of all tenants together allows now."""
        most = self.guards.max_removals
        first = min(self.counts, key=lambda count: (count.at, count.tenant), default=None)
        share = self._share(self._owned().total() if first is None else first.owned_by_all)
        allowed = TENANTS * most if share is None or not most else max(TENANTS * most, share)
        return allowed - sum(count.count for count in self.counts)

    def _share(self, owned: int) -> int | None:
        """Return the bound by percentage: at least one, unless it is zero; ``None`` = there is none."""
        percent = self.guards.max_removed_percent
        if owned < LEAST_OWNED or percent >= 100:
            return None
        return max(int(percent * owned // 100), 1 if percent else 0)

    def _owned(self) -> Counter[str]:
        return Counter(
            owner.document.partition("/")[0]
            for record in self.owned.records.values()
            for owner in record.owners
            if owner is not None
        )
