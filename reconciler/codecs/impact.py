"""The impact of a plan on clients, as a part of a saved plan: its types, made from an impact and back."""

from msgspec import field

from reconciler.codecs.plan_rows import PlanPart
from reconciler.codecs.reader import values_of
from reconciler.quota.entity import EntityParts, from_parts, level, parts
from reconciler.quota.keys import Key, SetValue, WrittenValue
from reconciler.quota.planner.effects import Effect
from reconciler.quota.planner.impact import (
    AffectedPrincipal,
    Impact,
    ShadowedLimit,
    UnmatchedClientId,
)
from reconciler.quota.precedence import EffectiveLimit, Principal, UnrankedLimit, bucket
from reconciler.render.json_values import (
    read_set_value,
    read_value,
    written_set_value,
    written_value,
)


class UnrankedRow(PlanPart, frozen=True, kw_only=True):
    """A limit of an entity type that Kafka does not define, or of an uncertain address."""

    entity: EntityParts
    value: SetValue


class EffectiveRow(PlanPart, frozen=True, kw_only=True):
    """The limit of a client."""

    source: EntityParts | None
    unranked: tuple[UnrankedRow, ...] = ()
    value: WrittenValue

    def limit(self, key: Key, principal: Principal) -> EffectiveLimit:
        """Return the limit, without those that it wins over."""
        source = None if self.source is None else from_parts(self.source)
        return EffectiveLimit(
            key=key,
            value=read_value(self.value),
            source=source,
            level=0 if source is None else level(source),
            bucket=() if source is None else bucket(source, principal),
            overridden=(),
            unranked=tuple(
                UnrankedLimit(entity=row.entity, value=read_set_value(row.value))
                for row in self.unranked
            ),
        )


class AffectedRow(PlanPart, frozen=True, kw_only=True):
    """A known client whose limit changes."""

    after: EffectiveRow
    before: EffectiveRow
    client_id: str | None
    ip: str | None
    key: Key
    user: str | None

    def affected(self) -> AffectedPrincipal:
        """Return the client with its limits."""
        principal = Principal(user=self.user, client_id=self.client_id, ip=self.ip)
        return AffectedPrincipal(
            principal=principal,
            key=self.key,
            before=self.before.limit(self.key, principal),
            after=self.after.limit(self.key, principal),
        )


class ShadowRow(PlanPart, frozen=True, kw_only=True):
    """A limit that never applies."""

    by: EntityParts
    entity: EntityParts
    key: Key

    def shadow(self) -> ShadowedLimit:
        """Return the limit."""
        return ShadowedLimit(entity=from_parts(self.entity), key=self.key, by=from_parts(self.by))


class UnmatchedRow(PlanPart, frozen=True, kw_only=True):
    """A limit whose client id no known client has."""

    entity: EntityParts
    example: str
    total: int

    def unmatched(self) -> UnmatchedClientId:
        """Return the limit."""
        return UnmatchedClientId(
            entity=from_parts(self.entity), total=self.total, example=self.example
        )


class ImpactPart(PlanPart, frozen=True, kw_only=True):
    """The impact of a plan; effects are in the rows of their changes."""

    affected: list[AffectedRow]
    affected_clients: int
    principal_count: int = field(name="known")
    new_shadows: list[ShadowRow]
    shadows: list[ShadowRow]
    silent_keys: tuple[Key, ...]
    unmatched_client_ids: list[UnmatchedRow]

    def impact(self, effects: tuple[Effect, ...]) -> Impact:
        """Return the impact with these effects, in plan order.

        Raises:
            QuotaValueError: An entity cannot be; with its place.
        """
        return Impact(
            effects=effects,
            affected=values_of("impact.affected", self.affected, AffectedRow.affected),
            affected_count=self.affected_clients,
            shadows=values_of("impact.shadows", self.shadows, ShadowRow.shadow),
            new_shadows=values_of("impact.newShadows", self.new_shadows, ShadowRow.shadow),
            silent=self.silent_keys,
            principal_count=self.principal_count,
            unmatched=values_of(
                "impact.unmatchedClientIds", self.unmatched_client_ids, UnmatchedRow.unmatched
            ),
        )


def impact_part(impact: Impact) -> ImpactPart:
    """Return the facts of an impact."""
    return ImpactPart(
        affected=[
            AffectedRow(
                after=_effective_row(affected.after),
                before=_effective_row(affected.before),
                client_id=affected.principal.client_id,
                ip=affected.principal.ip,
                key=affected.key,
                user=affected.principal.user,
            )
            for affected in impact.affected
        ],
        affected_clients=impact.affected_count,
        principal_count=impact.principal_count,
        new_shadows=list(map(_shadow_row, impact.new_shadows)),
        shadows=list(map(_shadow_row, impact.shadows)),
        silent_keys=impact.silent,
        unmatched_client_ids=[
            UnmatchedRow(
                entity=parts(unmatched.entity), example=unmatched.example, total=unmatched.total
            )
            for unmatched in impact.unmatched
        ],
    )


def _effective_row(effective: EffectiveLimit) -> EffectiveRow:
    return EffectiveRow(
        source=None if effective.source is None else parts(effective.source),
        unranked=tuple(
            UnrankedRow(entity=limit.entity, value=written_set_value(limit.value))
            for limit in effective.unranked
        ),
        value=written_value(effective.value),
    )


def _shadow_row(shadow: ShadowedLimit) -> ShadowRow:
    return ShadowRow(by=parts(shadow.by), entity=parts(shadow.entity), key=shadow.key)
