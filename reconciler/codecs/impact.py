"""The impact of a plan on clients and on budgets, as parts of a saved plan: their types, made from values and back."""

from typing import Annotated

from msgspec import Meta, field

from reconciler.codecs.plan_rows import PlanPart
from reconciler.codecs.reader import values_of
from reconciler.quota.entity import EntityParts, from_parts, level, parts
from reconciler.quota.keys import Key, SetValue, WrittenValue
from reconciler.quota.patterns import EVERYTHING
from reconciler.quota.planner.budgets import Budget, BudgetMeasure, BudgetMode, BudgetUse, Share
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


class ShareRow(PlanPart, frozen=True, kw_only=True):
    """What a limit contributes to the sum of a budget."""

    clients: Annotated[int, Meta(ge=0)]
    entity: EntityParts
    limit: SetValue


class SpareRow(PlanPart, frozen=True, kw_only=True):
    """A limit that is far above recorded use."""

    entity: EntityParts
    used: SetValue


class BudgetRow(PlanPart, frozen=True, kw_only=True):
    """A budget, and its use before and after the plan."""

    after: SetValue
    amount: SetValue
    basis: BudgetMeasure
    before: SetValue
    configured_basis: BudgetMeasure
    has_entities: bool = False
    key: Key
    largest: tuple[ShareRow, ...]
    mode: BudgetMode
    name: str
    namespaces: tuple[str, ...] = ()
    note: str = ""
    overcommit: SetValue
    spare: tuple[SpareRow, ...] = ()
    unlimited: Annotated[int, Meta(ge=0)] = 0

    def use(self) -> BudgetUse:
        """Return the use of the budget, without the patterns of its entities."""
        return BudgetUse(
            budget=Budget(
                name=self.name,
                key=self.key,
                amount=read_set_value(self.amount),
                overcommit=read_set_value(self.overcommit),
                mode=self.mode,
                basis=self.configured_basis,
                namespaces=frozenset(self.namespaces),
                entities=(EVERYTHING,) if self.has_entities else (),
            ),
            before=read_set_value(self.before),
            after=read_set_value(self.after),
            basis=self.basis,
            note=self.note,
            largest=tuple(
                Share(from_parts(row.entity), read_set_value(row.limit), row.clients)
                for row in self.largest
            ),
            spare=tuple((from_parts(row.entity), read_set_value(row.used)) for row in self.spare),
            unlimited=self.unlimited,
        )


def budget_row(use: BudgetUse) -> BudgetRow:
    """Return the facts of the use of a budget."""
    budget = use.budget
    return BudgetRow(
        after=written_set_value(use.after),
        amount=written_set_value(budget.amount),
        basis=use.basis,
        before=written_set_value(use.before),
        configured_basis=budget.basis,
        has_entities=bool(budget.entities),
        key=budget.key,
        largest=tuple(
            ShareRow(
                clients=share.clients,
                entity=parts(share.entity),
                limit=written_set_value(share.limit),
            )
            for share in use.largest
        ),
        spare=tuple(
            SpareRow(entity=parts(entity), used=written_set_value(used))
            for entity, used in use.spare
        ),
        mode=budget.mode,
        name=budget.name,
        namespaces=tuple(sorted(budget.namespaces)),
        note=use.note,
        overcommit=written_set_value(budget.overcommit),
        unlimited=use.unlimited,
    )
