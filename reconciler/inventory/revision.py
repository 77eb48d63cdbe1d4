"""``--since REV``: records derived from the documents at a revision, for pipelines without an inventory.

The declarations at REV count as applied by kquota, with the owners and deletion policies of REV. So a pair that is no
longer declared is removed only while its live value is REV's; any other value was set by another writer since. If a
real inventory has records of the cluster, those are used instead.
"""

from collections.abc import Sequence
from dataclasses import replace

from reconciler.ports import Inventory
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMNS, Key, key_columns
from reconciler.quota.ownership import (
    Owner,
    OwnershipRecord,
    OwnershipRecords,
    RecordChange,
    Recorded,
)
from reconciler.quota.planner.desired_state import DesiredState
from reconciler.quota.state import Limits


class RevisionInventory:
    """Records of a revision, used if the inventory has none. Implements ``ports.Inventory``.

    Args:
        declared: The desired state of this cluster at REV.
        inventory: The real one, or a ``MemoryInventory``.
    """

    def __init__(self, declared: DesiredState, *, inventory: Inventory) -> None:
        self._declared = declared
        self._inventory = inventory
        # The records of the revision that were loaded last, which the first write stores.
        self._derived: Sequence[RecordChange] = ()

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return the inventory's records, else those derived from the revision."""
        owned = await self._inventory.load(cluster_id)
        self._derived = () if owned.is_known else self._derived_changes(owned)
        return (
            owned if owned.is_known else replace(owned.with_changes(self._derived), is_known=True)
        )

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Write to the real inventory, whose records are used from then on.

        The first write also stores the revision's records; otherwise they would be lost. The inventory is not loaded again:
        a git ref refuses a write over a version that the plan did not read.
        """
        await self._inventory.write(cluster_id, (*self._derived, *changes) if changes else changes)
        self._derived = () if changes else self._derived

    def _derived_changes(self, owned: OwnershipRecords) -> Sequence[RecordChange]:
        """Return the records of the revision, except for pairs that were overridden or written since."""
        return [
            Recorded(entity=subject, key=key, value=value, owner=owner)
            for subject, record in derive_records("", self._declared).records.items()
            for key, value, owner in zip(COLUMNS, record.applied, record.owners, strict=True)
            if value is not None and owner is not None
            if not {(subject, key)} & (owned.intents.keys() | owned.overrides.keys())
        ]


def derive_records(cluster_id: str, declared: DesiredState) -> OwnershipRecords:
    """Return the records that a complete apply of these documents would have written."""
    return OwnershipRecords(
        cluster_id=cluster_id,
        records={
            subject: _record(declared, subject, limits)
            for subject, limits in declared.limits.items()
            if any(value is not None for value in limits)
        },
    )


def _record(declared: DesiredState, subject: Entity, limits: Limits) -> OwnershipRecord:
    claims = declared.claims[subject]
    if len(claims) == 1:
        sole = Owner(document=claims[0].document, deletion_policy=claims[0].deletion_policy)
        owners = key_columns([None if value is None else sole for value in limits])
    else:
        owners = key_columns(
            [
                None if value is None else _owner(declared, subject, key)
                for key, value in zip(COLUMNS, limits, strict=True)
            ]
        )
    return OwnershipRecord(limits, owners)


def _owner(declared: DesiredState, subject: Entity, key: Key) -> Owner | None:
    claim = declared.claim(subject, key)
    if claim is None:
        return None
    return Owner(document=claim.document, deletion_policy=claim.deletion_policy)
