"""Writes statuses, finalizers and events to the API server, with bounded concurrency; failures are returned by name.

Statuses are written with server-side apply under the operator's field manager, so no other writer's fields are touched;
finalizers are JSON patches that test what they change.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from reconciler.base.protocols import Clock
from reconciler.errors import Forbidden, KubernetesConflict, KubernetesError, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import (
    API_VERSION,
    GROUP,
    Obj,
    Resource,
    parsed,
)
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, EVENTS, QUOTA_CLUSTERS, ApiResource
from reconciler.kube.records import finalizers
from reconciler.kube.status.conditions import unchanged
from reconciler.kube.status.events import ResourceEvent
from reconciler.kube.status.selection_status import RELEASED, selection_status
from reconciler.kube.status.status_queue import IN_FLIGHT
from reconciler.kube.watch.projection import parts_of
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.manifest.schema_names import QUOTA

ANSWER: Final = "an answer"
"""Wakes loops after a response; not a document, so loops compare everything: responses may precede watch events."""

STATUS_TRIES: Final = 4
"""Maximum number of attempts to write a status if another writer changes the object meanwhile."""

_OUTDATED: Final = frozenset({409, 422})
"""Status codes of a patch whose test failed: another writer changed the object meanwhile."""

_LOG: Final = logging.getLogger("reconciler.kube")


class ResourceWriter:
    """Writes to one API server.

    Args:
        cache: Receives the API server's responses.
        clock: Time, for events.
        identity: The reporting instance of events.
        enqueue: Called with the clusters to reconcile and a key: a change that a response showed first is not reported
            again by its watch event.
        leads: Whether this process certainly leads now. A status that another writer changed is only then written
            again: the other writer may be the next leader.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        cache: ResourceCache,
        clock: Clock,
        identity: str,
        enqueue: Callable[[Iterable[str], str], None] = lambda _, __: None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._api, self._cache, self._clock, self._identity = api, cache, clock, identity
        self._enqueue, self._leads = enqueue, leads
        # One write at a time per document: all clusters that it selects write to the same status.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def present(self, cluster: str, document: str) -> Resource | None:
        """Return a document of a QuotaCluster as it is now; ``None`` if this operator does not serve it any more."""
        return self._cache.of(cluster).get(document) if self._cache.is_own(cluster) else None

    async def statuses(self, statuses: Iterable[tuple[Resource, Mapping[str, Any]]]) -> set[str]:
        """Write statuses of ClientQuotas; return the documents whose status could not be written."""

        async def write(obj: Resource, status: Mapping[str, Any]) -> None:
            if not obj.selected_cluster:
                await self._status(CLIENT_QUOTAS, obj, lambda _: status)
                return
            async with self._locks.setdefault(obj.document, asyncio.Lock()):
                if original := self._cache.original(obj.document):
                    part = partial(self._combined, obj, status)
                    await self._status(CLIENT_QUOTAS, original, part)

        return await self._all(
            (obj.document, partial(write, obj, status)) for obj, status in statuses
        )

    def _combined(self, obj: Resource, part: Mapping[str, Any], original: Resource) -> Obj:
        """Return the status of a document that selects clusters, with the part of one of them."""
        if original.uid != obj.uid:
            raise NotFound(f"{obj.document} is gone")
        return selection_status(
            original,
            clusters=self._cache.clusters_of(obj.document),
            cluster=obj.selected_cluster,
            part=part,
            now=self._clock.now(),
        )

    async def cluster_status(self, obj: Resource, status: Mapping[str, Any]) -> bool:
        """Write the status of a QuotaCluster (from a file: only into the cache); return whether it was written."""
        if not obj.is_stored:
            _ = self._cache.cluster_seen(replace(obj, status=status))
            return True
        write = partial(self._status, QUOTA_CLUSTERS, obj, lambda _: status)
        return not await self._all([(obj.name, write)])

    async def patches(self, patches: Iterable[tuple[Resource, list[dict[str, Any]]]]) -> set[str]:
        """Patch the finalizers of ClientQuotas; return the documents that could not be patched."""
        return await self._all(
            (obj.document, partial(self._patch, obj, ops)) for obj, ops in patches
        )

    async def release(self, documents: Iterable[Resource]) -> set[str]:
        """Remove the operator's finalizer from deleted documents; return those that could not be released.

        If a document selects several clusters, each of them notes the release in its part of the status; the last one
        removes the finalizer.
        """
        objects = list(documents)
        parts = [obj for obj in objects if obj.selected_cluster]
        failed = await self.statuses(
            (obj, {**obj.status, RELEASED: True}) for obj in parts if not obj.status.get(RELEASED)
        )
        originals = [self._cache.original(obj.document) for obj in parts]
        free = [
            original for original in originals if original is not None and self._is_free(original)
        ]
        own = [obj for obj in objects if not obj.selected_cluster]
        return failed | await self.patches(
            (obj, finalizers.removing(obj)) for obj in (*own, *free) if obj.has_finalizer
        )

    def _is_free(self, original: Resource) -> bool:
        """Whether every cluster that a document selects has released it."""
        parts = parts_of(original)
        names = self._cache.clusters_of(original.document)
        return all(parts.get(name, {}).get(RELEASED) for name in names)

    async def events(
        self, events: Iterable[tuple[Resource, ResourceEvent]], *, otherwise: Resource | None
    ) -> None:
        """Post events; if the namespace of an object is terminating, on ``otherwise`` instead. Logs errors, never raises."""
        _ = await self._all(
            (event.reason, partial(self._event, obj, event, otherwise)) for obj, event in events
        )

    async def _all(self, work: Iterable[tuple[str, Callable[[], Awaitable[None]]]]) -> set[str]:
        """Run all writes, at most ``IN_FLIGHT`` at a time; ``work`` is consumed lazily. Return the names of failed writes."""
        failed: set[str] = set()
        turns = iter(work)

        async def take_turns(first: tuple[str, Callable[[], Awaitable[None]]]) -> None:
            for name, write in chain([first], turns):
                try:
                    await write()
                except NotFound:
                    pass  # Deleted meanwhile; a DELETED event follows.
                except KubernetesError as error:
                    failed.add(name)
                    _LOG.warning("%s: %s", name, error)

        async with asyncio.TaskGroup() as group:
            for first in list(islice(turns, IN_FLIGHT)):
                _ = group.create_task(take_turns(first))
        return failed

    async def _status(
        self, resource: ApiResource, obj: Resource, status_of: Callable[[Resource], Obj]
    ) -> None:
        """Write a status to the object with this uid, even if other parts of it changed in the meantime.

        The API server checks the resource version of an apply but not its uid: without a version, the status of a
        deleted document would be written to a new one of the same name.

        Args:
            status_of: Returns the status of the newest version of the object.

        Raises:
            NotFound: The object was deleted.
            KubernetesError: It could not be written.
        """
        newest = obj
        for tries_left in reversed(range(STATUS_TRIES)):
            if newest.uid != obj.uid:
                raise NotFound(f"{obj.name} was deleted and created again")
            status = status_of(newest)
            if unchanged(newest.status, status):
                return
            try:
                self._take(resource, await self._applied(resource, newest, status))
            except KubernetesConflict:
                if not tries_left:
                    raise
                newest = await self._read(resource, obj)
                if not self._leads():
                    raise
            else:
                return

    async def _read(self, resource: ApiResource, obj: Resource) -> Resource:
        namespace = obj.namespace if resource is CLIENT_QUOTAS else None
        return parsed(await self._api.get(resource, namespace, obj.name))

    async def _applied(self, resource: ApiResource, obj: Resource, status: Obj) -> Resource:
        identity = {"name": obj.name, "uid": obj.uid, "resourceVersion": obj.version}
        answer = await self._api.apply_status(
            resource,
            obj.namespace if resource is CLIENT_QUOTAS else None,
            obj.name,
            {
                "apiVersion": resource.api_version,
                "kind": obj.kind,
                "metadata": {key: value for key, value in identity.items() if value},
                "status": status,
            },
        )
        return parsed(answer)

    async def _patch(self, obj: Resource, operations: list[dict[str, Any]]) -> None:
        try:
            answer = await self._api.patch_json(CLIENT_QUOTAS, obj.namespace, obj.name, operations)
        except KubernetesError as error:
            if error.status in _OUTDATED:
                self._take(CLIENT_QUOTAS, await self._read(CLIENT_QUOTAS, obj))
            raise
        self._take(CLIENT_QUOTAS, parsed(answer))

    def _take(self, resource: ApiResource, answer: Resource) -> None:
        """Put a response into the cache, unless the object was deleted meanwhile; report what another writer changed."""
        cache, is_cluster = self._cache, resource is QUOTA_CLUSTERS

        def cached() -> Resource | None:
            return (
                cache.clusters.get(answer.name) if is_cluster else cache.original(answer.document)
            )

        before = cached()
        if before is not None and before.uid == answer.uid:
            affected = cache.cluster_seen(answer) if is_cluster else cache.observe(answer)
            if (after := cached()) is not None and after.request != before.request:
                self._enqueue(affected, ANSWER)

    async def _event(self, obj: Resource, event: ResourceEvent, otherwise: Resource | None) -> None:
        if cluster := obj.selected_cluster:
            event = replace(event, note=f"{cluster}: {event.note}")
        try:
            await self._post(obj, event)
        except Forbidden:
            # A terminating namespace accepts no events.
            if otherwise is None:
                raise
            await self._post(otherwise, replace(event, note=f"{obj.document}: {event.note}"))

    async def _post(self, obj: Resource, event: ResourceEvent) -> None:
        """Create an Event (events.k8s.io); for a cluster-scoped object in the namespace ``default``."""
        namespace = obj.namespace if obj.kind == QUOTA else "default"
        regarding = {
            "apiVersion": API_VERSION,
            "kind": obj.kind,
            "name": obj.name,
            "namespace": obj.namespace if obj.kind == QUOTA else "",
            "uid": obj.uid,
            "resourceVersion": obj.version,
        }
        at = datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="microseconds")
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {
                "name": f"{obj.name[:230]}.{secrets.token_hex(8)}",
                "namespace": namespace,
            },
            "eventTime": at,
            "reportingController": GROUP,
            "reportingInstance": self._identity[:128],
            "action": "Reconcile",
            "reason": event.reason,
            "regarding": {field: value for field, value in regarding.items() if value},
            "note": event.note,
            "type": event.kind,
        }
        _ = await self._api.create(EVENTS, namespace, body)
