"""The records of one cluster in an inventory, with its writers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.inventory.writers import InventoryWriter, RecordedWriter, with_writer
from reconciler.quota.ownership import OwnershipRecords, RecordChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecords:
    """The records of one cluster in the document."""

    owned: OwnershipRecords
    writers: Mapping[str, RecordedWriter] = field(default_factory=dict[str, RecordedWriter])

    def with_changes(
        self, changes: Sequence[RecordChange], writer: InventoryWriter, *, now: float
    ) -> "ClusterRecords":
        """Return the records after a write. The writer is recorded with the first record of a document.

        So records that were emptied have a writer, and those of a first apply that failed have none.
        """
        owned = self.owned.with_changes(changes)
        writers = with_writer(writer, self.writers, now=now) if owned.is_known else self.writers
        return ClusterRecords(owned=owned, writers=writers)


def no_records(cluster_id: str) -> ClusterRecords:
    """Return the records of a cluster that has none and never had any."""
    return ClusterRecords(owned=OwnershipRecords(cluster_id=cluster_id, is_known=False))
