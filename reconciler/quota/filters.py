"""Describe filters: exact, default or any name per entity type, open or strict; and what they match.

Source: org.apache.kafka.image.ClientQuotasImage.describe (3.9 to 4.4).
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, EntityParts, parts


class AnyName(Enum):
    """The one value that means "any name, the default included"."""

    ANY = "any"


ANY: Final = AnyName.ANY
Match: TypeAlias = str | AnyName | None
"""An exact name, ``DEFAULT`` (``None``) or ``ANY``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """What one entity type must look like.

    Attributes:
        entity_type: ``user``, ``client-id``, ``ip``, or any other type: the broker decides which it knows (KIP-546).
        match: An exact name, ``DEFAULT``, or ``ANY`` for named and default alike.
    """

    entity_type: str
    match: Match


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Components combined with AND.

    Attributes:
        components: At most one per entity type.
        strict: Whether an entity must have exactly the listed types. A strict filter without
            components matches nothing; an open one without components matches everything.

    Raises:
        QuotaValueError: A type is empty or is given twice.
    """

    components: tuple[Component, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        types = [component.entity_type for component in self.components]
        for kind in types:
            if not kind or types.count(kind) > 1:
                raise QuotaValueError(f"filter: entity type {kind!r} is empty or given twice")

    def matches(self, subject: Entity) -> bool:
        """Whether a describe with this filter lists the entity."""
        return self.matches_parts(parts(subject))

    def matches_parts(self, entity_parts: EntityParts) -> bool:
        """The same for an entity of any types."""
        present = dict(entity_parts)
        if self.strict and (not self.components or len(present) != len(self.components)):
            return False
        return all(
            component.entity_type in present
            and (component.match is ANY or component.match == present[component.entity_type])
            for component in self.components
        )


ALL: Final = Filter()
"""Everything a cluster has, in one consistent snapshot."""


def exactly(subject: Entity) -> Filter:
    """The filter that lists this entity and no other."""
    return Filter(
        components=tuple(Component(entity_type=kind, match=name) for kind, name in parts(subject)),
        strict=True,
    )
