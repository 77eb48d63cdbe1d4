"""Filters of DescribeClientQuotas: an exact, default or any name per entity type, open or strict; and which entities match.

Source: org.apache.kafka.image.ClientQuotasImage.describe (3.9 to 4.4).
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, EntityParts, parts


class AnyName(Enum):
    """Type of :data:`ANY`: any name, and the default."""

    ANY = "any"


ANY: Final = AnyName.ANY
Match: TypeAlias = str | AnyName | None
"""An exact name, ``DEFAULT`` (``None``) or ``ANY``."""


class Component(Struct, frozen=True, kw_only=True, gc=False):
    """The condition on one entity type.

    Attributes:
        entity_type: ``user``, ``client-id``, ``ip``, or any other type: the broker decides which are valid (KIP-546).
        match: An exact name, ``DEFAULT``, or ``ANY`` for both named and default.
    """

    entity_type: str
    match: Match


class Filter(Struct, frozen=True, kw_only=True, gc=False):
    """Components combined with AND.

    Attributes:
        components: At most one per entity type.
        strict: Whether an entity must have exactly the listed types. A strict filter without
            components matches nothing; an open one without components matches everything.

    Raises:
        QuotaValueError: A type is empty or repeated.
    """

    components: tuple[Component, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        types = [component.entity_type for component in self.components]
        for kind in types:
            if not kind or types.count(kind) > 1:
                raise QuotaValueError(f"filter: entity type {kind!r} is empty or given twice")

    def matches(self, subject: Entity) -> bool:
        """Whether a describe with this filter returns the entity."""
        return self.matches_parts(parts(subject))

    def matches_parts(self, entity_parts: EntityParts) -> bool:
        """Whether a describe with this filter returns an entity of any types."""
        present = dict(entity_parts)
        if self.strict and (not self.components or len(present) != len(self.components)):
            return False
        return all(
            component.entity_type in present
            and (component.match is ANY or component.match == present[component.entity_type])
            for component in self.components
        )


ALL: Final = Filter()
"""Matches all quotas of a cluster, which one describe returns as a consistent snapshot."""


def filter_of(named: EntityParts, any_types: Iterable[str] = (), *, strict: bool) -> Filter:
    """Return the filter for entities with these parts, and with any name or the default of further types."""
    components = [Component(entity_type=kind, match=name) for kind, name in named]
    components += [Component(entity_type=kind, match=ANY) for kind in any_types]
    return Filter(components=tuple(components), strict=strict)


def exactly(subject: Entity) -> Filter:
    """Return the filter that matches only this entity."""
    return filter_of(parts(subject), strict=True)
