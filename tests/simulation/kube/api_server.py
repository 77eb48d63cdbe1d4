"""A Kubernetes API server in memory: HTTP requests and responses, resource versions, finalizers, statuses, watch history.

All kinds share one revision, as in etcd. A write without a change makes no revision; conflicts and failed tests of patches
have the responses of a real server. No schemas, admission or field managers: statuses have one writer.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from reconciler.base.http.messages import HttpRequest, HttpResponse
from tests.fakes.kube_api import selected_by_fields

Obj: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[str, str, str]
"""Plural, namespace ("" = none) and name."""

GENERATIONS = frozenset({"clientquotas", "quotaclusters"})
"""Kinds with a status subresource, whose ``metadata.generation`` counts changes of the spec."""


class Refused(Exception):
    """An error response."""

    def __init__(self, status: int, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True, slots=True)
class ApiEvent:
    """A watch event, with the object before; ``None`` = created."""

    revision: int
    kind: str
    place: Place
    obj: Obj
    before: Obj | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiWrite:
    """A write, as the laws check it.

    Attributes:
        at: Seconds since the epoch.
        writer: Name of the process or the user.
        verb: create, update, patch, merge, apply, delete.
        place: Place of the object.
        before: The object before; ``None`` = created.
        after: The object after; ``None`` = deleted.
        is_bound: Whether the request is conditional on a resource version or tests the replaced value.
    """

    at: float
    writer: str
    verb: str
    place: Place
    before: Obj | None
    after: Obj | None
    is_bound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """The parts of a URL path."""

    plural: str
    namespace: str | None
    name: str
    subresource: str


@lru_cache(maxsize=1_000)
def _target(url: str) -> tuple[_Address, Mapping[str, str]]:
    """Return the parts of the path and the query of a URL."""
    parts = urlsplit(url)
    return _address(parts.path), dict(parse_qsl(parts.query))


def _address(path: str) -> _Address:
    parts = [unquote(part) for part in path.strip("/").split("/")]
    steps = parts[2:] if parts[0] == "api" else parts[3:]
    namespace: str | None = None
    if len(steps) > 2 and steps[0] == "namespaces":
        namespace, steps = steps[1], steps[2:]
    plural, name, subresource = (*steps, "", "")[:3]
    return _Address(plural=plural, namespace=namespace, name=name, subresource=subresource)


class ApiServer:
    """The API server; see the module.

    Args:
        now: Returns the time in seconds since the epoch.

    Attributes:
        objects: Stored objects; they are replaced, never modified.
        history: Events that watches can still report, oldest first.
        compacted: Watches from before this revision get 410.
        cached_at: Revision at which the memory of the API server stands still; ``None`` = it is current.
        on_write: Called with every write.
        on_repetition: Called with writer, verb and place of a write that changes nothing.
        on_post: Called with writer and plural of posted objects that are not stored (Events).
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.revision = 1_000
        self.compacted = 1_000
        self.cached_at: int | None = None
        self.objects: dict[Place, Obj] = {}
        self.history: list[ApiEvent] = []
        self.on_write: Callable[[ApiWrite], None] = lambda _: None
        self.on_post: Callable[[str, str], None] = lambda *_: None
        self.on_repetition: Callable[[str, str, Place], None] = lambda *_: None
        self.on_event: Callable[[str], None] = lambda _: None
        self._texts: dict[int, tuple[Obj, str]] = {}
        self._pages: dict[str, tuple[list[Obj], int]] = {}
        self._uids = 0

    # -- for users and tests --------------------------------------------------------------------------

    def find(self, plural: str, namespace: str, name: str) -> Obj | None:
        """Return the current object; ``None`` if there is none."""
        return self.objects.get((plural, namespace, name))

    def of(self, plural: str) -> Iterator[Obj]:
        """Return all objects of a kind, sorted by namespace and name."""
        return (self.objects[place] for place in sorted(self.objects) if place[0] == plural)

    def put(self, writer: str, plural: str, obj: Obj) -> Obj:
        """Create an object, or replace its content and merge its metadata; the status is kept."""
        metadata = obj["metadata"]
        place = plural, metadata.get("namespace", ""), metadata["name"]
        before = self.objects.get(place)
        if before is None:
            return self._create(writer, place, obj)
        merged_metadata = {**before["metadata"], **metadata}
        kept_status = {"status": before["status"]} if "status" in before else {}
        return self._store(
            writer, "put", place, {**obj, "metadata": merged_metadata, **kept_status}
        )

    def replace_status(self, writer: str, place: Place, status: Obj) -> None:
        """Replace the status of an object."""
        before = self._existing(place)
        _ = self._store(writer, "put", place, {**before, "status": status}, is_bound=True)

    def remove(self, writer: str, place: Place, *, uid: str = "") -> None:
        """Delete an object, or mark it for deletion if it has finalizers.

        Raises:
            Refused: It does not exist, or has another uid.
        """
        before = self._existing(place)
        if uid and before["metadata"]["uid"] != uid:
            raise Refused(409, "Conflict", "the uid is another one")
        if before["metadata"].get("finalizers"):
            if "deletionTimestamp" not in before["metadata"]:
                stamp = {"deletionTimestamp": self._instant(), "deletionGracePeriodSeconds": 0}
                generation = {"generation": before["metadata"].get("generation", 0) + 1}
                metadata = {**before["metadata"], **stamp, **generation}
                _ = self._store(writer, "delete", place, {**before, "metadata": metadata})
            return
        self._drop(writer, "delete", place, before, is_bound=True)

    def since(self, revision: int, plural: str) -> list[ApiEvent] | None:
        """Return the events of a kind after a revision; ``None`` = compacted."""
        if revision < self.compacted:
            return None
        return [
            event for event in reversed_until(self.history, revision) if event.place[0] == plural
        ][::-1]

    def compact(self) -> None:
        """Drop the history and the pages of lists."""
        self.history.clear()
        self._pages.clear()
        self.compacted = self.revision

    # -- requests ---------------------------------------------------------------------------------------

    def answer(self, request: HttpRequest, writer: str) -> HttpResponse:
        """Execute a request; return the response."""
        try:
            text = self._carry_out(request, writer)
        except Refused as refusal:
            body = {
                "kind": "Status",
                "status": "Failure",
                "reason": refusal.reason,
                "message": str(refusal),
                "code": refusal.status,
            }
            return HttpResponse(status=refusal.status, body=json.dumps(body).encode())
        return HttpResponse(status=200, body=text.encode())

    def _carry_out(self, request: HttpRequest, writer: str) -> str:
        address, query = _target(request.url)
        place = address.plural, address.namespace or "", address.name
        body = json.loads(request.body) if request.body else None
        if request.method == "GET":
            return self._text(self._existing(place)) if address.name else self._page(address, query)
        if request.method == "POST":
            return self._post(writer, address, body)
        if request.method == "DELETE":
            self.remove(writer, place, uid=(body or {}).get("preconditions", {}).get("uid", ""))
            return '{"kind":"Status","status":"Success"}'
        kind = request.headers["Content-Type"]
        if request.method == "PUT":
            written = self._replace(writer, place, body)
        elif "json-patch" in kind:
            written = self._patch(writer, place, body)
        elif "merge-patch" in kind:
            merged = _merged(self._existing(place), body)
            written = self._store(writer, "merge", place, merged)
        else:
            written = self._apply_status(writer, place, body)
        return self._text(written)

    def _post(self, writer: str, address: _Address, body: Obj) -> str:
        if address.plural == "selfsubjectaccessreviews":
            return json.dumps({**body, "status": {"allowed": True}})
        if address.plural == "events":
            self.on_post(writer, "events")
            return json.dumps(body)
        name = body["metadata"]["name"]
        place = address.plural, address.namespace or "", name
        if place in self.objects:
            raise Refused(409, "AlreadyExists", f"{address.plural} {name} already exists")
        return self._text(self._create(writer, place, body))

    def _create(self, writer: str, place: Place, body: Obj) -> Obj:
        self._uids += 1
        metadata = {
            **body["metadata"],
            **({"namespace": place[1]} if place[1] else {}),
            "uid": f"uid-{self._uids}",
            "generation": 1,
            "creationTimestamp": self._instant(),
        }
        stored = {name: value for name, value in body.items() if name != "status"}
        return self._store(writer, "create", place, {**stored, "metadata": metadata})

    def _replace(self, writer: str, place: Place, body: Obj) -> Obj:
        before = self._existing(place)
        self._check_version(before, body["metadata"].get("resourceVersion"))
        return self._store(writer, "update", place, body, is_bound=True)

    def _patch(self, writer: str, place: Place, operations: list[Obj]) -> Obj:
        before = self._existing(place)
        target = json.loads(self._text(before))
        for operation in operations:
            try:
                _operate(target, operation)
            except (KeyError, IndexError):
                raise Refused(422, "Invalid", "the patch does not apply") from None
        return self._store(writer, "patch", place, target, is_bound=operations[0]["op"] == "test")

    def _apply_status(self, writer: str, place: Place, body: Obj) -> Obj:
        before = self._existing(place)
        version = body["metadata"].get("resourceVersion")
        if version is not None:
            self._check_version(before, version)
        after = {**before, "status": body["status"]}
        return self._store(writer, "apply", place, after, is_bound=version is not None)

    def _page(self, address: _Address, query: Mapping[str, str]) -> str:
        token = query.get("continue", "")
        if token:
            if token not in self._pages:
                raise Refused(410, "Expired", "the continue token is too old")
            objects, revision = self._pages.pop(token)
        else:
            at_least = None if "limit" in query else query.get("resourceVersion")
            objects, revision = self._listing(address, at_least=at_least)
            labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
            if labels:
                objects = [obj for obj in objects if _selected(obj, labels)]
            if fields:
                objects = [obj for obj in objects if selected_by_fields(obj, fields)]
        limit = int(query.get("limit", str(len(objects))))
        page, remainder = objects[:limit], objects[limit:]
        metadata = {"resourceVersion": str(revision)}
        if remainder:
            metadata["continue"] = (
                f"{revision}-{address.plural}-{len(remainder)}-{len(self._pages)}"
            )
            self._pages[metadata["continue"]] = remainder, revision
        items = ",".join(map(self._text, page))
        return f'{{"kind":"List","metadata":{json.dumps(metadata)},"items":[{items}]}}'

    def _listing(self, address: _Address, *, at_least: str | None) -> tuple[list[Obj], int]:
        """Return the objects of a collection and their revision: the current one, or that of the memory.

        Args:
            at_least: The revision that the memory has to have; ``None`` = the current one is listed.
        """
        if at_least is None or self.cached_at is None:
            return self.objects_of(address.plural, address.namespace), self.revision
        revision = max(self.cached_at, self.compacted, int(at_least))
        return self.objects_of(address.plural, address.namespace, at=revision), revision

    def objects_of(self, plural: str, namespace: str | None, *, at: int | None = None) -> list[Obj]:
        """Return the objects of a kind, sorted; those of a revision that is not compacted, or the current ones."""
        objects = dict(self.objects)
        for event in () if at is None else reversed_until(self.history, at):
            if event.before is None:
                del objects[event.place]
            else:
                objects[event.place] = event.before
        return [
            objects[place]
            for place in sorted(objects)
            if place[0] == plural and namespace in {None, place[1]}
        ]

    # -- storing ----------------------------------------------------------------------------------------

    def _existing(self, place: Place) -> Obj:
        obj = self.objects.get(place)
        if obj is None:
            raise Refused(404, "NotFound", f"{place[0]} {place[2]} not found")
        return obj

    @staticmethod
    def _check_version(before: Obj, version: str | None) -> None:
        if before["metadata"]["resourceVersion"] != version:
            raise Refused(409, "Conflict", "the object has been modified")

    def _store(
        self, writer: str, verb: str, place: Place, after: Obj, *, is_bound: bool = False
    ) -> Obj:
        before = self.objects.get(place)
        metadata = dict(after["metadata"])
        if before is not None:
            if _same(before, after):
                self.on_repetition(writer, verb, place)
                return before
            metadata["uid"] = before["metadata"]["uid"]
            metadata["creationTimestamp"] = before["metadata"]["creationTimestamp"]
            if place[0] in GENERATIONS and before.get("spec") != after.get("spec"):
                metadata["generation"] = before["metadata"]["generation"] + 1
            if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
                self._drop(writer, verb, place, {**after, "metadata": metadata}, is_bound=is_bound)
                return after
        self.revision += 1
        metadata["resourceVersion"] = str(self.revision)
        stored = {**after, "metadata": metadata}
        self.objects[place] = stored
        kind = "ADDED" if before is None else "MODIFIED"
        self._note(ApiEvent(self.revision, kind, place, stored, before))
        write = ApiWrite(
            at=self._now(),
            writer=writer,
            verb=verb,
            place=place,
            before=before,
            after=stored,
            is_bound=is_bound,
        )
        self.on_write(write)
        return stored

    def _drop(self, writer: str, verb: str, place: Place, last: Obj, *, is_bound: bool) -> None:
        before = self.objects.pop(place)
        self.revision += 1
        metadata = {**last["metadata"], "resourceVersion": str(self.revision)}
        deleted = {**last, "metadata": metadata}
        self._note(ApiEvent(self.revision, "DELETED", place, deleted, before))
        write = ApiWrite(
            at=self._now(),
            writer=writer,
            verb=verb,
            place=place,
            before=before,
            after=None,
            is_bound=is_bound,
        )
        self.on_write(write)

    def _note(self, event: ApiEvent) -> None:
        if event.place[0] != "leases":
            self.history.append(event)
            self.on_event(event.place[0])

    def _text(self, obj: Obj) -> str:
        cached = self._texts.get(id(obj))
        if cached is not None and cached[0] is obj:
            return cached[1]
        text = json.dumps(obj, separators=(",", ":"))
        if len(self._texts) > 1_000:
            self._texts.clear()
        self._texts[id(obj)] = obj, text
        return text

    def _instant(self) -> str:
        return datetime.fromtimestamp(int(self._now()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reversed_until(history: list[ApiEvent], revision: int) -> Iterator[ApiEvent]:
    """Yield the events after a revision, newest first."""
    for event in reversed(history):
        if event.revision <= revision:
            return
        yield event


def _same(before: Obj, after: Obj) -> bool:
    if before is after:
        return True
    if any(
        before.get(name) != after.get(name)
        for name in before.keys() | after.keys()
        if name != "metadata"
    ):
        return False
    ignored = {"resourceVersion", "generation", "uid", "creationTimestamp"}
    first, second = before["metadata"], after["metadata"]
    return all(
        first.get(name) == second.get(name)
        for name in first.keys() | second.keys() - ignored
        if name not in ignored
    )


def _selected(obj: Obj, labels: str) -> bool:
    present = obj["metadata"].get("labels") or {}
    for term in re.split(r",(?![^(]*\))", labels):
        if among := re.fullmatch(r"(\S+) in \((.*)\)", term):
            if present.get(among[1]) not in among[2].split(","):
                return False
            continue
        key, equals, value = term.partition("=")
        if key not in present or (equals and present[key] != value):
            return False
    return True


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _operate(target: Any, operation: Obj) -> None:
    *path, last = [
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    ]
    for part in path:
        target = target[int(part)] if isinstance(target, list) else target[part]
    place: Any = last
    if isinstance(target, list):
        place = len(target) if last == "-" else int(last)
    match operation["op"]:
        case "test":
            if target[place] != operation["value"]:
                raise Refused(422, "Invalid", "the test did not hold")
        case "add" if isinstance(target, list):
            target.insert(place, operation["value"])
        case "add":
            target[place] = operation["value"]
        case "remove":
            del target[place]
