"""The quotas of the sandbox's cluster: an immutable image, the records that change it, and the key of an entity. Pure.

Like Kafka's ``ClientQuotasImage``: a request is judged against one image, its records are applied together, and every
broker shows one image at a time. An entity without values does not exist.
"""

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias
from zlib import crc32

from msgspec import Struct, field

from reconciler.sandbox.broker_rules.hash_order import hash_ordered
from reconciler.wire.messages.entry_layout import Part

Names: TypeAlias = tuple[Part, ...]
"""The key of an entity in the image: each type once, sorted by type; name None is the default."""

Values: TypeAlias = Mapping[str, float]

NO_VALUES: Final[Values] = MappingProxyType({})


class QuotaRecord(Struct, frozen=True, kw_only=True):
    """One change, like ``ClientQuotaRecord``; value None removes the key."""

    names: Names
    key: str
    value: float | None


class Image(Struct, frozen=True, kw_only=True):
    """Every entity with its values; never changed in place."""

    values: Mapping[Names, Values] = field(default_factory=dict[Names, Values])

    def applied(self, records: Iterable[QuotaRecord]) -> "Image":
        """Return the image after ``records``, in order; an entity that loses its last value is removed."""
        values = dict(self.values)
        changed: dict[Names, dict[str, float]] = {}
        for record in records:
            entity = changed.setdefault(record.names, dict(values.get(record.names, NO_VALUES)))
            if record.value is None:
                entity.pop(record.key, None)
            else:
                entity[record.key] = record.value
        for names, entity in changed.items():
            if entity:
                values[names] = MappingProxyType(entity)
            else:
                values.pop(names, None)
        return Image(values=values)


EMPTY: Final = Image()


def names_of(parts: Iterable[Part]) -> Names:
    """Return the key of an entity; of a duplicate type the last name applies, as in Kafka's map."""
    return tuple(sorted(dict(parts).items()))


def java_text(parts: Iterable[Part]) -> str:
    """Return the entity as ``ClientQuotaEntity.toString`` prints it, in the order of Java's map."""
    entity_parts = tuple(parts)
    names_by_type = dict(entity_parts)
    ordered_types = (
        f"{kind}={'null' if names_by_type[kind] is None else names_by_type[kind]}"
        for kind in hash_ordered(names_by_type, capacity=len(entity_parts))
    )
    return f"ClientQuotaEntity(entries={{{', '.join(ordered_types)}}})"


def same_double(old: float | None, new: float) -> bool:
    """Compare like ``Double.equals``: NaN equals itself, and 0.0 differs from -0.0."""
    if old is None:
        return False
    if math.isnan(old) or math.isnan(new):
        return math.isnan(old) and math.isnan(new)
    return old == new and math.copysign(1.0, old) == math.copysign(1.0, new)


def scatter_key(names: Names) -> int:
    """Return an arbitrary sort key, so that clients cannot depend on the order of responses."""
    return crc32(repr(names).encode("utf-8", "surrogatepass"))
