"""Tiers and consumers: who belongs to which, how much worse a change may make it for them, how their limits are sized, how large their fetches are. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from reconciler.quota.entity import ABSENT, DEFAULT, Entity, Slot, is_legal
from reconciler.quota.patterns import EntityPattern
from reconciler.usage.fetches import UNSTATED, FetchSize
from reconciler.usage.impact.verdict import Tolerance
from reconciler.usage.recommendation.limit_sizes import BATCH, GOLD, SILVER, Tier
from reconciler.usage.samples import MILLION, QuotaType
from reconciler.usage.tags import Bucket, GroupKind, entities_of

LABEL: Final = "kafka-quotas.io/tier"
"""The label of a document that puts its entity into a tier."""

ELASTIC: Final = frozenset({QuotaType.FETCH})
"""Consumers read what waits for them: what they would use is what they are let, so their delay is no damage by itself."""


class ElasticHandling(StrEnum):
    """What is done about types that are elastic."""

    REPORT = "Report"  # shown, never refused
    IGNORE = "Ignore"  # counted, not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule:
    """One tier.

    Attributes:
        tier: How its limits are sized, without bounds.
        floors: Smallest limit by type, in units; 1 where nothing is said.
        ceilings: Largest limit by type; none where nothing is said.
    """

    name: str
    tolerance: Tolerance
    tier: Tier
    floors: Mapping[QuotaType, int] = field(default_factory=dict[QuotaType, int])
    ceilings: Mapping[QuotaType, int] = field(default_factory=dict[QuotaType, int])
    entities: tuple[EntityPattern, ...] = ()

    def __post_init__(self) -> None:
        for kind in QuotaType:
            _ = self.sized(kind)

    def sized(self, kind: QuotaType) -> Tier:
        """How limits of a type are sized.

        Raises:
            QuotaValueError: Its floor is above its ceiling; a rule that raises this cannot be built.
        """
        return replace(self.tier, floor=self.floors.get(kind, 1), ceiling=self.ceilings.get(kind))


NO_TOLERANCE: Final = Tolerance()
"""Everything is reported and nothing refused."""

USUAL: Final = tuple(
    TierRule(name=tier.name, tolerance=NO_TOLERANCE, tier=tier) for tier in (GOLD, SILVER, BATCH)
)
"""The tiers that exist without being written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRule:
    """Consumers of which the size of their fetches is stated.

    Attributes:
        entities: Who; none = all.
    """

    entities: tuple[EntityPattern, ...]
    size: FetchSize


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFetches:
    """What is stated of consumers; of several rules that match, the first counts."""

    rules: tuple[ConsumerRule, ...] = ()

    def of(self, kind: QuotaType, bucket: Bucket) -> FetchSize | None:
        """How large the fetches of a bucket are; ``None`` for what is not fetched."""
        if kind is not QuotaType.FETCH:
            return None
        entity = own_entity(bucket)
        for rule in self.rules:
            if not rule.entities or (
                entity is not None and any(pattern.matches(entity) for pattern in rule.entities)
            ):
                return rule.size
        return UNSTATED


NOT_STATED: Final = ConsumerFetches()
"""Of no consumer it is stated how large its fetches are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfPolicy:
    """When a change of limits is refused for what recorded use says.

    Attributes:
        rules: The tiers; of several that match, the first counts.
        usual: The tier of clients that match no rule.
        labelled: Tiers by label of the document, by cluster id and entity: a document speaks of its own cluster alone.
            What the trusted configuration says goes before it, and is for every cluster.
        consumers: How large the fetches of consumers are, where that is stated.
    """

    rules: tuple[TierRule, ...] = USUAL
    usual: TierRule = USUAL[1]
    labelled: Mapping[str, Mapping[Entity, str]] = field(
        default_factory=dict[str, Mapping[Entity, str]]
    )
    elastic: ElasticHandling = ElasticHandling.REPORT
    consumers: ConsumerFetches = NOT_STATED

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tiers, sorted."""
        return tuple(sorted(tier_rule.name for tier_rule in self.rules))

    @property
    def unknown(self) -> tuple[str, ...]:
        """Labels that name no tier, sorted."""
        labelled_tiers = {tier for tiers in self.labelled.values() for tier in tiers.values()}
        return tuple(sorted(labelled_tiers.difference(self.names)))

    def tier_of(self, cluster_id: str, subject_or_bucket: Entity | Bucket) -> TierRule:
        """The tier of an entity of a cluster, or of the clients of a bucket there.

        A label comes from the same hands as the limits, so it may choose how limits are sized, and a gate that is
        stricter than the usual one, never a weaker one.
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
        """How much worse a change may make it for the clients of a bucket of a cluster."""
        tolerance = self.tier_of(cluster_id, bucket).tolerance
        return replace(tolerance, elastic=True) if kind in ELASTIC else tolerance


def own_entity(bucket: Bucket) -> Entity | None:
    """The entity that limits these clients and no others; ``None`` where no entity does."""
    bucket_entities = _entities(bucket)
    return bucket_entities[0] if bucket_entities and is_legal(bucket_entities[0]) else None


def _entities(bucket: Bucket) -> tuple[Entity, ...]:
    """Who may have a say in a bucket, closest first; names that it lacks stand for the default."""
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
    """The time of a day that a share in millionths is, rounded down."""
    return share_ppm * 86_400_000 // MILLION
