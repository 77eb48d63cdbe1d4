"""The Kafka entity of a ClientQuota, from its spec or its status."""

from collections.abc import Mapping
from typing import Final

from reconciler.errors import QuotaValueError
from reconciler.kube.api.custom_resources import Obj, spec_of, status_of
from reconciler.quota.entity import Entity, Slot, entity
from reconciler.quota.entity_forms import read_entity

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
