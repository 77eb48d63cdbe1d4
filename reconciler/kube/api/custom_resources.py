"""Custom resources as the API server returns them: names of the API, and functions that read their fields."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from typing import Any, Final, TypeAlias

from reconciler.errors import QuotaValueError
from reconciler.manifest.document import DEFAULT_NAMESPACE
from reconciler.manifest.rules.client_quota import seconds_of
from reconciler.manifest.schema_names import API_VERSION as API_VERSION  # noqa: PLC0414 - re-exported
from reconciler.manifest.schema_names import GROUP as GROUP  # noqa: PLC0414 - the same
from reconciler.quota.entity import Entity, Slot, entity
from reconciler.quota.entity_forms import read_entity

FINALIZER: Final = f"{GROUP}/release"
REQUESTED_AT: Final = f"{GROUP}/requestedAt"
"""Annotation that requests a reconciliation; its value is returned in ``status.lastHandledReconcileAt``."""

FIELD_MANAGER: Final = "kafka-quota-reconciler"

Obj: TypeAlias = Mapping[str, Any]
"""An object as JSON, not validated."""


def metadata_of(obj: Obj) -> Obj:
    """Return the metadata, empty if there is none."""
    metadata = obj.get("metadata")
    # A dict is by far the most frequent; the check of an abstract class takes five times as long.
    return metadata if type(metadata) is dict or isinstance(metadata, Mapping) else {}


def spec_of(obj: Obj) -> Obj:
    """Return the spec, empty if there is none."""
    spec = obj.get("spec")
    return spec if type(spec) is dict or isinstance(spec, Mapping) else {}


def status_of(obj: Obj) -> Obj:
    """Return the status, empty if there is none."""
    status = obj.get("status")
    return status if type(status) is dict or isinstance(status, Mapping) else {}


def condition_of(status: Obj, kind: str) -> Obj:
    """Return one condition of a status, empty if it is absent."""
    conditions_value = status.get("conditions")
    for condition in conditions_value if isinstance(conditions_value, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == kind:
            return condition
    return {}


def name_of(obj: Obj) -> str:
    """Return the name, "" if there is none."""
    return str(metadata_of(obj).get("name", ""))


def namespace_of(obj: Obj) -> str:
    """Return the namespace of a ClientQuota."""
    return str(metadata_of(obj).get("namespace", DEFAULT_NAMESPACE))


def document_of(obj: Obj) -> str:
    """Return ``namespace/name`` of a ClientQuota, as used in records and messages; equal ones are one object in memory."""
    return intern(f"{namespace_of(obj)}/{name_of(obj)}")


def uid_of(obj: Obj) -> str:
    """Return the uid, "" if there is none."""
    return str(metadata_of(obj).get("uid", ""))


def generation_of(obj: Obj) -> int:
    """Return the generation of the spec; 0 if it is missing."""
    generation = metadata_of(obj).get("generation", 0)
    return generation if isinstance(generation, int) else 0


def resource_version_of(obj: Obj) -> str:
    """Return the resource version, "" if there is none."""
    return str(metadata_of(obj).get("resourceVersion", ""))


def is_before(first: Obj, second: Obj) -> bool:
    """Whether ``first`` was written before ``second``; false if their versions do not show it."""
    first_version = _number(resource_version_of(first))
    second_version = _number(resource_version_of(second))
    return (
        first_version is not None and second_version is not None and first_version < second_version
    )


def is_within(obj: Obj, version: str) -> bool:
    """Whether a listing of this version would contain the object if it still existed."""
    obj_version, listing_version = _number(resource_version_of(obj)), _number(version)
    return obj_version is None or listing_version is None or obj_version <= listing_version


def _number(version: str) -> int | None:
    """Return a resource version as a number; they increase within one kind (KEP-5504, and etcd revisions before it)."""
    return int(version) if version.isascii() and version.isdecimal() else None


def created_of(obj: Obj) -> float:
    """Return the creation time in seconds since the epoch; 0 if it is missing."""
    return read_time(str(metadata_of(obj).get("creationTimestamp", ""))) or 0.0


def deletion_requested_at(obj: Obj) -> float | None:
    """Return when the deletion was requested, in seconds since the epoch; ``None`` = it was not."""
    text = metadata_of(obj).get("deletionTimestamp")
    return None if text is None else read_time(str(text)) or 0.0


def is_terminating(obj: Obj) -> bool:
    """Whether the object is being deleted; then it declares nothing."""
    return metadata_of(obj).get("deletionTimestamp") is not None


def has_finalizer(obj: Obj) -> bool:
    """Whether it has the operator's finalizer."""
    return FINALIZER in (metadata_of(obj).get("finalizers") or ())


_NO_LABELS: Final[Mapping[str, str]] = {}


MOST_FINALIZERS: Final = 32
"""Maximum number of kept finalizers; of more, only the operator's finalizer and its position are kept."""

FINALIZER_PLACE: Final = f"{GROUP}/finalizer-place"
"""Field of kept metadata: the position of the operator's finalizer in the list. Objects of an API server do not have it."""

FINALIZER_FIELDS: Final = frozenset({"finalizers", FINALIZER_PLACE})
"""The fields that :func:`few_finalizers` may return."""


def few_finalizers(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of the finalizers: their author may write a hundred thousand of them."""
    names = metadata.get("finalizers")
    if not names:
        return {}
    if FINALIZER not in names:
        return {"finalizers": names[:1]}
    place = metadata.get(FINALIZER_PLACE)
    if place is None and len(names) <= MOST_FINALIZERS:
        return {"finalizers": names}
    at = names.index(FINALIZER) if place is None else place
    return {"finalizers": [FINALIZER], FINALIZER_PLACE: at}


def finalizer_place(obj: Obj) -> int:
    """Return the position of the operator's finalizer in the list when the object was read.

    Raises:
        ValueError: The object does not have it.
    """
    metadata = metadata_of(obj)
    place = metadata.get(FINALIZER_PLACE)
    return int(metadata["finalizers"].index(FINALIZER) if place is None else place)


def labels_of(obj: Obj) -> Mapping[str, str]:
    """Return the labels; documents select clusters by them. A change of labels does not change the generation."""
    labels = metadata_of(obj).get("labels")
    return labels if isinstance(labels, Mapping) else _NO_LABELS


def requested_at(obj: Obj) -> str | None:
    """Return the value of the annotation that requests a reconciliation."""
    annotations = metadata_of(obj).get("annotations")
    requested = annotations.get(REQUESTED_AT) if isinstance(annotations, Mapping) else None
    return requested if isinstance(requested, str) else None


EXCESS: Final = f"{GROUP}/excess"
"""Field of an excerpt, beside ``spec``: why it is one. Objects of an API server do not have it."""


def excess_of(obj: Obj) -> str:
    """Return why a document is beyond the limits of its namespace, "" if it is not."""
    return str(obj.get(EXCESS, ""))


PROJECTION: Final = f"{GROUP}/projection"
"""Field beside ``spec`` of a projection for a selected cluster (``watch.projection``). The API server's objects lack it."""


def projected_cluster(obj: Obj) -> str:
    """Return the QuotaCluster of a projection; "" for a document as the API server has it."""
    projection = obj.get(PROJECTION)
    return "" if projection is None else str(projection["cluster"])


def projected_spec(obj: Obj) -> object:
    """Return the spec of a projection, which may change although the document does not; ``None`` for other documents."""
    return spec_of(obj) if PROJECTION in obj else None


def request_state(obj: Obj) -> tuple[object, ...]:
    """Return everything that users request with an object: neither its status nor the operator's finalizer."""
    return (
        uid_of(obj),
        generation_of(obj),
        deletion_requested_at(obj),
        labels_of(obj),
        requested_at(obj),
        excess_of(obj),
        projected_spec(obj),
    )


def as_compared(before: Obj, now: Obj) -> Obj:
    """Return an object as it was compared, with its current status and finalizers."""
    if before is now or request_state(before) == request_state(now):
        return now
    metadata = {
        key: field_value
        for key, field_value in before["metadata"].items()
        if key not in FINALIZER_FIELDS
    }
    metadata |= few_finalizers(now["metadata"])
    return {**before, "metadata": metadata, "status": status_of(now)}


def cluster_name_of(obj: Obj) -> str:
    """Return the QuotaCluster that a ClientQuota refers to or is a projection for, "" if there is none."""
    if PROJECTION in obj:
        return projected_cluster(obj)
    reference = spec_of(obj).get("clusterRef")
    cluster_name = reference.get("name") if isinstance(reference, Mapping) else None
    return cluster_name if isinstance(cluster_name, str) else ""


def operator_class_of(obj: Obj) -> str:
    """Return the class of the operator that serves a QuotaCluster; "" = the one without a class."""
    operator_class = spec_of(obj).get("operatorClass", "")
    return operator_class if isinstance(operator_class, str) else ""


def time_text(seconds: float) -> str:
    """Format a time for a status: RFC 3339 in whole seconds, as Kubernetes does."""
    return _time_text(int(seconds))


@lru_cache(maxsize=4096)  # documents of one pass share their times
def _time_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def read_time(text: str) -> float | None:
    """Parse a time into seconds since the epoch; ``None`` if the text is not a time."""
    return seconds_of(text)


# ---- entities --------------------------------------------------------------------------------

_SLOTS: Final = {"user": "user", "clientId": "client_id", "ip": "ip"}


def declared_entity(obj: Obj) -> Entity | None:
    """Return the entity in the spec of a ClientQuota, ``None`` if it cannot be read."""
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


def entity_of(obj: Obj) -> Entity | None:
    """Return the entity of a ClientQuota from its spec, else from its status; ``None`` if neither can be read.

    A spec that breaks a rule elsewhere may still have a readable entity.
    """
    declared = declared_entity(obj)
    if declared is not None:
        return declared
    try:
        return read_entity(str(status_of(obj).get("entity", "")))
    except QuotaValueError:
        return None
