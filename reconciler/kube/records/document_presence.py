"""Determines whether the document of a record is live, being deleted, deleted or missing.

A record refers to its document by namespace, name and uid. If a deletion was observed (a finalizer held the document,
or the watch reported the deletion), the recorded deletionPolicy applies. A document that disappeared unobserved, for
example with its definition or while no operator ran, leaves its limits as Retain: nothing is removed for it. Another
document of the same name, for example a restored one, keeps the pairs that it declares.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.kube.api.custom_resources import Resource
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, RULES, Key
from reconciler.quota.ownership import NO_RECORD, Owner, OwnershipRecord, OwnershipRecords, Pair
from reconciler.quota.policy import DeletionPolicy

DEPARTED: Final = " (deleted)"
"""Suffix of the name of a missing document while another one has its name: no resource name ends so."""

CONTRADICTORY_UID: Final = "?"
"""Uid of a document to which two parts give different uids, after an interrupted write: no document has it."""


class Presence(Enum):
    """The state of the document of a record."""

    LIVE = "live"
    TERMINATING = "terminating"
    DELETED = "deleted"
    MISSING = "missing"


class DocumentPresence(Struct, frozen=True, kw_only=True):
    """The current documents of one cluster."""

    # The existing documents, those that are being deleted included, by name.
    documents: Mapping[str, Resource]
    # Documents whose deletion was observed, in their last state.
    deleted_documents: Mapping[str, Resource] = field(default_factory=dict[str, Resource])
    # The recorded uid of each document; missing = its deletion was observed.
    uids: Mapping[str, str]
    # Whether every document was listed: a document that is not in `documents` does not exist.
    is_complete: bool
    # Whether a deleted document may remove limits of an entity.
    may_remove: Callable[[str, Entity], bool]

    def of(self, document: str) -> Presence:
        """Return the state of the document that owns a record."""
        obj, uid = self.documents.get(document), self.uids.get(document)
        if obj is not None and obj.uid == uid:
            return Presence.TERMINATING if obj.is_terminating else Presence.LIVE
        deleted_obj = self.deleted_documents.get(document)
        if uid is None or (deleted_obj is not None and deleted_obj.uid == uid):
            return Presence.DELETED
        return Presence.MISSING

    def owner(self, owner: Owner, subject: Entity, key: Key) -> Owner:
        """Return the owner of a pair as the planner has to judge it."""
        document = owner.document
        presence = self.of(document)
        if presence is Presence.LIVE or not document:
            return owner
        named = owner
        if presence is not Presence.TERMINATING and document in self.documents:
            named = replace(owner, document=document + DEPARTED)
        if presence is Presence.MISSING:
            obj = self.documents.get(document)
            if obj is None and not self.is_complete:
                return owner  # It may only be missing from the listing.
            if obj is not None and _declares(obj, subject, key):
                return owner  # Restored from a backup or replaced: it declares the same pair.
            return replace(named, deletion_policy=DeletionPolicy.RETAIN)
        if not self.may_remove(document.removesuffix(DEPARTED), subject):
            return replace(named, deletion_policy=DeletionPolicy.RETAIN)
        objects = self.documents if presence is Presence.TERMINATING else self.deleted_documents
        return _last_declared(named, objects.get(document))

    # ---- all records -------------------------------------------------------------------------

    def judged(self, owned: OwnershipRecords) -> OwnershipRecords:
        """Return the records with their owners as the planner has to judge them."""
        records = dict(owned.records)
        names: dict[str, Presence] = {}
        for subject, record in owned.records.items():
            sole = record.sole
            if sole is not None:
                presence = names.get(sole.document)
                if presence is None:
                    presence = names[sole.document] = self.of(sole.document)
                if presence is Presence.LIVE:
                    continue
            records[subject] = self._record(record, subject)
        return replace(
            owned,
            records=records,
            intents={
                pair: replace(intent, owner=self.owner(intent.owner, *pair))
                for pair, intent in owned.intents.items()
            },
            orphaned=frozenset(pair for pair in owned.orphaned if self._is_orphaned(pair, owned)),
        )

    def _record(self, record: OwnershipRecord, subject: Entity) -> OwnershipRecord:
        judged = record
        for key, owner in record.pairs():
            current = self.owner(owner, subject, key)
            if current != owner:
                judged = judged.with_pair(key, record.applied[COLUMN_OF[key]], current)
        return judged

    def _is_orphaned(self, pair: Pair, owned: OwnershipRecords) -> bool:
        """Whether a pair stays orphaned; a live owner ends this, for example after a release."""
        owner = owned.records.get(pair[0], NO_RECORD).owners[COLUMN_OF[pair[1]]]
        return owner is None or self.of(owner.document) is not Presence.LIVE


def _declares(obj: Resource, subject: Entity, key: Key) -> bool:
    limits = obj.spec.get("limits")
    return (
        isinstance(limits, Mapping)
        and RULES[key].field in limits
        and not obj.is_terminating
        and obj.entity == subject
    )


def _last_declared(owner: Owner, obj: Resource | None) -> Owner:
    """Return the owner with the deletionPolicy of the last spec if that keeps more than the recorded one.

    A change to Retain and a deletion right after it may be faster than any reconciliation. A change the other way
    removes nothing: tenant grants are judged by reconciliations only.
    """
    if obj is None:
        return owner
    deletion_policy = obj.spec.get("deletionPolicy")
    if deletion_policy == DeletionPolicy.RETAIN:
        return replace(owner, deletion_policy=DeletionPolicy.RETAIN)
    if deletion_policy is None and owner.deletion_policy is DeletionPolicy.DELETE:
        return replace(owner, deletion_policy=None)
    return owner
