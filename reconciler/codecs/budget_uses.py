"""Budgets of a plan and their use: the type of their JSON, and uses as such rows and back."""

from typing import Annotated

from msgspec import Meta

from reconciler.codecs.plan_rows import PlanPart
from reconciler.quota.entity import EntityParts, from_parts, parts
from reconciler.quota.keys import Key, SetValue
from reconciler.quota.patterns import EVERYTHING
from reconciler.quota.planner.budgets import Budget, BudgetMeasure, BudgetMode, BudgetUse, Share
from reconciler.render.json_values import read_set_value, written_set_value


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
