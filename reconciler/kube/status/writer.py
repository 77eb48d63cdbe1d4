"""What the operator writes to the API server: statuses, finalizers, events. So many at a time, each failure by name.

Statuses are applied server-side under our own field manager, so no other writer's fields are touched;
finalizers are JSON patches that test what they change.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from typing import Any, Final
from weakref import WeakValueDictionary

from reconciler.base.protocols import Clock
from reconciler.errors import Forbidden, KubernetesConflict, KubernetesError, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import (
    FIELD_MANAGER,
    GROUP,
    Obj,
    document_of,
    has_finalizer,
    projected_cluster,
    status_of,
    uid_of,
)
from reconciler.kube.api.resource_paths import (
    CLIENT_QUOTAS,
    QUOTA_CLUSTERS,
    ApiResource,
)
from reconciler.kube.records import finalizers
from reconciler.kube.status.comparison import unchanged
from reconciler.kube.status.events import ResourceEvent
from reconciler.kube.status.selection_status import RELEASED, selection_status
from reconciler.kube.watch.projection import parts_of
from reconciler.kube.watch.resource_cache import ResourceCache

IN_FLIGHT: Final = 16
"""Requests at a time: measured on two cores, more of them only wait in the API server."""

ANSWER: Final = "an answer"
"""Why loops are woken: it names no document, so that they compare everything. Answers come before events, out of order."""

PART_TRIES: Final = 4
"""How often a part of a status is put beside the others, where another writer changed them meanwhile."""

_OUTDATED: Final = frozenset({409, 422})
"""What a patch is answered whose test does not hold: another writer changed the object meanwhile."""

_LOG: Final = logging.getLogger("reconciler.kube")


def _wake_nothing(_: Iterable[str], __: str) -> None:
    """There are no loops."""


class ResourceWriter:
    """Writes to one API server.

    Args:
        api: The way to it.
        cache: Receives what the API server made of a write.
        clock: Time, for events.
        identity: Who we are, for events.
        wake: Called with clusters that have to be looked at, and why: what an answer shows before its event came, the
            event does not report again.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        cache: ResourceCache,
        clock: Clock,
        identity: str,
        wake: Callable[[Iterable[str], str], None] = _wake_nothing,
    ) -> None:
        self._api, self._cache, self._clock, self._identity = api, cache, clock, identity
        self._wake = wake
        # One write at a time for one document: the clusters that it selects write to the same status.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def statuses(self, statuses: Iterable[tuple[Obj, Mapping[str, Any]]]) -> set[str]:
        """Write statuses of ClientQuotas; the documents whose status was not written, those included that are gone."""
        missing: set[str] = set()

        async def write(obj: Obj, status: Mapping[str, Any]) -> None:
            try:
                if projected_cluster(obj):
                    await self._part(obj, status)
                else:
                    await self._status(CLIENT_QUOTAS, obj, status)
            except NotFound:
                missing.add(document_of(obj))  # A DELETED event will say so, too.

        failed = await self._all(
            (document_of(obj), partial(write, obj, status)) for obj, status in statuses
        )
        return failed | missing

    async def cluster_status(self, obj: Obj, status: Mapping[str, Any]) -> bool:
        """Write the status of a QuotaCluster; whether it was written. That of one from a file is kept in the cache."""
        if "apiVersion" not in obj:
            _ = self._cache.cluster_seen({**obj, "status": status})
            return True
        name = obj["metadata"]["name"]
        return not await self._all([(name, lambda: self._status(QUOTA_CLUSTERS, obj, status))])

    async def patches(self, patches: Iterable[tuple[Obj, list[dict[str, Any]]]]) -> set[str]:
        """Patch ClientQuotas (their finalizers); the documents that could not be patched."""
        return await self._all(
            (document_of(obj), partial(self._patch, obj, ops)) for obj, ops in patches
        )

    async def release(self, documents: Iterable[Obj]) -> set[str]:
        """Take our finalizer off documents that are deleted; those that could not be released.

        Of a document that selects clusters, each of them notes in its part of the status that it released the document;
        the finalizer goes with the last of them.
        """
        objects = list(documents)
        parts = [obj for obj in objects if projected_cluster(obj)]
        failed = await self.statuses(
            (obj, {**status_of(obj), RELEASED: True})
            for obj in parts
            if not status_of(obj).get(RELEASED)
        )
        originals = [self._cache.original(document_of(obj)) for obj in parts]
        free = [
            original for original in originals if original is not None and self._is_free(original)
        ]
        own = [obj for obj in objects if not projected_cluster(obj)]
        return failed | await self.patches(
            (obj, finalizers.removing(obj)) for obj in (*own, *free) if has_finalizer(obj)
        )

    def _is_free(self, original: Obj) -> bool:
        """Whether every cluster that a document is for has released it."""
        parts = parts_of(original)
        names = self._cache.clusters_of(document_of(original))
        return all(parts.get(name, {}).get(RELEASED) for name in names)

    async def events(
        self, events: Iterable[tuple[Obj, ResourceEvent]], *, otherwise: Obj | None
    ) -> None:
        """Post events; where the namespace of an object is going, on ``otherwise`` instead. Never raises."""
        _ = await self._all(
            (event.reason, partial(self._event, obj, event, otherwise)) for obj, event in events
        )

    async def _all(self, work: Iterable[tuple[str, Callable[[], Awaitable[None]]]]) -> set[str]:
        """Do all of it, so many at a time; what is given is made only when its turn comes."""
        failed: set[str] = set()
        turns = iter(work)

        async def take_turns(first: tuple[str, Callable[[], Awaitable[None]]]) -> None:
            for name, write in chain([first], turns):
                try:
                    await write()
                except NotFound:
                    pass  # It is gone, and a DELETED event says so.
                except KubernetesError as error:
                    failed.add(name)
                    _LOG.warning("%s: %s", name, error)

        async with asyncio.TaskGroup() as group:
            for first in list(islice(turns, IN_FLIGHT)):
                _ = group.create_task(take_turns(first))
        return failed

    async def _status(self, resource: ApiResource, obj: Obj, status: Mapping[str, Any]) -> None:
        """Write a status to this very object, whatever else of it has changed meanwhile.

        The API server looks at the version of what is applied and not at its uid: without a version, the status of a
        document that was deleted would land on one that was made since by its name, records and all.
        """
        try:
            answer = await self._applied(resource, obj, status)
        except KubernetesConflict:
            metadata = obj["metadata"]
            fresh = await self._api.get(resource, metadata.get("namespace"), metadata["name"])
            if uid_of(fresh) != uid_of(obj):
                raise NotFound(f"{metadata['name']} is gone, and another one is there") from None
            answer = await self._applied(resource, fresh, status)
        self._take(resource, answer)

    async def _part(self, obj: Obj, part: Mapping[str, Any]) -> None:
        """Write what one cluster says of a document that selects several, beside what the others say.

        Raises:
            NotFound: The document is gone.
            KubernetesError: It could not be written.
        """
        document = document_of(obj)
        lock = self._locks.setdefault(document, asyncio.Lock())
        async with lock:
            original = self._cache.original(document)
            for tries_left in reversed(range(PART_TRIES)):
                if original is None or uid_of(original) != uid_of(obj):
                    raise NotFound(f"{document} is gone")
                status = selection_status(
                    original,
                    clusters=self._cache.clusters_of(document),
                    cluster=projected_cluster(obj),
                    part=part,
                    now=self._clock.now(),
                )
                if unchanged(status_of(original), status):
                    return
                try:
                    answer = await self._applied(CLIENT_QUOTAS, original, status)
                except KubernetesConflict:
                    if not tries_left:
                        raise
                    metadata = obj["metadata"]
                    original = await self._api.get(
                        CLIENT_QUOTAS, metadata["namespace"], metadata["name"]
                    )
                else:
                    self._take(CLIENT_QUOTAS, answer)
                    return

    async def _applied(self, resource: ApiResource, obj: Obj, status: Mapping[str, Any]) -> Obj:
        metadata = obj["metadata"]
        owner_fields = ("name", "uid", "resourceVersion")
        return await self._api.apply_status(
            resource,
            metadata.get("namespace"),
            metadata["name"],
            {
                "apiVersion": resource.api_version,
                "kind": obj["kind"],
                "metadata": {key: metadata[key] for key in owner_fields if metadata.get(key)},
                "status": status,
            },
            field_manager=FIELD_MANAGER,
        )

    async def _patch(self, obj: Obj, operations: list[dict[str, Any]]) -> None:
        place = CLIENT_QUOTAS, obj["metadata"]["namespace"], obj["metadata"]["name"]
        try:
            answer = await self._api.patch_json(*place, operations)
        except KubernetesError as error:
            if error.status in _OUTDATED:
                self._take(CLIENT_QUOTAS, await self._api.get(*place))
            raise
        self._take(CLIENT_QUOTAS, answer)

    def _take(self, resource: ApiResource, answer: Obj) -> None:
        """What the API server made of it, unless it is an object that is gone by now."""
        if resource is QUOTA_CLUSTERS:
            if answer["metadata"]["name"] in self._cache.clusters:
                self._wake(self._cache.cluster_seen(answer), ANSWER)
        elif self._cache.knows(answer):
            self._wake(self._cache.observe_answer(answer), ANSWER)

    async def _event(self, obj: Obj, event: ResourceEvent, otherwise: Obj | None) -> None:
        if cluster := projected_cluster(obj):
            event = replace(event, note=f"{cluster}: {event.note}")
        try:
            await self._post(obj, event)
        except Forbidden:
            # A namespace that is going takes no events any more.
            if otherwise is None:
                raise
            await self._post(otherwise, replace(event, note=f"{document_of(obj)}: {event.note}"))

    async def _post(self, obj: Obj, event: ResourceEvent) -> None:
        _ = await self._api.create_event(
            dict(obj),
            kind=event.kind,
            reason=event.reason,
            action="Reconcile",
            note=event.note,
            at=datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="microseconds"),
            controller=GROUP,
            instance=self._identity,
        )
