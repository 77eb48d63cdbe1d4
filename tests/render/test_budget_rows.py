"""Budgets as a table: each names its scope, what it allows and what uses it most."""

import pytest

from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.budgets import (
    Budget,
    BudgetMeasure,
    BudgetMode,
    BudgetUse,
    Share,
    observed,
)
from reconciler.render.budget_rows import BUDGETS, bar

BUDGET = Budget(
    name="pay",
    key=Key.PRODUCER_BYTE_RATE,
    amount=100.0 * 2**20,
    mode=BudgetMode.REFUSE,
    namespaces=frozenset({"payments"}),
)
USE = BudgetUse(
    budget=BUDGET,
    before=50.0 * 2**20,
    after=120.0 * 2**20,
    basis=BudgetMeasure.PROMISED,
    largest=(
        Share(entity(user=DEFAULT), 30.0 * 2**20, 3),
        Share(entity(user="a"), 30.0 * 2**20, 1),
    ),
    unlimited=2,
)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "░" * 20),
        (0.5, "█" * 10 + "░" * 10),
        (1.0, "█" * 20),
        (7.0, "█" * 20 + "▶"),
    ],
)
def test_a_bar_is_full_at_what_a_budget_allows(share: float, text: str) -> None:
    assert bar(share) == text


def test_a_row_has_the_figures_their_basis_and_the_largest_limits() -> None:
    ((name, *numbers, verdict, use, largest),) = BUDGETS.of([USE]).rows
    assert (name.text, name.below) == ("pay", ("producer_byte_rate of namespace payments",))
    assert [cell.text for cell in numbers] == ["100 MiB/s", "50 MiB/s", "120 MiB/s"]
    assert verdict.text == "refused"
    assert use.text.endswith("120 % promised")
    assert use.below == (
        "2 clients with a limit or a login of their own and no such limit: not counted",
    )
    assert (largest.text, largest.below) == ("user=<default> 3 x 30 MiB/s", ("user=a 30 MiB/s",))


def test_a_row_without_a_limit_says_so_and_observed_use_is_called_that() -> None:
    measured = observed(USE, before=0.0, after=1.0, note="since 3 d")
    ((*_, use, largest),) = BUDGETS.of([measured]).rows
    assert use.text.endswith("0 % observed")
    assert use.below[0] == "since 3 d"
    ((*_, nothing),) = BUDGETS.of(
        [BudgetUse(budget=BUDGET, before=0.0, after=0.0, basis=USE.basis)]
    ).rows
    assert nothing.text == "no limit counts"
    assert largest.below
