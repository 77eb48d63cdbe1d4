"""Tiers and clients: membership, tolerance of changes, sizing of limits, and requests. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, Slot, is_legal
from reconciler.quota.patterns import EntityPattern
from reconciler.usage.clients import UNSTATED_CONSUMERS, UNSTATED_PRODUCERS, Clients
from reconciler.usage.impact.verdict import Tolerance
from reconciler.usage.recommendation.limit_sizes import BATCH, GOLD, SILVER, Tier
from reconciler.usage.samples import MILLION, QuotaType
from reconciler.usage.tags import Bucket, GroupKind, entities_of

LABEL: Final = "kafka-quotas.io/tier"
"""The label of a document that assigns its entity to a tier."""

ELASTIC: Final = frozenset({QuotaType.FETCH})
"""Consumers catch up with waiting data and use all that they are allowed, so their delay alone is no damage."""


class ElasticHandling(StrEnum):
    """The handling of elastic types."""

    REPORT = "Report"  # shown, never refused
    IGNORE = "Ignore"  # counted, not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule:
    """A tier."""

    name: str
    tolerance: Tolerance
    tier: Tier  # sizing of its limits, without bounds
    # Smallest limit by type, in units; default 1.
    floors: Mapping[QuotaType, int] = field(default_factory=dict[QuotaType, int])
    # Largest limit by type; default none.
    ceilings: Mapping[QuotaType, int] = field(default_factory=dict[QuotaType, int])
    entities: tuple[EntityPattern, ...] = ()

    def __post_init__(self) -> None:
        for kind in QuotaType:
            _ = self.sized(kind)

    def sized(self, kind: QuotaType) -> Tier:
        """Return the sizing parameters for limits of a type.

        Raises:
            QuotaValueError: The floor is above the ceiling; such a rule cannot be constructed.
        """
        return replace(self.tier, floor=self.floors.get(kind, 1), ceiling=self.ceilings.get(kind))


NO_TOLERANCE: Final = Tolerance()
"""Reports everything and refuses nothing."""

USUAL: Final = tuple(
    TierRule(name=tier.name, tolerance=NO_TOLERANCE, tier=tier) for tier in (GOLD, SILVER, BATCH)
)
"""The default tiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRule:
    """Clients whose requests are stated."""

    entities: tuple[EntityPattern, ...]  # entities of the clients; none = all
    clients: Clients


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedClients:
    """What the project states about requests; of several matching rules of a type, the first applies."""

    rules: tuple[ClientRule, ...] = ()

    def of(self, kind: QuotaType, bucket: Bucket) -> Clients | None:
        """Return what is known about the clients of a bucket; ``None`` for types that do not count bytes."""
        if kind not in _UNSTATED:
            return None
        unstated = _UNSTATED[kind]
        entity = own_entity(bucket)
        for rule in self.rules:
            if rule.clients.is_produce is unstated.is_produce and (
                not rule.entities
                or (
                    entity is not None and any(pattern.matches(entity) for pattern in rule.entities)
                )
            ):
                return rule.clients
        return unstated


_UNSTATED: Final = {
    QuotaType.PRODUCE: UNSTATED_PRODUCERS,
    QuotaType.FETCH: UNSTATED_CONSUMERS,
}

NOT_STATED: Final = StatedClients()
"""Nothing is stated about requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfPolicy:
    """The policy by which recorded use refuses a change of limits."""

    rules: tuple[TierRule, ...] = USUAL  # the tiers; of several matching ones, the first applies
    usual: TierRule = USUAL[1]  # the tier of clients that match no rule
    # Tiers by label of documents, by cluster id and entity: a document applies to its own cluster only. Rules of the
    # trusted configuration have precedence and apply to every cluster.
    labelled: Mapping[str, Mapping[Entity, str]] = field(
        default_factory=dict[str, Mapping[Entity, str]]
    )
    elastic: ElasticHandling = ElasticHandling.REPORT
    clients: StatedClients = NOT_STATED  # the requests of clients

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tiers, sorted."""
        return tuple(sorted(tier_rule.name for tier_rule in self.rules))

    @property
    def unknown(self) -> tuple[str, ...]:
        """Labels whose tier does not exist, sorted."""
        labelled_tiers = {tier for tiers in self.labelled.values() for tier in tiers.values()}
        return tuple(sorted(labelled_tiers.difference(self.names)))

    def tier_of(self, cluster_id: str, subject_or_bucket: Entity | Bucket) -> TierRule:
        """Return the tier of an entity of a cluster, or of the clients of a bucket.

        The authors of a label also write the limits. So a label may choose the sizing, and a stricter tolerance than the usual
        one, but never a weaker one.
        """
        subjects = (
            _entities(subject_or_bucket)
            if isinstance(subject_or_bucket, Bucket)
            else (subject_or_bucket,)
        )
        exact_subject = subjects[0] if subjects else None
        if exact_subject is not None and is_legal(exact_subject):
            for rule in self.rules:
                if any(pattern.matches(exact_subject) for pattern in rule.entities):
                    return rule
        by_name = {tier_rule.name: tier_rule for tier_rule in self.rules}
        labelled = self.labelled.get(cluster_id, {})
        for subject in subjects:
            tier_rule = by_name.get(labelled.get(subject, ""))
            if tier_rule is not None:
                stricter = _stricter(tier_rule.tolerance, self.usual.tolerance)
                return replace(tier_rule, tolerance=stricter)
        return self.usual

    def tolerance_of(self, cluster_id: str, kind: QuotaType, bucket: Bucket) -> Tolerance:
        """Return the tolerance for the clients of a bucket of a cluster."""
        tolerance = self.tier_of(cluster_id, bucket).tolerance
        return replace(tolerance, elastic=True) if kind in ELASTIC else tolerance


def own_entity(bucket: Bucket) -> Entity | None:
    """Return the entity that limits exactly these clients; ``None`` if there is none."""
    bucket_entities = _entities(bucket)
    return bucket_entities[0] if bucket_entities and is_legal(bucket_entities[0]) else None


def _entities(bucket: Bucket) -> tuple[Entity, ...]:
    """Return the entities that may limit a bucket, closest first; missing names become the default."""
    if bucket.kind is GroupKind.NONE:
        return ()
    slots_by_kind: dict[GroupKind, tuple[Slot, Slot, Slot]] = {
        GroupKind.USER: (bucket.user or DEFAULT, ABSENT, ABSENT),
        GroupKind.CLIENT: (ABSENT, bucket.client_id or DEFAULT, ABSENT),
        GroupKind.PAIR: (bucket.user or DEFAULT, bucket.client_id or DEFAULT, ABSENT),
        GroupKind.IP: (ABSENT, ABSENT, bucket.ip or DEFAULT),
    }
    exact_entity = Entity(slots_by_kind[bucket.kind])
    return (exact_entity, *(entity for entity in entities_of(bucket) if entity != exact_entity))


def _stricter(first: Tolerance, second: Tolerance) -> Tolerance:
    return Tolerance(
        new_throttled_ms_per_day=_least(
            first.new_throttled_ms_per_day, second.new_throttled_ms_per_day
        ),
        max_delay_ms=_least(first.max_delay_ms, second.max_delay_ms),
        elastic=first.elastic and second.elastic,
    )


def _least(first: int | None, second: int | None) -> int | None:
    return min((value for value in (first, second) if value is not None), default=None)


def share_ms_per_day(share_ppm: int) -> int:
    """Return the time per day of a share in millionths, rounded down."""
    return share_ppm * 86_400_000 // MILLION
