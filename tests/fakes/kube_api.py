"""A Kubernetes API in memory with the methods of `kube.api.client.KubernetesApi`: versions, conflicts, finalizers, status.

It has no schemas, defaults, field managers or admission. `before` is called with every request and may raise or
hang; `after` is called after the request was executed and may raise, so that its response is lost; `calls` lists
verb, plural, namespace and name of each request.
"""

import asyncio
import contextlib
import copy
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Self

from reconciler.errors import KubernetesConflict, KubernetesError, NotFound
from reconciler.kube.api.collection_pages import ListResult

Key = tuple[str, str, str]


class FakeKubeApi:
    """The API; several clients may share it. Each call yields to the event loop once, so that tasks interleave."""

    def __init__(self, *, namespace: str = "kafka") -> None:
        self.objects: dict[Key, dict[str, Any]] = {}
        self.calls: list[tuple[str, str, str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.denied: set[tuple[str, str]] = set()
        self.before: Callable[[str, str, str, str], Any] | None = None
        self.after: Callable[[str, str, str, str], Any] | None = None
        self.namespace = namespace
        # The memory of an API server that lags behind; None = the current objects.
        self.memory: dict[Key, dict[str, Any]] | None = None
        # Whether the definition of ClientQuota has selectable fields.
        self.has_selectable_fields = True
        self._versions = itertools.count(1)

    # ---- for tests --------------------------------------------------------------------------

    def put(self, resource: Any, body: dict[str, Any]) -> dict[str, Any]:
        """Store an object as another client."""
        obj = copy.deepcopy(body)
        metadata = obj.setdefault("metadata", {})
        metadata.setdefault("uid", f"uid-{next(self._versions)}")
        metadata["resourceVersion"] = str(next(self._versions))
        key = (resource.plural, metadata.get("namespace", ""), metadata["name"])
        self.objects[key] = obj
        return copy.deepcopy(obj)

    def find(self, resource: Any, namespace: str | None, name: str) -> dict[str, Any]:
        """Return the current object."""
        return self.objects[resource.plural, namespace or "", name]

    def next_version(self) -> str:
        """Return a new resource version."""
        return str(next(self._versions))

    # ---- KubernetesApi ----------------------------------------------------------------------

    async def get(self, resource: Any, namespace: str | None, name: str, **_: Any) -> Any:
        async with self._called("get", resource, namespace, name):
            return copy.deepcopy(self._found(resource, namespace, name))

    async def list(
        self,
        resource: Any,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        keep: Any = None,
        at_least: str = "",
        **_: Any,
    ) -> ListResult:
        async with self._called("list", resource, namespace, "memory" if at_least else ""):
            if fields and not self.has_selectable_fields:
                raise KubernetesError("field label not supported", status=400, reason="BadRequest")
            is_old = at_least == "0" and self.memory is not None
            objects = self.memory if is_old and self.memory is not None else self.objects
            items = [
                copy.deepcopy(obj) if keep is None else keep(json.dumps(obj).encode())
                for (plural, where, _), obj in sorted(objects.items())
                if plural == resource.plural
                and namespace in {None, where}
                and _selected(obj, labels)
                and selected_by_fields(obj, fields)
            ]
            return ListResult(items=tuple(items), resource_version=str(next(self._versions)))

    async def create(self, resource: Any, namespace: str | None, body: Any, **_: Any) -> Any:
        name = body["metadata"]["name"]
        async with self._called("create", resource, namespace, name):
            if (resource.plural, namespace or "", name) in self.objects:
                raise KubernetesConflict(f"{name} exists", status=409, reason="AlreadyExists")
            placed = {**body, "metadata": {**body["metadata"]}}
            if namespace:
                placed["metadata"]["namespace"] = namespace
            if resource.plural == "events":
                self.events.append(placed)
                return placed
            return self.put(resource, placed)

    async def replace(
        self, resource: Any, namespace: str | None, name: str, body: Any, **_: Any
    ) -> Any:
        async with self._called("update", resource, namespace, name):
            stored = self._found(resource, namespace, name)
            if stored["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
                raise KubernetesConflict(f"{name} was changed", status=409, reason="Conflict")
            return self._stored(resource, namespace, name, copy.deepcopy(body))

    async def apply_status(
        self, resource: Any, namespace: str | None, name: str, body: Any, **_: Any
    ) -> Any:
        async with self._called("apply", resource, namespace, name):
            stored = copy.deepcopy(self._found(resource, namespace, name))
            version = body["metadata"].get("resourceVersion")
            if version not in {None, stored["metadata"]["resourceVersion"]}:
                raise KubernetesConflict(f"{name} was changed", status=409, reason="Conflict")
            stored["status"] = copy.deepcopy(body["status"])
            return self._stored(resource, namespace, name, stored)

    async def patch_merge(self, resource: Any, namespace: str | None, name: str, body: Any) -> Any:
        async with self._called("merge", resource, namespace, name):
            stored = copy.deepcopy(self._found(resource, namespace, name))
            return self._stored(resource, namespace, name, _merged(stored, body))

    async def patch_json(
        self, resource: Any, namespace: str | None, name: str, operations: Any
    ) -> Any:
        async with self._called("patch", resource, namespace, name):
            stored = copy.deepcopy(self._found(resource, namespace, name))
            for operation in operations:
                _operate(stored, operation)
            return self._stored(resource, namespace, name, stored)

    async def delete(
        self, resource: Any, namespace: str | None, name: str, *, uid: str = ""
    ) -> None:
        async with self._called("delete", resource, namespace, name):
            stored = self._found(resource, namespace, name)
            if uid and stored["metadata"]["uid"] != uid:
                raise KubernetesConflict("another object", status=409, reason="Conflict")
            if stored["metadata"].get("finalizers"):
                stored["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
            else:
                del self.objects[resource.plural, namespace or "", name]

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- private ----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _called(
        self, verb: str, resource: Any, namespace: str | None, name: str
    ) -> AsyncIterator[None]:
        call = (verb, resource.plural, namespace or "", name)
        self.calls.append(call)
        await asyncio.sleep(0)
        if self.before is not None:
            waiting = self.before(*call)
            if waiting is not None:
                await waiting
        yield
        if self.after is not None:
            self.after(*call)

    def _found(self, resource: Any, namespace: str | None, name: str) -> dict[str, Any]:
        try:
            return self.objects[resource.plural, namespace or "", name]
        except KeyError:
            raise NotFound(f"no {resource.plural} {name}", status=404, reason="NotFound") from None

    def _stored(
        self, resource: Any, namespace: str | None, name: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        metadata = body["metadata"]
        metadata["resourceVersion"] = str(next(self._versions))
        metadata.setdefault("uid", self._found(resource, namespace, name)["metadata"]["uid"])
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            del self.objects[resource.plural, namespace or "", name]
        else:
            self.objects[resource.plural, namespace or "", name] = body
        return copy.deepcopy(body)


def _selected(obj: dict[str, Any], labels: str) -> bool:
    """Whether the labels match a selector of equality, existence and set terms."""
    values = obj["metadata"].get("labels") or {}
    for term in filter(None, re.split(r",(?![^(]*\))", labels)):
        if among := re.fullmatch(r"(\S+) in \((.*)\)", term):
            if values.get(among[1]) not in among[2].split(","):
                return False
            continue
        key, equals, value = term.partition("=")
        if key not in values or (equals and values[key] != value):
            return False
    return True


def selected_by_fields(obj: Mapping[str, Any], fields: str) -> bool:
    """Whether an object matches a field selector of equality terms; a field that is absent equals an empty text."""
    for term in filter(None, re.split(r"(?<!\\),", fields)):
        path, _, escaped = term.partition("=")
        value: Any = obj
        for name in path.split("."):
            value = value.get(name, {})
        text = str(value).lower() if value is True else value or ""
        if text != re.sub(r"\\(.)", r"\1", escaped):
            return False
    return True


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _operate(target: Any, operation: Any) -> None:
    *path, last = [
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    ]
    for part in path:
        target = target[int(part)] if isinstance(target, list) else target[part]
    where: Any = last
    if isinstance(target, list):
        where = len(target) if last == "-" else int(last)
    match operation["op"]:
        case "test":
            current = target.get(where) if isinstance(target, dict) else target[where]
            if current != operation["value"]:
                raise KubernetesError("the test did not hold", status=422, reason="Invalid")
        case "add" if isinstance(target, list):
            target.insert(where, operation["value"])
        case "add" | "replace":
            target[where] = operation["value"]
        case "remove":
            del target[where]
