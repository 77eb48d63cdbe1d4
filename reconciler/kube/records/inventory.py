"""The ownership records of one cluster in its ConfigMaps. Implements ``ports.Inventory``.

Every write is durable when it returns. A write changes the parts of the affected entities, based on the resource
versions that were read; statuses show records and are never read.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from reconciler.errors import InventoryError, InventoryLocked, KubernetesConflict, StalePlan
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Obj, Resource
from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import record_store
from reconciler.kube.records.config_maps import DecodedPart
from reconciler.kube.records.config_maps import read as read_config_maps
from reconciler.kube.records.document_presence import DEPARTED, DocumentPresence, Presence
from reconciler.kube.records.finalizers import WITHHELD_SECONDS
from reconciler.kube.records.record_index import RecordIndex, keys_by_document
from reconciler.kube.records.stored_records import (
    LoopMemory,
    StoredRecords,
    StoredRows,
    changed_entities,
    selector,
)
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.drift_tracker import CorrectionHistory
from reconciler.quota.entity import Entity
from reconciler.quota.grants import may_remove
from reconciler.quota.ownership import OwnershipRecords, RecordChange
from reconciler.quota.planner.desired_state import Claim
from reconciler.quota.planner.removal_guard import RemovalCount
from reconciler.quota.policy import DeletionPolicy

MINUTE: Final = 60.0
_UNREAD: Final = OwnershipRecords(cluster_id="", is_known=False)


class KubeInventory:
    """The ownership records of one cluster, with the removals of the last hour and the corrections of drift.

    Args:
        cache: The cached documents.
        name: Name of the QuotaCluster.
        namespace: Namespace of the ConfigMaps.
        new_salt: Returns a salt for new parts.

    Attributes:
        owned: The records of this reconciliation; of no cluster if they could not be read.
        removals: The removals of the last hour; written with the intents, before anything is sent to Kafka.
        corrections: Corrections of drift; written with :meth:`flush` at the latest.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cache: ResourceCache,
        *,
        name: str,
        namespace: str,
        new_salt: Callable[[], str] = record_store.new_salt,
    ) -> None:
        self._api, self._cache, self._name, self._namespace = api, cache, name, namespace
        self._new_salt = new_salt
        self.owned = _UNREAD
        self._stored = StoredRecords(owned=_UNREAD)
        self._objects: dict[str, Obj] = {}
        self._decoded: dict[str, DecodedPart] = {}
        self.removals = StoredRows[RemovalCount]()
        self.corrections = StoredRows[CorrectionHistory]()
        self._withheld: dict[str, float] = {}
        self._deleted: dict[str, Resource] = {}
        self._cluster: QuotaCluster | None = None
        self._is_complete = False
        self._index = RecordIndex()
        # The entities of a partial reconciliation; None = all.
        self._entities: frozenset[Entity] | None = None
        # The documents that this reconciliation judges.
        self._documents: Mapping[str, Resource] = {}

    async def refresh(
        self, cluster_id: str, cluster: QuotaCluster | None = None
    ) -> OwnershipRecords:
        """Read the records from Kubernetes.

        Args:
            cluster: The QuotaCluster with the tenant grants; ``None`` = unknown.

        Raises:
            InventoryError: A ConfigMap cannot be decoded.
            KubernetesError: The request failed.
        """
        # Reset first: if reading fails, old records must not overwrite newer ones.
        self.owned, self._cluster, self._is_complete = _UNREAD, cluster, False
        self._entities = None
        await self._read(cluster_id)
        self._judge_all()
        return self.owned

    async def pinned(self, answering: str) -> str:
        """Return the id of the Kafka cluster that has to answer; statuses, which others may write, do not decide it.

        Args:
            answering: The cluster that answers; it may if it has records of this QuotaCluster, or no other one has.

        Raises:
            KubernetesError: The records cannot be listed.
        """
        if answering and answering == self.recorded.cluster_id:
            return answering
        known_ids = await record_store.cluster_ids_of(self._api, self._namespace, self._name)
        return answering if not known_ids or answering in known_ids else min(known_ids)

    def note_listing(self) -> None:
        """Note that the documents were listed since the records were read or narrowed: missing ones do not exist."""
        self._is_complete = True
        if self._entities is None:
            self._judge_all()
        else:
            self._judge()

    def _judge_all(self) -> None:
        """Judge all records by the cached documents."""
        self._deleted.update(self._cache.take_departed(self._name))
        self.take_documents(self._cache.of(self._name))
        self._deleted.update(self._cache.deselected(self._name, self._stored.uids))
        self._judge()

    def _judge(self) -> None:
        """Judge the records of this reconciliation by its documents."""
        owned = self._stored.owned
        if self._entities is not None:
            part = owned.part(self._entities)
            counts = self._index.without(part, orphaned=len(owned.orphaned))
            owned = replace(part, elsewhere=counts)
        self.owned = self._presence.judged(owned)

    def narrow(
        self,
        entities: frozenset[Entity],
        documents: Mapping[str, Resource],
        *,
        deleted: Collection[str] = (),
    ) -> None:
        """Judge the records of some entities alone, for a partial reconciliation.

        The ConfigMaps are not read again because every write is bound to the version read last.

        Args:
            entities: The entities; the records of all others stay unchanged.
            documents: The documents that the reconciliation judges, and those that own something of the entities.
            deleted: Documents that count as deleted if the cache observed it; deletions of others wait.
        """
        self._entities, self._is_complete = entities, False
        self._deleted.update(self._cache.take_departed(self._name, deleted))
        self.take_documents(documents)
        self._update_index()
        self._judge()

    def entities_of(self, documents: Collection[str]) -> frozenset[Entity]:
        """Return the entities of which one of these documents owns something, by the records."""
        self._update_index()
        return self._index.of_documents(documents)

    def without_room(self, claims: Iterable[Claim]) -> frozenset[str]:
        """Return the documents whose new pairs have no room in the records; none while the records could not be read."""
        if not self.owned.cluster_id:
            return frozenset()
        self._update_index()
        return self._index.without_room(claims)

    def _update_index(self, among: Collection[Entity] | None = None) -> None:
        self._index.update(self._stored.owned, self._stored.salt, among=among)

    def owners_of(self, entities: Collection[Entity]) -> frozenset[str]:
        """Return the documents that own something of these entities, by the records."""
        records = self._stored.owned.records
        return frozenset().union(
            *(keys_by_document(records[entity]) for entity in entities if entity in records)
        )

    def is_missing(self, document: str) -> bool:
        """Whether a document that owns something neither exists nor was observed to be deleted."""
        return self._presence.of(document) is Presence.MISSING

    @property
    def recorded(self) -> OwnershipRecords:
        """All records, as they were read or written last."""
        return self._stored.owned

    @property
    def _presence(self) -> DocumentPresence:
        tenants = [grant.tenant for grant in (self._cluster.grants if self._cluster else ())]
        return DocumentPresence(
            documents=self._documents,
            deleted_documents=self._deleted,
            uids=self._stored.uids,
            is_complete=self._is_complete,
            may_remove=lambda document, subject: may_remove(document, subject, tenants),
        )

    def take_documents(self, documents: Mapping[str, Resource]) -> None:
        """Set the documents that the reconciliation judges: records of them get their uids."""
        self._documents = dict(documents)

    def has_seen_deletion(self) -> bool:
        """Whether a document that owns something was observed to be deleted, or no longer selects this cluster."""
        owners = (
            owner.document.removesuffix(DEPARTED)
            for record in self.owned.records.values()
            for _, owner in record.pairs()
        )
        return any(
            document in self._deleted or document not in self._stored.uids
            for document in owners
            if document and document not in self._documents
        )

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return the records of the current reconciliation.

        Raises:
            InventoryError: They belong to another cluster id.
        """
        if cluster_id != self.owned.cluster_id:
            raise InventoryError(
                f"the records at hand are those of cluster {self.owned.cluster_id!r}, not {cluster_id!r}"
            )
        return self.owned

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Write changes; they are durable when this returns.

        Raises:
            StalePlan: Another writer changed the records meanwhile, such as ``kquota override``: nothing may be sent.
            KubernetesError: The ConfigMaps could not be written; nothing may be sent to Kafka then.
        """
        _ = await self.load(cluster_id)
        self.owned = self.owned.with_changes(changes)
        await self._save()

    async def flush(self) -> None:
        """Write observed deletions, and limits that no document owns any more.

        Raises:
            KubernetesError: A ConfigMap could not be written.
        """
        if self.owned.cluster_id:
            await self._save()
            self._deleted.clear()

    async def record_deletions(self, documents: Mapping[str, Resource]) -> None:
        """Record that documents that are being deleted are deleted, before their finalizers are removed.

        If nothing is removed now (the QuotaCluster is suspended, another writer changed the limit), only this record
        allows a later removal: a document that disappears unobserved leaves its limits permanently.

        Raises:
            KubernetesError: A ConfigMap could not be written.
        """
        left_behind = [
            owner.document
            for _, owner in (self.owned.owners() if documents else ())
            if owner.document in documents and owner.deletion_policy is not DeletionPolicy.RETAIN
        ]
        if left_behind:
            self._deleted.update({document: documents[document] for document in left_behind})
            await self._save()

    async def orphan_everywhere(self, documents: Collection[str]) -> None:
        """Record as orphaned what documents own in any cluster.

        Raises:
            KubernetesError: The records cannot be listed.
        """
        _ = await record_store.orphan_everywhere(self._api, self._namespace, documents)

    # ---- ConfigMaps --------------------------------------------------------------------------

    async def _read(self, cluster_id: str) -> None:
        listing = await self._api.list(CONFIG_MAPS, self._namespace, labels=selector(cluster_id))
        self._objects = {str(obj["metadata"]["name"]): obj for obj in listing.items}
        stored = await asyncio.to_thread(read_config_maps, cluster_id, listing.items, self._decoded)
        self._stored = replace(stored, salt=stored.salt or self._new_salt())
        memory = self._stored.memory
        self.removals.rows, self.corrections.rows = (
            tuple(memory.removals),
            tuple(memory.corrections),
        )
        self._withheld = dict(memory.withheld)
        self._check_manager(memory.manager)

    # Which QuotaCluster manages a Kafka cluster: docs/adr/operator-records.md.
    def _check_manager(self, manager: str) -> None:
        """Check that no other existing QuotaCluster manages the Kafka cluster: two would overwrite each other's limits.

        Raises:
            InventoryLocked: One does: its name is in the records, and its spec does not name another cluster id.
        """
        cluster = None if manager == self._name else self._cache.clusters.get(manager)
        cluster_id = self._stored.owned.cluster_id
        if cluster is not None and cluster.spec.get("expectedClusterId", cluster_id) == cluster_id:
            raise InventoryLocked(
                f"Kafka cluster {cluster_id} is already managed by another QuotaCluster",
                hint="delete one of the two QuotaClusters",
            )

    def note_withheld(self, namespaces: Collection[str], *, now: float) -> Mapping[str, float]:
        """Note that the removal guard withholds removals of some namespaces now; return when it last did, for each.

        Args:
            namespaces: Theirs; a time is recorded again after a minute.
            now: Seconds since the epoch.
        """
        times = {name: at for name, at in self._withheld.items() if at > now - WITHHELD_SECONDS}
        for name in namespaces:
            if not now - MINUTE < times.get(name, 0.0) <= now:
                times[name] = now
        self._withheld = times
        return {**times, **dict.fromkeys(namespaces, now)}

    def _changed(self) -> StoredRecords:
        """Return the intended content of the ConfigMaps."""
        stored, entities = self._stored, self._entities
        owned = self.owned if entities is None else stored.owned.with_part(entities, self.owned)
        deleted_uids = {document: obj.uid for document, obj in self._deleted.items()}
        uids = dict(stored.uids)  # Thousands, copied at C speed.
        for document in [name for name, uid in deleted_uids.items() if uids.get(name) == uid]:
            del uids[document]
        subjects = changed_entities(stored, replace(stored, owned=owned), among=entities)
        owners = {owner.document for _, owner in self.owned.part(subjects).owners()}
        owners |= {intent.owner.document for intent in self.owned.intents.values()}
        # The records were judged: what is recorded for an existing document belongs to that document.
        uids |= {
            document: obj.uid
            for document, obj in self._documents.items()
            if (document in owners or document in uids) and deleted_uids.get(document) != obj.uid
        }
        return replace(
            stored,
            owned=owned,
            uids=uids,
            memory=LoopMemory(
                manager=self._name,
                removals=self.removals.rows,
                corrections=self.corrections.rows,
                withheld=self._withheld,
            ),
        )

    async def _save(self) -> None:
        try:
            self._stored = await record_store.save(
                self._api,
                self._namespace,
                self._objects,
                self._changed(),
                before=self._stored,
                among=self._entities,
            )
        except KubernetesConflict as error:
            # What was sent to Kafka has its intents: the next reconciliation reads the records and settles them.
            raise StalePlan("another writer changed the records meanwhile") from error
        if self._entities is not None:
            self._update_index(self._entities)
