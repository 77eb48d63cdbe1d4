"""The use of a budget is the same after it was written and read, whatever its numbers."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.codecs.impact import BudgetRow, budget_row
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EVERYTHING
from reconciler.quota.planner.budgets import Budget, BudgetMeasure, BudgetMode, BudgetUse, Share

AMOUNTS = st.floats(min_value=1e-9, max_value=1e300)
BUDGETS = st.builds(
    Budget,
    name=st.just("a"),
    key=st.sampled_from(Key),
    amount=AMOUNTS,
    overcommit=AMOUNTS,
    mode=st.sampled_from(BudgetMode),
    basis=st.sampled_from(BudgetMeasure),
    namespaces=st.frozensets(st.sampled_from(("pay", "shop"))),
    entities=st.sampled_from(((), (EVERYTHING,))),
)
USES = st.builds(
    BudgetUse,
    budget=BUDGETS,
    before=AMOUNTS,
    after=st.one_of(AMOUNTS, st.just(float("inf"))),
    basis=st.sampled_from(BudgetMeasure),
    note=st.text(max_size=3),
    largest=st.lists(
        st.builds(
            Share,
            st.sampled_from((entity(user="a"), entity(user=DEFAULT))),
            AMOUNTS,
            st.integers(1),
        ),
        max_size=2,
    ).map(tuple),
    spare=st.sampled_from(((), ((entity(user="a"), 0.5),))),
    unlimited=st.integers(0, 9),
)


@given(USES)
def test_a_use_is_the_same_after_it_was_written_and_read(use: BudgetUse) -> None:
    text = msgspec.json.encode(budget_row(use), enc_hook=float)
    assert msgspec.json.decode(text, type=BudgetRow).use() == replace(use, raised_by=())
