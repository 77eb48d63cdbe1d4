"""The records of one cluster: statuses of live documents, and ConfigMaps for the rest. Implements ``ports.Inventory``.

Nothing is remembered from pass to pass that does not stand in Kubernetes: each pass reads statuses from the cache and
the ConfigMaps from the API server. What a pass learns is kept in memory until :meth:`KubeInventory.flush`, after the
statuses were written; intents are written at once, so that a crash in between loses no ownership.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from reconciler.errors import InventoryError, KubernetesConflict
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Obj, document_of, name_of
from reconciler.kube.api.resource_paths import CONFIG_MAPS
from reconciler.kube.records import config_maps, record_store
from reconciler.kube.records.confirmation import StatusConfirmation, confirmation_of
from reconciler.kube.records.finalizers import orphaned
from reconciler.kube.records.handover import (
    merge_concurrent_changes,
    merge_previous_records,
    pending_intents,
    restored,
)
from reconciler.kube.records.live_records import (
    live_documents,
    records_in_statuses,
    records_outside_statuses,
)
from reconciler.kube.records.status_records import owned_from, release
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import (
    Intent,
    IntentStarted,
    OverrideEnded,
    OverrideSet,
    OwnershipRecords,
    Pair,
    RecordChange,
)
from reconciler.quota.planner.removal_budgets import RemovalCount

_LOG: Final = logging.getLogger("reconciler.kube")

TRIES: Final = 3
"""How often a write begins again after another writer wrote meanwhile: ``kquota override`` does."""


_UNREAD: Final = OwnershipRecords(cluster_id="", is_known=False)


class KubeInventory:
    """See the module. Also keeps the removals of the guard's window (``loop.RemovalStore``).

    Args:
        api: The way to the API server.
        cache: What was seen of the documents.
        name: Of the QuotaCluster.
        namespace: Where the ConfigMaps are.

    Attributes:
        owned: The records as far as this pass knows them; of no cluster where they could not be read.
        unreadable: Documents whose status cannot be read, and why. What they own is in no record, and is to be left alone.
        holding_up: Those of them that have a grant: their entities are left alone even if other documents ask for them.
    """

    def __init__(
        self, api: KubernetesApi, cache: ResourceCache, *, name: str, namespace: str
    ) -> None:
        self._api, self._cache, self._name, self._namespace = api, cache, name, namespace
        self.owned = _UNREAD
        self._loaded = _UNREAD
        self.unreadable: Mapping[str, InventoryError] = {}
        self.holding_up: frozenset[str] = frozenset()
        self._stored_records = config_maps.StoredRecords(remainder=self.owned)
        self._stored: dict[str, Obj] = {}
        self._departed_documents: dict[str, Obj] = {}
        self._cluster: QuotaCluster | None = None
        # Of this pass: intents as they were written down, overrides as they were changed.
        self._intents: dict[Pair, Intent] = {}
        self._overrides: list[RecordChange] = []

    async def refresh(
        self, cluster_id: str, cluster: QuotaCluster | None = None
    ) -> OwnershipRecords:
        """The records as they stand in Kubernetes now.

        Args:
            cluster_id: Whose records.
            cluster: The QuotaCluster, which says who has a grant; ``None`` = it is not known.

        Raises:
            InventoryError: A ConfigMap cannot be read.
            KubernetesError: The API server cannot be asked.
        """
        # Or what an earlier pass knew would be written over what has come since.
        self.owned, self.unreadable, self._cluster = _UNREAD, {}, cluster
        self.holding_up = frozenset()
        await self._read(cluster_id)
        self._intents, self._overrides = {}, []
        return self.reload_from_cache()

    def reload_from_cache(self) -> OwnershipRecords:
        """The same, after the cache has changed (a complete listing)."""
        self._departed_documents.update(self._cache.take_departed(self._name))
        failures: dict[str, InventoryError] = {}
        confirmation = self._confirmation()
        remainder = release(
            self._stored_records.remainder,
            self._departed_documents.values(),
            unreadable=failures,
            confirmation=confirmation,
        )
        for document, error in failures.items():
            _LOG.warning(
                "%s is gone and left limits that no document owns now: %s", document, error
            )
            del self._departed_documents[document]
        unreadable: dict[str, InventoryError] = {}
        documents = self._cache.of(self._name)
        self._loaded = owned_from(
            remainder.cluster_id,
            documents.values(),
            remainder,
            unreadable=unreadable,
            confirmation=confirmation,
        )
        self.owned = restored(self._loaded, documents.keys() - unreadable.keys())
        self.unreadable = unreadable
        # What a document without a grant says of its records holds up none but itself.
        self.holding_up = frozenset(
            document
            for document in unreadable
            if self._cluster is None or confirmation.has_grant(documents[document])
        )
        return self.owned

    def _confirmation(self) -> StatusConfirmation:
        return confirmation_of(self._stored_records.holdings, self._cluster)

    @property
    def has_ledger(self) -> bool:
        """Whether there are ConfigMaps of this cluster id; without any nothing was applied to it, whatever statuses say."""
        return self._stored_records.remainder.is_known

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """The records of the pass under way.

        Raises:
            InventoryError: They are another cluster's: the pass was begun for that one.
        """
        if cluster_id != self.owned.cluster_id:
            raise InventoryError(
                f"the records at hand are those of cluster {self.owned.cluster_id!r}, not {cluster_id!r}"
            )
        return self.owned

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Take note; intents and overrides durably before returning, the rest with :meth:`flush`.

        Raises:
            KubernetesError: The ledger could not be written; nothing may be sent then.
        """
        _ = await self.load(cluster_id)
        self.owned = self.owned.with_changes(changes)
        self._overrides += [
            change for change in changes if isinstance(change, OverrideSet | OverrideEnded)
        ]
        intents = [change for change in changes if isinstance(change, IntentStarted)]
        self._intents.update({(started.entity, started.key): started.intent for started in intents})
        if intents or self._overrides:
            # No status was written yet, so nothing leaves a ConfigMap for one.
            live = self._holding(self._cache.of(self._name))
            self._list_holdings(live, complete=False)
            await self._save(live, self._intents, shrinks=False)

    async def flush(self, *, live: Collection[str], complete: bool = False) -> None:
        """Write what no status holds, and what statuses hold; forget intents whose result a status holds.

        Args:
            live: Documents whose status goes on holding their records; all others' records move to ConfigMaps.
            complete: Whether every document was listed in this pass; else what others hold stays in the ledger.

        Raises:
            KubernetesError: A ConfigMap could not be written.
        """
        if not self.owned.cluster_id:
            return
        holding = self._holding(live)
        self._list_holdings(holding, complete=complete)
        await self._save(holding, {}, shrinks=True)
        self._departed_documents.clear()

    def _holding(self, documents: Collection[str]) -> Mapping[str, Entity]:
        """Those of the documents whose statuses hold records."""
        return live_documents(
            obj
            for document, obj in self._cache.of(self._name).items()
            if document in documents and document not in self.unreadable
        )

    def _list_holdings(self, holding: Mapping[str, Entity], *, complete: bool) -> None:
        """List for the ledger what these documents hold; what those hold that were not seen stays in it."""
        before = self._stored_records.holdings
        if self._cluster is None or (before is None and not complete):
            return
        visible = {*self._cache.of(self._name), *self._departed_documents} - self.unreadable.keys()
        holdings = records_in_statuses(
            self.owned,
            holding,
            before=before,
            absent=lambda document: (
                not (document in visible or (complete and not self._cache.has(document)))
            ),
        )
        self._stored_records = replace(self._stored_records, holdings=holdings)

    async def orphan_records(self, cluster_id: str, objects: Collection[Obj]) -> None:
        """Keep, as orphaned, what documents that go applied to another cluster than that of this pass.

        Raises:
            InventoryError: A ConfigMap of that cluster cannot be read.
            KubernetesError: The records could not be read or written.
        """
        if not objects:
            return
        successor = KubeInventory(
            self._api, ResourceCache(), name=self._name, namespace=self._namespace
        )
        for obj in objects:
            _ = successor._cache.observe(obj)
            _ = successor._cache.forget(obj)
        owned = await successor.refresh(cluster_id)
        if not successor.has_ledger:
            return
        names = {document_of(obj) for obj in objects}
        left_behind = orphaned(names, owned)
        if left_behind:
            await successor.write(cluster_id, left_behind)
            await successor.flush(live=())

    # ---- removals of the window (loop.RemovalStore) ------------------------------------------

    async def load_removals(self) -> Sequence[RemovalCount]:
        """All counts, as the ledger says."""
        return self._stored_records.removals

    async def save_removals(self, counts: Sequence[RemovalCount]) -> None:
        """Put these in place of the old ones; written with the intents, before anything is sent."""
        self._stored_records = replace(self._stored_records, removals=tuple(counts))

    # ---- ConfigMaps --------------------------------------------------------------------------

    async def _read(self, cluster_id: str) -> None:
        listing = await self._api.list(
            CONFIG_MAPS, self._namespace, labels=config_maps.selector(cluster_id)
        )
        self._stored = {name_of(obj): obj for obj in listing.items}
        self._stored_records = await asyncio.to_thread(config_maps.read, cluster_id, listing.items)

    async def _save(
        self, live: Mapping[str, Entity], intents: Mapping[Pair, Intent], *, shrinks: bool
    ) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                await self._write_config_maps(live, intents, shrinks=shrinks)
            except KubernetesConflict:
                if not tries_left:
                    raise
                await self._reload_after_conflict()
            else:
                return

    async def _write_config_maps(
        self, live: Mapping[str, Entity], intents: Mapping[Pair, Intent], *, shrinks: bool
    ) -> None:
        remainder = records_outside_statuses(self.owned, live)
        carried = pending_intents(
            self._loaded,
            self.owned,
            self._cache.of(self._name),
            live,
            is_listed=self._stored_records.holdings is not None,
        )
        remainder = replace(remainder, intents={**intents, **remainder.intents, **carried})
        if not shrinks:
            remainder = merge_previous_records(self._stored_records.remainder, remainder)
        # In a thread: meanwhile events, probes and other clusters are served.
        stored, wanted_maps = await asyncio.to_thread(
            config_maps.config_maps,
            replace(self._stored_records, remainder=remainder),
            namespace=self._namespace,
        )
        await record_store.put(self._api, self._namespace, self._stored, wanted_maps)
        self._stored_records = stored

    async def _reload_after_conflict(self) -> None:
        """Another writer wrote: what it left behind and its overrides count, and what is of this pass on top of it."""
        own_records = self._stored_records
        await self._read(own_records.remainder.cluster_id)
        stored_records = self._stored_records
        overrides = stored_records.remainder.with_changes(self._overrides).overrides
        owned = merge_concurrent_changes(
            self.owned, own_records.remainder, stored_records.remainder
        )
        self.owned = replace(owned, overrides=overrides)
        self._stored_records = replace(
            stored_records, removals=own_records.removals, holdings=own_records.holdings
        )


class KubeRemovals:
    """The removals of the guard's window, in the ledger of an inventory. Implements ``loop.RemovalStore``."""

    def __init__(self, inventory: KubeInventory) -> None:
        self._inventory = inventory

    async def load(self) -> Sequence[RemovalCount]:
        """All counts."""
        return await self._inventory.load_removals()

    async def save(self, counts: Sequence[RemovalCount]) -> None:
        """Put these in place of the old ones."""
        await self._inventory.save_removals(counts)
