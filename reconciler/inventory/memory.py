"""An inventory that is gone with the process: for ``--no-inventory``, previews and tests."""

from collections.abc import Sequence

from reconciler.quota.owned import Owned, RecordChange


class MemoryInventory:
    """Records in memory. Implements ``ports.Inventory``.

    Args:
        owned: What it holds from the start, one per cluster.
    """

    def __init__(self, *owned: Owned) -> None:
        self._owned = {one.cluster_id: one for one in owned}
        self.written: list[tuple[RecordChange, ...]] = []

    async def load(self, cluster_id: str) -> Owned:
        """All records of this cluster; ``known=False`` if there are none."""
        return self._owned.get(cluster_id, Owned(cluster_id=cluster_id, known=False))

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Apply changes."""
        if changes:
            self._owned[cluster_id] = (await self.load(cluster_id)).with_changes(changes)
            self.written.append(tuple(changes))
