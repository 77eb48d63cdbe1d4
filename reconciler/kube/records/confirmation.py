"""Which records of statuses count: those that the operator wrote down in its own ConfigMaps, with the values that it wrote there.

A status can be written by anyone who has the right, a ConfigMap in the operator's namespace only by its administrators.
So a status says no more than that its document still holds a pair; the value, the deletionPolicy and whose the pair is
come from the ledger. A document that lost its right to remove a pair leaves it as Retain.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.kube.api.custom_resources import Obj, document_of, spec_of
from reconciler.kube.records.final_status import effective_owner
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.entity import Entity, Slot, entity
from reconciler.quota.grants import may_declare, may_remove
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.ownership import NO_RECORD, Owner, OwnershipRecords
from reconciler.quota.policy import DeletionPolicy

_SLOTS: Final = {"user": "user", "clientId": "client_id", "ip": "ip"}


def _yes(_: Obj) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusConfirmation:
    """What is known about documents besides their statuses.

    Attributes:
        holdings: The pairs of live documents as the ledger has them; ``None`` = the ledger was written by a version that
            kept no such list, or is lost. Statuses then count where the document has a grant for its entity.
        has_grant: Whether a document may declare its entity at all.
        may_remove: Whether the end of a document may remove what it holds.
    """

    holdings: OwnershipRecords | None = None
    has_grant: Callable[[Obj], bool] = _yes
    may_remove: Callable[[Obj], bool] = _yes

    def record(self, obj: Obj, subject: Entity, key: Key) -> tuple[float, Owner] | None:
        """What the ledger says that a document holds; ``None`` = it does not hold the pair."""
        if self.holdings is None:
            return None
        record = self.holdings.records.get(subject, NO_RECORD)
        value, owner = record.applied[COLUMN_OF[key]], record.owners[COLUMN_OF[key]]
        if value is None or owner is None or owner.document != document_of(obj):
            return None
        return value, owner

    def leaving(self, owner: Owner, obj: Obj) -> Owner:
        """The owner of a pair as it is judged when its document goes: a right that was taken back removes nothing."""
        if not self.may_remove(obj):
            return replace(owner, deletion_policy=DeletionPolicy.RETAIN)
        return effective_owner(owner, obj)


EVERYTHING: Final = StatusConfirmation()
"""Every status counts: for tests of the records alone, and to list what statuses say."""


def confirmation_of(
    holdings: OwnershipRecords | None, cluster: QuotaCluster | None
) -> StatusConfirmation:
    """What counts in one pass.

    Args:
        holdings: See :class:`StatusConfirmation`.
        cluster: The QuotaCluster, which has the grants; ``None`` = it is not known what they are. Then nothing is removed
            in this pass, and what is not in the ledger is not believed.
    """
    if cluster is None:
        return StatusConfirmation(
            holdings=holdings,
            has_grant=lambda _: False,
            may_remove=lambda _: holdings is not None,
        )
    tenants = tuple(grant.tenant for grant in cluster.grants)
    return StatusConfirmation(
        holdings=holdings,
        has_grant=lambda obj: may_declare(document_of(obj), declared_entity(obj), tenants),
        may_remove=lambda obj: may_remove(document_of(obj), declared_entity(obj), tenants),
    )


def declared_entity(obj: Obj) -> Entity | None:
    """The entity of a ClientQuota by its spec alone, ``None`` if it cannot be read."""
    parts = spec_of(obj).get("entity")
    try:
        if isinstance(parts, Mapping) and parts:
            return entity(**{_SLOTS[name]: _slot(slot) for name, slot in parts.items()})
    except (KeyError, ValueError, QuotaValueError):
        pass
    return None


def _slot(value: object) -> Slot:
    match value:
        case {"name": str(name)}:
            return name
        case {"default": True}:
            return None
        case _:
            raise ValueError(f"{value!r} is no slot")
