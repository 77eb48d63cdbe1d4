"""What brokers are asked about quotas and answer: states of a cluster, operations with their results, and filters.

Quotas are an immutable map (entity, key) -> value; unknown keys and entity types are stored separately.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias

from msgspec import Struct, field

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import Entity, EntityParts, canonical_address, parts, sort_key
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


class QuotaState(Struct, frozen=True, kw_only=True, dict=True):
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

    @cached_property
    def uncertain_addresses(self) -> tuple[Entity, ...]:
        """Live ip entities whose name is no canonical address: another spelling of one, or a host name.

        Kafka stores ip names verbatim. Each broker resolves them, and applies to an address the limit written last
        (ClientQuotaMetadataManager.handleIpQuota, 4.3).
        """
        return tuple(
            subject
            for subject in self.limits
            if isinstance(name := subject[2], str) and canonical_address(name) != name
        )

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
            changed = with_value(limits.get(subject, NO_LIMITS), key, value)
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


def with_value(limits: Limits, key: Key, value: float | None) -> Limits:
    """Return the limits with one column changed."""
    columns = list(limits)
    columns[COLUMN_OF[key]] = value
    return key_columns(columns)


def set_values(limits: Limits) -> Iterator[tuple[Key, float]]:
    """Iterate over ``(key, value)`` of each column that is set, in column order."""
    return ((key, value) for key, value in zip(COLUMNS, limits, strict=True) if value is not None)


class Node(Struct, frozen=True, kw_only=True, gc=False):
    """One broker of a Metadata response."""

    id: int
    host: str
    port: int


class Cluster(Struct, frozen=True, kw_only=True, gc=False):
    """A cluster as one broker described it.

    Attributes:
        id: The cluster id; never "".
        nodes: Live brokers, sorted by id.
        rights: ``DescribeConfigs``, ``AlterConfigs``, ... that the principal has on the cluster resource;
            ``None`` if the broker does not return them (no Describe right, or older than 2.8).
        version_hint: The Kafka release line that the offered API versions suggest, e.g. ``4.1+``; for display only.
        behaves_as: The sandbox profile with the nearest rules (``3.4``, ``3.9``, ``4.x``).
    """

    id: str
    nodes: tuple[Node, ...]
    rights: frozenset[str] | None
    version_hint: str
    behaves_as: str

    @property
    def may_alter(self) -> bool:
        """Whether the returned rights include AlterConfigs, which validate-only and alter requests need."""
        return self.rights is not None and "AlterConfigs" in self.rights


class ClusterDescription(Struct, frozen=True, kw_only=True, gc=False):
    """A cluster with its quotas and SCRAM users, as one broker described them at one time.

    Attributes:
        quotas: All its quotas; never partial.
        scram_users: Names of its SCRAM users; empty if they were not requested or the broker did not return them.
    """

    cluster: Cluster
    quotas: QuotaState
    scram_users: frozenset[str]


class Visibility(Struct, frozen=True, kw_only=True, gc=False):
    """What each broker of the Metadata response showed at the end of a wait.

    Attributes:
        visible: Ids of brokers that show everything that was expected.
        lagging: Ids of brokers that answered but did not show it before the deadline.
        unreachable: Reason by id, for brokers that could not be queried.
    """

    visible: tuple[int, ...]
    lagging: tuple[int, ...]
    unreachable: Mapping[int, str]

    @property
    def everywhere(self) -> bool:
        """Whether at least one broker shows the change and none lags; unreachable brokers do not count."""
        return not self.lagging and bool(self.visible)


# Larger requests were measured and not taken: docs/adr/request-size.md.
MAX_OPERATIONS: Final = 2_000
"""Operations per request; the broker's limit is 10,000 resulting records (QuorumController.MAX_RECORDS_PER_USER_OP)."""


_NO_PERMISSION: Final = frozenset({29, 30, 31})
"""TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED."""


class Alteration(Struct, frozen=True, gc=False):
    """The operations for one entity in one request.

    Attributes:
        entity: The entity whose quotas change.
        operations: ``(key, value)``; ``None`` removes the key. Each key occurs at most once.
    """

    entity: Entity
    operations: tuple[tuple[str, float | None], ...]


class OpenAlteration(Struct, frozen=True, gc=False):
    """The operations for one entity of any types, which the broker checks (KIP-546).

    Attributes:
        entity: ``(type, name)`` of each part, ``None`` for the default.
        operations: ``(key, value)``; ``None`` removes the key. Each key occurs at most once.
    """

    entity: EntityParts
    operations: tuple[tuple[str, float | None], ...]


# Four outcomes, no boolean: docs/adr/operation-outcomes.md.
class Applied(Struct, frozen=True, gc=False):
    """The controller acknowledged the operation (or, for validate-only, would have)."""


class Rejected(Struct, frozen=True, kw_only=True, gc=False):
    """The broker refused the operation.

    Attributes:
        code: Kafka's error code.
        name: Name of the error code, for example ``INVALID_REQUEST``.
        message: The broker's message, or a message of kquota if the broker sent none.
    """

    code: int
    name: str
    message: str

    @property
    def lacks_permission(self) -> bool:
        """Whether the principal of kquota lacks a permission, so that no document is at fault."""
        return self.code in _NO_PERMISSION


class Held(Struct, frozen=True, kw_only=True, gc=False):
    """Not sent, because other operations of this plan must take effect first.

    Attributes:
        waits_for: The entities whose operations did not take effect, sorted.
    """

    waits_for: tuple[Entity, ...]


class Unknown(Struct, frozen=True, kw_only=True, gc=False):
    """Sent without a usable response: the operation may or may not have taken effect.

    Attributes:
        reason: One sentence.
    """

    reason: str


Result: TypeAlias = Applied | Rejected | Held | Unknown


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
