"""Stores a loop's removals of the window and corrections of drift beside the ownership records of its cluster."""

from collections.abc import Sequence

from reconciler.kube.records.inventory import KubeInventory
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.planner.removal_budgets import RemovalCount


class KubeRemovals:
    """The removals of the guard's window, in the ConfigMaps of an inventory. Implements ``loop.RemovalStore``."""

    def __init__(self, inventory: KubeInventory) -> None:
        self._inventory = inventory

    async def load(self) -> Sequence[RemovalCount]:
        """Return all counts."""
        return await self._inventory.load_removals()

    async def save(self, counts: Sequence[RemovalCount]) -> None:
        """Replace all counts."""
        await self._inventory.save_removals(counts)


class KubeCorrections:
    """The corrections of drift, in the ConfigMaps of an inventory. Implements ``loop.CorrectionStore``."""

    def __init__(self, inventory: KubeInventory) -> None:
        self._inventory = inventory

    async def load(self) -> Sequence[CorrectionHistory]:
        """Return the corrections of earlier processes."""
        return await self._inventory.load_corrections()

    async def save(self, histories: Sequence[CorrectionHistory]) -> None:
        """Replace all corrections."""
        await self._inventory.save_corrections(histories)
