"""Custom resources as typed values: each is parsed once, when it arrives from the API server.

Equal parts are one object in memory: of 5,000 documents each would have its own copy of the key ``conditions``, of the
reference to the cluster, and of each condition. Documents that were written in the same second have equal conditions,
and documents of one tier equal limits, which are two thirds of a cached document.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import QuotaValueError
from reconciler.manifest.document import DEFAULT_NAMESPACE
from reconciler.manifest.rules.client_quota import seconds_of
from reconciler.manifest.schema_names import API_VERSION as API_VERSION  # noqa: PLC0414 - re-exported
from reconciler.manifest.schema_names import GROUP as GROUP  # noqa: PLC0414 - the same
from reconciler.quota.entity import Entity, Slot, entity
from reconciler.quota.planner.desired_state import NO_SELECTIONS, Selections

SHARED_CHARACTERS: Final = 64
"""Longer texts are rarely equal and are not shared."""

SHARED_OBJECTS: Final = 1024
"""Number of recent objects of which equal ones are shared; bounds, with their size, what they occupy."""

SHARED_ITEMS: Final = 16
"""Objects with more items are not shared: their authors could fill the memory with labels that change again and again."""


def shared(value: Any) -> Any:  # noqa: ANN401 - JSON in, the same JSON out
    """Return equal JSON that shares keys, short texts and small objects with earlier results; it must not be changed."""
    kind = type(value)
    if kind is str:
        return intern(value) if len(value) <= SHARED_CHARACTERS else value
    if kind is dict:
        items = {intern(key): shared(item) for key, item in value.items()}
        is_shared = len(items) <= SHARED_ITEMS and all(map(_is_small, items.values()))
        return _object(*items.items()) if is_shared else items
    if kind is list:
        return [shared(item) for item in value]
    return value


def _is_small(value: object) -> bool:
    """Whether equal values are the same JSON: short texts and integers, but not 1, 1.0 and true."""
    return type(value) is int or (type(value) is str and len(value) <= SHARED_CHARACTERS)


@lru_cache(maxsize=SHARED_OBJECTS)
def _object(*items: tuple[str, str | int]) -> dict[str, str | int]:
    return dict(items)


FINALIZER: Final = f"{GROUP}/release"
REQUESTED_AT: Final = f"{GROUP}/requestedAt"
"""Annotation that requests a reconciliation; its value is returned in ``status.lastHandledReconcileAt``."""

FIELD_MANAGER: Final = "kafka-quota-reconciler"

MOST_REQUEST: Final = 128
"""Maximum characters of the annotation that requests a reconciliation; the status has the same limit."""

Obj: TypeAlias = Mapping[str, Any]
"""An object as JSON, not validated."""

NOTHING: Final[Obj] = {}


class Projection(Struct, frozen=True, kw_only=True):
    """What makes a document that selects clusters a document of one of them."""

    cluster: str  # name of the QuotaCluster
    selections: Selections = NO_SELECTIONS  # the rule that set each value


class Resource(Struct, frozen=True, kw_only=True):
    """A ClientQuota or QuotaCluster. Metadata that nothing reads is not kept: its author decides how large it is."""

    kind: str = ""
    name: str = ""
    namespace: str = DEFAULT_NAMESPACE
    uid: str = ""
    generation: int = 0
    version: str = ""  # the resource version
    created: float = 0.0  # seconds since the epoch
    deleted_at: float | None = None  # when the deletion was requested; None = it was not
    labels: Mapping[str, str] = NOTHING
    # Value of the annotation that requests a reconciliation.
    requested_at: str | None = None
    # Position of the operator's finalizer; None = it does not have it.
    finalizer: int | None = None
    has_finalizers: bool = False  # whether it has any finalizer
    spec: Obj = NOTHING
    status: Obj = NOTHING
    is_stored: bool = True  # whether the API server has it; else it comes from a file
    excess: str = ""  # why a document is beyond the limits of its namespace; then it is an excerpt
    # Set for a document that selects clusters, as one of them sees it.
    projection: Projection | None = None

    @property
    def document(self) -> str:
        """``namespace/name`` of a ClientQuota, as used in records and messages; equal ones are one object in memory."""
        return intern(f"{self.namespace}/{self.name}")

    @property
    def is_terminating(self) -> bool:
        """Whether it is being deleted; then it declares nothing."""
        return self.deleted_at is not None

    @property
    def has_finalizer(self) -> bool:
        """Whether it has the operator's finalizer."""
        return self.finalizer is not None

    @property
    def selected_cluster(self) -> str:
        """The QuotaCluster of a projection; "" for a document as the API server has it."""
        return "" if self.projection is None else self.projection.cluster

    @property
    def cluster_name(self) -> str:
        """The QuotaCluster that a ClientQuota refers to or is a projection for, "" if there is none."""
        if self.projection is not None:
            return self.projection.cluster
        reference = self.spec.get("clusterRef")
        cluster_name = reference.get("name") if isinstance(reference, Mapping) else None
        return cluster_name if isinstance(cluster_name, str) else ""

    @property
    def operator_class(self) -> str:
        """The class of the operator that serves a QuotaCluster; "" = the one without a class."""
        operator_class = self.spec.get("operatorClass", "")
        return operator_class if isinstance(operator_class, str) else ""

    @property
    def request(self) -> tuple[object, ...]:
        """Everything that users request with it: neither its status nor the operator's finalizer."""
        return (
            self.uid,
            self.generation,
            self.deleted_at,
            self.labels,
            self.requested_at,
            self.excess,
            # The spec of a projection may change although the document does not.
            None if self.projection is None else self.spec,
        )

    @property
    def version_number(self) -> int | None:
        """Its resource version as a number, if it is one: they increase within one kind."""
        return _number(self.version)

    def is_before(self, later: "Resource") -> bool:
        """Whether it was written before another version; false if their versions do not show it."""
        own_number, later_number = self.version_number, later.version_number
        return own_number is not None and later_number is not None and own_number < later_number

    def is_version(self, version: str, generation: int, *, is_terminating: bool) -> bool:
        """Whether it is exactly this version of the object, not as an excerpt."""
        is_same = self.generation == generation and self.is_terminating == is_terminating
        return bool(version) and self.version == version and is_same and not self.excess

    def is_within(self, version: str) -> bool:
        """Whether a listing of this version would contain it if it still existed."""
        own_number, listing_number = self.version_number, _number(version)
        return own_number is None or listing_number is None or own_number <= listing_number

    def as_compared(self, now: "Resource") -> "Resource":
        """Return it as it was compared, with its current status and finalizers."""
        if self is now or self.request == now.request:
            return now
        return replace(
            self, status=now.status, finalizer=now.finalizer, has_finalizers=now.has_finalizers
        )

    @property
    def entity(self) -> Entity | None:
        """The entity in the spec of a ClientQuota, ``None`` if it cannot be read."""
        parts = self.spec.get("entity")
        try:
            if isinstance(parts, Mapping) and parts:
                return entity(**{_SLOTS[name]: _slot(slot) for name, slot in parts.items()})
        except (KeyError, ValueError, QuotaValueError):
            pass
        return None


def parsed(obj: Obj) -> Resource:
    """Return an object of the API server as a value; what has another form than the API server writes is left out."""
    metadata = _mapping(obj.get("metadata"))
    finalizers = metadata.get("finalizers") or ()
    annotations = _mapping(metadata.get("annotations"))
    requested, generation = annotations.get(REQUESTED_AT), metadata.get("generation", 0)
    deleted = metadata.get("deletionTimestamp")
    return Resource(
        kind=intern(str(obj.get("kind", ""))),
        name=str(metadata.get("name", "")),
        namespace=intern(str(metadata.get("namespace", DEFAULT_NAMESPACE))),
        uid=str(metadata.get("uid", "")),
        generation=generation if isinstance(generation, int) else 0,
        version=str(metadata.get("resourceVersion", "")),
        created=read_time(str(metadata.get("creationTimestamp", ""))) or 0.0,
        deleted_at=None if deleted is None else read_time(str(deleted)) or 0.0,
        labels=shared(_mapping(metadata.get("labels"))),
        requested_at=requested[:MOST_REQUEST] if isinstance(requested, str) else None,
        finalizer=finalizers.index(FINALIZER) if FINALIZER in finalizers else None,
        has_finalizers=bool(finalizers),
        spec=shared(_mapping(obj.get("spec"))),
        status=shared(_mapping(obj.get("status"))),
        is_stored="apiVersion" in obj,
    )


def _mapping(value: object) -> Obj:
    return value if isinstance(value, Mapping) else NOTHING


def _number(version: str) -> int | None:
    """Return a resource version as a number; they increase within one kind (KEP-5504, and etcd revisions before it)."""
    return int(version) if version.isascii() and version.isdecimal() else None


def condition_of(status: Obj, kind: str) -> Obj:
    """Return one condition of a status, empty if it is absent."""
    conditions_value = status.get("conditions")
    for condition in conditions_value if isinstance(conditions_value, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == kind:
            return condition
    return NOTHING


def time_text(seconds: float) -> str:
    """Format a time for a status: RFC 3339 in whole seconds, as Kubernetes does."""
    return _time_text(int(seconds))


@lru_cache(maxsize=4096)  # documents of one pass share their times
def _time_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


read_time: Final = lru_cache(maxsize=4096)(seconds_of)
"""Parses a time into seconds since the epoch; ``None`` if the text is not a time."""


_SLOTS: Final = {"user": "user", "clientId": "client_id", "ip": "ip"}


def _slot(value: object) -> Slot:
    match value:
        case {"name": str(name)}:
            return name
        case {"default": True}:
            return None
        case _:
            raise ValueError(f"{value!r} is no slot")
