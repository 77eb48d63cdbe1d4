"""What brokers answer about a cluster: its quotas, brokers, rights of the principal, and who shows a change.

Quotas are an immutable map (entity, key) -> value; unknown keys and entity types are stored separately.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, TypeAlias

from msgspec import Struct, field

from reconciler.quota.entity import Entity, EntityParts, canonical_address, sort_key
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
