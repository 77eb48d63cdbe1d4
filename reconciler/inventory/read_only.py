"""Records that were read once, such as those of a trusted revision; never written."""

from collections.abc import Mapping, Sequence

from reconciler.errors import InventoryError
from reconciler.inventory.format import ClusterRecords, decode
from reconciler.quota.ownership import OwnershipRecords, RecordChange


class FixedInventory:
    """Records of a document. Implements ``ports.Inventory`` for reading.

    Args:
        content: The content of an inventory file; ``None`` = there are no records.

    Raises:
        InventoryError: The document is damaged, foreign or newer.
    """

    def __init__(self, content: bytes | None, *, location: str) -> None:
        self._where = location
        self._clusters: Mapping[str, ClusterRecords] = (
            {} if content is None else decode(content, location=location)
        )

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return all records of this cluster; ``is_known=False`` if there are none."""
        records = self._clusters.get(cluster_id)
        return (
            OwnershipRecords(cluster_id=cluster_id, is_known=False)
            if records is None
            else records.owned
        )

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Refuse to write.

        Raises:
            InventoryError: There is something to write.
        """
        if changes:
            raise InventoryError(f"{self._where} cannot be written for {cluster_id!r}")
