"""An inventory in memory only: for ``--no-inventory``, previews and tests."""

from collections.abc import Sequence

from reconciler.quota.ownership import OwnershipRecords, RecordChange


class MemoryInventory:
    """Records in memory. Implements ``ports.Inventory``.

    Args:
        owned: Initial records, one per cluster.
    """

    def __init__(self, *owned: OwnershipRecords) -> None:
        self._owned = {owned.cluster_id: owned for owned in owned}
        self.written: list[tuple[RecordChange, ...]] = []

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return all records of this cluster; ``is_known=False`` if there are none."""
        return self._owned.get(cluster_id, OwnershipRecords(cluster_id=cluster_id, is_known=False))

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Apply changes."""
        if changes:
            self._owned[cluster_id] = (await self.load(cluster_id)).with_changes(changes)
            self.written.append(tuple(changes))
