"""The records of one cluster: statuses of live documents, and ConfigMaps for the rest. Implements ``ports.Inventory``.

Nothing is remembered from pass to pass that does not stand in Kubernetes: each pass reads statuses from the cache and
the ConfigMaps from the API server. What a pass learns is kept in memory until :meth:`KubeInventory.flush`, after the
statuses were written; intents are written at once, so that a crash in between loses no ownership.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from reconciler.errors import Conflict, InventoryError
from reconciler.kube import shards, shelf
from reconciler.kube.api import Api
from reconciler.kube.cache import Cache
from reconciler.kube.finalizers import orphaned
from reconciler.kube.overtaking import beside, with_news
from reconciler.kube.records import (
    entries_of,
    live_documents,
    owned_from,
    release,
    rest_of,
)
from reconciler.kube.resources import Obj, document_of, name_of
from reconciler.kube.served import CONFIG_MAPS
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.owned import (
    Intend,
    Intent,
    OverrideEnded,
    OverrideSet,
    Owned,
    Pair,
    RecordChange,
)
from reconciler.quota.policy import DeletionPolicy

_LOG: Final = logging.getLogger("reconciler.kube")

TRIES: Final = 3
"""How often a write begins again after somebody else wrote meanwhile: ``kquota override`` does."""


_UNREAD: Final = Owned(cluster_id="", known=False)


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
    """

    def __init__(self, api: Api, cache: Cache, *, name: str, namespace: str) -> None:
        self._api, self._cache, self._name, self._namespace = api, cache, name, namespace
        self.owned = _UNREAD
        self.unreadable: Mapping[str, InventoryError] = {}
        self._kept = shards.Kept(rest=self.owned)
        self._stored: dict[str, Obj] = {}
        self._departed: dict[str, Obj] = {}
        # Of this pass: intents as they were written down, overrides as they were changed.
        self._intents: dict[Pair, Intent] = {}
        self._overrides: list[RecordChange] = []

    async def refresh(self, cluster_id: str) -> Owned:
        """The records as they stand in Kubernetes now.

        Raises:
            InventoryError: A ConfigMap cannot be read.
            KubernetesError: The API server cannot be asked.
        """
        # Or what an earlier pass knew would be written over what has come since.
        self.owned, self.unreadable = _UNREAD, {}
        await self._read(cluster_id)
        self._intents, self._overrides = {}, []
        return self.seen_again()

    def seen_again(self) -> Owned:
        """The same, after the cache has changed (a complete listing)."""
        self._departed.update(self._cache.take_departed(self._name))
        lost: dict[str, InventoryError] = {}
        rest = release(self._kept.rest, self._departed.values(), unreadable=lost)
        for document, error in lost.items():
            _LOG.warning("%s is gone and left limits that nobody owns now: %s", document, error)
            del self._departed[document]
        unreadable: dict[str, InventoryError] = {}
        documents = self._cache.of(self._name).values()
        self.owned = owned_from(rest.cluster_id, documents, rest, unreadable=unreadable)
        self.unreadable = unreadable
        return self.owned

    async def load(self, cluster_id: str) -> Owned:
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
        self._overrides += [one for one in changes if isinstance(one, OverrideSet | OverrideEnded)]
        intents = [one for one in changes if isinstance(one, Intend)]
        self._intents.update({(one.entity, one.key): one.intent for one in intents})
        if intents or self._overrides:
            live = live_documents(self._cache.of(self._name).values())
            # No status was written yet, so nothing leaves a ConfigMap for one.
            await self._save(live, self._intents, shrinks=False)

    async def flush(self, *, live: Collection[str], unsaved: Collection[str]) -> None:
        """Write what no status holds, and forget intents whose result a status holds.

        Args:
            live: Documents whose status goes on holding their records; all others' records move to ConfigMaps.
            unsaved: Documents whose status was not written: what it does not hold stays, or becomes, an intent.

        Raises:
            KubernetesError: A ConfigMap could not be written.
        """
        if not self.owned.cluster_id:
            return
        holding = live_documents(
            obj
            for document, obj in self._cache.of(self._name).items()
            if document in live and document not in self.unreadable
        )
        kept = self._owed(unsaved)
        kept |= {
            pair: intent
            for pair, intent in self._intents.items()
            if intent.owner.document in unsaved
        }
        await self._save(holding, kept, shrinks=True)
        self._departed.clear()

    def _owed(self, unsaved: Collection[str]) -> dict[Pair, Intent]:
        """Records that a status should hold by now and does not, as intents: what is live as intended was applied.

        Such as those of what was adopted, for which nothing had to be sent.
        """
        present = self._cache.of(self._name)
        held: dict[str, dict[Key, tuple[float | None, DeletionPolicy | None]]] = {
            document: {
                one.key: (one.applied, one.owner.deletion_policy)
                for one in entries_of(self.owned.cluster_id, present[document])
            }
            for document in present.keys() & set(unsaved) - self.unreadable.keys()
        }
        made: dict[Pair, Intent] = {}
        for subject, record in self.owned.records.items() if held else ():
            for key, owner in record.pairs():
                applied = record.applied[COLUMN_OF[key]]
                known = held.get(owner.document)
                if known is not None and known.get(key) != (applied, owner.deletion_policy):
                    made[subject, key] = Intent(value=applied, owner=owner)
        return made

    async def leave_behind(self, cluster_id: str, objects: Collection[Obj]) -> None:
        """Keep, as orphaned, what documents that go applied to another cluster than that of this pass.

        Raises:
            InventoryError: A ConfigMap of that cluster cannot be read.
            KubernetesError: The records could not be read or written.
        """
        if not objects:
            return
        other = KubeInventory(self._api, Cache(), name=self._name, namespace=self._namespace)
        for obj in objects:
            _ = other._cache.seen(obj)
            _ = other._cache.gone(obj)
        owned = await other.refresh(cluster_id)
        names = {document_of(obj) for obj in objects}
        await other.write(cluster_id, orphaned(names, owned))
        await other.flush(live=(), unsaved=())

    # ---- removals of the window (loop.RemovalStore) ------------------------------------------

    async def load_removals(self) -> Mapping[float, int]:
        """When -> how many, as the ledger says."""
        return self._kept.removals

    async def save_removals(self, counts: Mapping[float, int]) -> None:
        """Put these in place of the old ones; written with the intents, before anything is sent."""
        self._kept = replace(self._kept, removals=dict(counts))

    # ---- ConfigMaps --------------------------------------------------------------------------

    async def _read(self, cluster_id: str) -> None:
        found = await self._api.list(
            CONFIG_MAPS, self._namespace, labels=shards.selector(cluster_id)
        )
        self._stored = {name_of(one): one for one in found.items}
        self._kept = shards.read(cluster_id, found.items)

    async def _save(
        self, live: Mapping[str, Entity], intents: Mapping[Pair, Intent], *, shrinks: bool
    ) -> None:
        for left in reversed(range(TRIES)):
            try:
                await self._written(live, intents, shrinks=shrinks)
            except Conflict:
                if not left:
                    raise
                await self._reread()
            else:
                return

    async def _written(
        self, live: Mapping[str, Entity], intents: Mapping[Pair, Intent], *, shrinks: bool
    ) -> None:
        rest = rest_of(self.owned, live)
        rest = replace(rest, intents={**intents, **rest.intents})
        if not shrinks:
            rest = beside(self._kept.rest, rest)
        kept, wanted = shards.config_maps(replace(self._kept, rest=rest), namespace=self._namespace)
        await shelf.put(self._api, self._namespace, self._stored, wanted)
        self._kept = kept

    async def _reread(self) -> None:
        """Somebody else wrote: what they left behind and their overrides count, and what is of this pass on top of it."""
        mine = self._kept
        await self._read(mine.rest.cluster_id)
        theirs = self._kept
        overrides = theirs.rest.with_changes(self._overrides).overrides
        owned = with_news(self.owned, mine.rest, theirs.rest)
        self.owned = replace(owned, overrides=overrides)
        self._kept = replace(theirs, removals=mine.removals)


class KubeRemovals:
    """The removals of the guard's window, in the ledger of an inventory. Implements ``loop.RemovalStore``."""

    def __init__(self, inventory: KubeInventory) -> None:
        self._inventory = inventory

    async def load(self) -> Mapping[float, int]:
        """When -> how many."""
        return await self._inventory.load_removals()

    async def save(self, counts: Mapping[float, int]) -> None:
        """Put these in place of the old ones."""
        await self._inventory.save_removals(counts)
