"""Budgets: the promised sum is that of every client in small worlds, and only the largest raises are refused."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.planner.budgets import (
    Budget,
    BudgetMeasure,
    BudgetMode,
    BudgetUse,
    budget_uses,
    observed,
)
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.guards import Guard, budget_violations
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause
from reconciler.quota.precedence import Principal, resolve
from reconciler.quota.state import NO_LIMITS, QuotaState, limits_of

RATE, CONNECTIONS = Key.PRODUCER_BYTE_RATE, Key.CONNECTION_CREATION_RATE
USERS, CLIENT_IDS, NEW = ("a", "b"), ("x", "y"), "nobody has this name"
SLOTS = (None, False, "a", "b"), (None, False, "x", "y")
ENTITIES = tuple(
    entity(
        **{
            name: DEFAULT if slot is None else slot
            for name, slot in zip(("user", "client_id"), slots, strict=True)
            if slot is not False
        }
    )
    for slots in product(*SLOTS)
    if slots != (False, False)
)
OWNED = OwnershipRecords(cluster_id="c")
BUDGET = Budget(name="broker", key=RATE, amount=100.0, mode=BudgetMode.REFUSE)
STATES = st.dictionaries(st.sampled_from(ENTITIES), st.integers(1, 9), max_size=6).map(
    lambda limits: QuotaState(
        limits={subject: limits_of({RATE: float(value)}) for subject, value in limits.items()}
    )
)
PRINCIPALS = st.sets(
    st.builds(
        Principal, user=st.sampled_from([*USERS, "c"]), client_id=st.sampled_from([None, "x", "z"])
    ),
    max_size=4,
)


def use_of(
    budget: Budget,
    live: QuotaState,
    *changes: QuotaChange,
    owned: OwnershipRecords = OWNED,
    principals=(),
) -> BudgetUse:
    plan = Plan(cluster_id="c", changes=changes)
    (use,) = budget_uses(plan, [budget], live, owned=owned, principals=principals)
    return use


def change(
    subject: Entity, before: float | None, after: float | None, namespace: str = "team"
) -> QuotaChange:
    claim = Declaration(
        document=f"{namespace}/{subject}",
        entity=subject,
        limits=NO_LIMITS,
        path=f"{namespace}.yaml",
        line=3,
    )
    return QuotaChange(
        entity=subject,
        key=RATE,
        before=before,
        after=after,
        cause=Cause.SPEC,
        claim=None if after is None else claim,
    )


def live_of(**limits: float) -> QuotaState:
    return QuotaState(
        limits={entity(user=name): limits_of({RATE: value}) for name, value in limits.items()}
    )


def every_client(live: QuotaState, principals: set[Principal]) -> list[Principal]:
    """Return one client for each combination of names that anybody has, with new names, and without a client-id."""
    users = {*USERS, NEW, *(principal.user for principal in principals)}
    client_ids = {*CLIENT_IDS, NEW, None, *(principal.client_id for principal in principals)}
    return [Principal(user=user, client_id=name) for user, name in product(users, client_ids)]


@given(STATES, PRINCIPALS, st.integers(0, 3))
def test_the_promised_sum_is_that_of_the_buckets_of_every_client(live, principals, assumed) -> None:
    """The model resolves every client; the program looks at no client of a named limit."""

    def buckets_of(clients, subject: Entity) -> set[tuple[str, ...]]:
        resolved = (resolve(live, client, (RATE,)).effective[0] for client in clients)
        return {effective.bucket for effective in resolved if effective.source == subject}

    clients, expected = every_client(live, principals), 0.0
    for subject, limits in live.limits.items():
        if buckets_of(clients, subject):
            amount = 1
            if DEFAULT in subject:
                amount = max(len(buckets_of(principals, subject)), assumed, 1)
            expected += amount * (limits[0] or 0.0)
    budget = replace(BUDGET, assumed_clients=assumed)
    use = use_of(budget, live, principals=principals)
    assert use.after == use.before == expected
    unlimited = [
        client for client in principals if resolve(live, client, (RATE,)).limit(RATE) is None
    ]
    assert use.unlimited == len(unlimited)


def test_a_default_limit_of_addresses_counts_for_each_known_address_without_a_limit_of_its_own() -> (
    None
):
    live = QuotaState(
        limits={
            entity(ip=DEFAULT): limits_of({CONNECTIONS: 5.0}),
            entity(ip="10.0.0.1"): limits_of({CONNECTIONS: 50.0}),
        }
    )
    principals = [Principal(ip=f"10.0.0.{number}") for number in range(1, 4)]
    budget = replace(BUDGET, key=CONNECTIONS)
    assert use_of(budget, live, principals=principals).after == 50.0 + 2 * 5.0
    assert use_of(budget, live).after == 50.0 + 5.0


CHANGED = st.lists(
    st.tuples(st.sampled_from(ENTITIES), st.one_of(st.none(), st.integers(1, 90))),
    max_size=5,
    unique_by=lambda item: item[0],
)


@given(STATES, CHANGED, st.integers(1, 60))
def test_what_is_left_of_a_refused_plan_is_no_worse_and_the_named_value_fits(
    live, values, amount
) -> None:
    changes = tuple(
        change(subject, before, None if value is None else float(value))
        for subject, value in values
        if (before := live.value(subject, RATE)) != value
    )
    budget = replace(BUDGET, amount=float(amount))
    use = use_of(budget, live, *changes)
    violations = budget_violations([use])
    assert {violation.guard for violation in violations} <= {Guard.BUDGET}
    assert bool(violations) == (use.after > max(use.before, amount))
    remaining_changes, remaining_use = changes, use
    while remaining_use.is_refused:  # as a loop withholds: the rest is judged again
        withheld = {raising.entity for raising, _ in remaining_use.raised_by}
        assert withheld
        remaining_changes = tuple(item for item in remaining_changes if item.entity not in withheld)
        remaining_use = use_of(budget, live, *remaining_changes)
    assert remaining_use.after <= max(use.before, amount)
    for raising, fits in use.raised_by if violations else ():
        if fits is not None:
            fitting = tuple(item for item in changes if item is not raising)
            if fits != raising.before:
                fitting += (replace(raising, after=fits),)
            assert use_of(budget, live, *fitting).after <= amount


def test_one_large_request_does_not_hold_back_the_small_ones_of_others() -> None:
    live = live_of(a=50.0)
    use = use_of(
        BUDGET,
        live,
        change(entity(user="b"), None, 10.0, "small"),
        change(entity(user="c"), None, 200.0, "large"),
        change(entity(user="d"), None, 5.0, "small"),
    )
    ((raising, fits),) = use.raised_by
    assert (raising.entity, fits) == (entity(user="c"), 35.0)
    (violation,) = budget_violations([use])
    assert violation.message.endswith("at most 35 B/s fits for this limit")
    assert violation.place == "large.yaml:3"


def test_a_plan_that_lowers_an_exceeded_sum_is_not_refused() -> None:
    live = live_of(a=500.0)
    assert not budget_violations([use_of(BUDGET, live, change(entity(user="a"), 500.0, 400.0))])
    assert budget_violations([use_of(BUDGET, live, change(entity(user="a"), 500.0, 600.0))])
    assert use_of(BUDGET, live).is_exceeded


def test_a_removal_after_which_more_clients_use_a_default_is_refused_by_name() -> None:
    live = QuotaState(
        limits={
            entity(user=DEFAULT): limits_of({RATE: 90.0}),
            entity(user="a"): limits_of({RATE: 5.0}),
        }
    )
    principals = [Principal(user="a"), Principal(user="b")]
    use = use_of(BUDGET, live, change(entity(user="a"), 5.0, None), principals=principals)
    assert (use.before, use.after) == (95.0, 180.0)
    (violation,) = budget_violations([use])
    assert violation.entity == entity(user="a")
    assert "fits" not in violation.message


def test_a_budget_of_a_namespace_counts_what_its_documents_declare_before_and_after() -> None:
    owned = OWNED.with_changes(
        [
            Recorded(
                entity=entity(user=name),
                key=RATE,
                value=value,
                owner=Owner(document=f"{namespace}/{name}"),
            )
            for name, value, namespace in (("a", 10.0, "pay"), ("b", 20.0, "shop"))
        ]
    )
    live = live_of(a=10.0, b=20.0, unmanaged=40.0)
    budget = replace(BUDGET, namespaces=frozenset({"pay"}))
    use = use_of(budget, live, change(entity(user="c"), None, 7.0, "pay"), owned=owned)
    assert (use.before, use.after) == (10.0, 17.0)
    gone = use_of(budget, live, change(entity(user="a"), 10.0, None), owned=owned)
    assert (gone.before, gone.after) == (10.0, 0.0)
    assert use.budget.scope == "namespace pay"


def test_a_budget_of_some_entities_counts_no_others() -> None:
    pattern = EntityPattern(user=NamePattern(prefix="batch-"))
    live = QuotaState(
        limits={
            entity(user="batch-1"): limits_of({RATE: 3.0}),
            entity(user="web"): limits_of({RATE: 50.0}),
        }
    )
    use = use_of(replace(BUDGET, entities=(pattern,)), live)
    assert (use.after, use.budget.scope) == (3.0, "some entities")


def test_the_largest_shares_are_named_by_what_all_their_clients_may_use() -> None:
    live = QuotaState(
        limits={
            entity(user=DEFAULT): limits_of({RATE: 4.0}),
            **{entity(user=f"u{number}"): limits_of({RATE: float(number)}) for number in range(9)},
        }
    )
    principals = [Principal(user=f"new-{number}") for number in range(3)]
    use = use_of(BUDGET, live, principals=principals)
    assert [share.amount for share in use.largest] == [12.0, 8.0, 7.0, 6.0, 5.0]
    assert use.largest[0].clients == 3


def test_recorded_use_that_is_not_there_refuses_nothing_and_says_so() -> None:
    budget = replace(BUDGET, basis=BudgetMeasure.OBSERVED)
    use = use_of(budget, live_of(), change(entity(user="a"), None, 500.0))
    assert (use.basis, use.note) == (BudgetMeasure.PROMISED, "no recorded use was read")
    assert use.is_warning
    assert not budget_violations([use])
    refused = observed(use, before=80.0, after=130.0)
    (violation,) = budget_violations([refused])
    assert "130 B/s would be observed, 80 B/s before" in violation.message


def test_overcommitment_multiplies_what_is_allowed() -> None:
    use = use_of(
        replace(BUDGET, overcommit=1.5), live_of(a=149.0), change(entity(user="b"), None, 1.0)
    )
    assert (use.budget.allowed, use.is_exceeded) == (150.0, False)


@pytest.mark.parametrize("number", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_that_is_not_above_zero_cannot_be(number: float) -> None:
    with pytest.raises(QuotaValueError, match="limits must be a number above 0"):
        Budget(name="a", key=RATE, amount=number)
    with pytest.raises(QuotaValueError, match="overcommit must be a number above 0"):
        Budget(name="a", key=RATE, amount=1.0, overcommit=number)
