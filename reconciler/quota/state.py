"""The quotas of a cluster: an immutable map (entity, key) -> value; unknown keys and entity types are stored separately."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from reconciler.quota.entity import Entity, EntityParts, sort_key
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key, KeyColumns, key_columns

Limits: TypeAlias = KeyColumns[float | None]
"""One value per key in the order of :data:`~reconciler.quota.keys.COLUMNS`, ``None`` = not set.

An exact tuple of atoms: equal limits compare at C speed, and the garbage collector does not track them.
"""

NO_LIMITS: Final[Limits] = key_columns([None] * len(COLUMNS))

ForeignValues: TypeAlias = tuple[tuple[str, float], ...]
"""``(key, value)`` of unknown keys, sorted by key."""

ForeignEntity: TypeAlias = tuple[EntityParts, ForeignValues]
"""An entity with an unknown type, and its values; both sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaState:
    """All quotas in the response to a describe; never partial.

    Attributes:
        limits: Known entities with their known keys. Must not be changed.
        foreign_values: Unknown keys of known entities: shown, never changed.
        foreign_entities: Entities of unknown types (for example ``client-id-prefix``), sorted.
    """

    limits: Mapping[Entity, Limits] = field(default_factory=dict[Entity, Limits])
    foreign_values: Mapping[Entity, ForeignValues] = field(
        default_factory=dict[Entity, ForeignValues]
    )
    foreign_entities: tuple[ForeignEntity, ...] = ()

    def value(self, subject: Entity, key: Key) -> float | None:
        """Return the value of one pair, ``None`` if it is not set."""
        return self.limits.get(subject, NO_LIMITS)[COLUMN_OF[key]]

    def entities(self) -> list[Entity]:
        """Return all known entities, sorted by level and name."""
        return sorted(self.limits, key=sort_key)

    def pairs(self) -> Iterator[tuple[Entity, Key, float]]:
        """Iterate over every pair that is set, sorted by entity, then by column."""
        for subject in self.entities():
            for key, value in zip(COLUMNS, self.limits[subject], strict=True):
                if value is not None:
                    yield subject, key, value

    def with_values(self, values: Iterable[tuple[Entity, Key, float | None]]) -> "QuotaState":
        """Return a new state with some pairs set (a number) or removed (``None``), in the order of ``values``.

        An entity without values disappears, as in Kafka.
        """
        limits = dict(self.limits)
        for subject, key, value in values:
            changed = replaced(limits.get(subject, NO_LIMITS), key, value)
            if changed == NO_LIMITS and subject not in self.foreign_values:
                _ = limits.pop(subject, None)
            else:
                limits[subject] = changed
        return QuotaState(
            limits=limits,
            foreign_values=self.foreign_values,
            foreign_entities=self.foreign_entities,
        )


def limits_of(values: Mapping[Key, float]) -> Limits:
    """Return the columns of a mapping."""
    return key_columns([values.get(key) for key in COLUMNS])


def replaced(limits: Limits, key: Key, value: float | None) -> Limits:
    """Return the limits with one column changed."""
    columns = list(limits)
    columns[COLUMN_OF[key]] = value
    return key_columns(columns)


def set_values(limits: Limits) -> Iterator[tuple[Key, float]]:
    """Iterate over ``(key, value)`` of each column that is set, in column order."""
    return ((key, value) for key, value in zip(COLUMNS, limits, strict=True) if value is not None)
