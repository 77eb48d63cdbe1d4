"""Inventories in memory: for ``--no-inventory``, previews and tests, and records that were read once, never written."""

from collections.abc import Mapping, Sequence

from reconciler.errors import InventoryError
from reconciler.inventory.format import decode, no_records
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
        return self._owned.get(cluster_id) or no_records(cluster_id)

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Apply changes."""
        if changes:
            self._owned[cluster_id] = (await self.load(cluster_id)).with_changes(changes)
            self.written.append(tuple(changes))


class FixedInventory:
    """Records of a document, such as those of a trusted revision. Implements ``ports.Inventory`` for reading.

    Args:
        content: The content of an inventory file; ``None`` = there are no records.

    Raises:
        InventoryError: The document is damaged, foreign or newer.
    """

    def __init__(self, content: bytes | None, *, location: str) -> None:
        self._where = location
        self._clusters: Mapping[str, OwnershipRecords] = (
            {} if content is None else decode(content, location=location)
        )

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return all records of this cluster; ``is_known=False`` if there are none."""
        return self._clusters.get(cluster_id) or no_records(cluster_id)

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Refuse to write.

        Raises:
            InventoryError: There is something to write.
        """
        if changes:
            raise InventoryError(f"{self._where} cannot be written for {cluster_id!r}")
