"""Budgets: the promised sum is that of every client in small worlds, and only the largest raises are refused."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import OverrideSet, Owner, OwnershipRecords, Recorded
from reconciler.quota.patterns import EntityPattern, NamePattern
from reconciler.quota.planner.budgets import (
    Budget,
    BudgetMeasure,
    BudgetMode,
    BudgetUse,
    budget_uses,
    budget_warnings,
    observed,
)
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.guards import (
    Guard,
    Guards,
    Violation,
    budget_violations,
    check_with_budgets,
)
from reconciler.quota.planner.plan import Plan, QuotaChange
from reconciler.quota.policy import Cause, DriftMode, Policy
from reconciler.quota.precedence import Principal, principals_with_quotas, resolve
from reconciler.quota.results.report import Preview, ValidationResult
from reconciler.quota.state import QuotaState, limits_of

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
    desired: DesiredState | None = None,
    owned: OwnershipRecords = OWNED,
    logins=(),
) -> BudgetUse:
    plan = Plan(cluster_id="c", changes=changes)
    claims = [item.claim for item in changes if item.claim is not None]
    documents = merge(claims) if desired is None else desired
    (use,) = budget_uses(plan, [budget], live, desired=documents, owned=owned, logins=logins)
    return use


def change(
    subject: Entity, before: float | None, after: float | None, namespace: str = "team"
) -> QuotaChange:
    claim = Declaration(
        document=f"{namespace}/{subject}",
        entity=subject,
        limits=limits_of({RATE: after or 1.0}),
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

    named = principals_with_quotas(live) | principals
    clients, expected = every_client(live, principals), 0.0
    for subject, limits in live.limits.items():
        if buckets_of(clients, subject):
            amount = 1
            if DEFAULT in subject:
                amount = max(len(buckets_of(named, subject)), assumed, 1)
            expected += amount * (limits[0] or 0.0)
    budget = replace(BUDGET, assumed_clients=assumed)
    use = use_of(budget, live, logins=principals)
    assert use.after == use.before == expected
    unlimited = [client for client in named if resolve(live, client, (RATE,)).limit(RATE) is None]
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
    assert use_of(budget, live, logins=principals).after == 50.0 + 2 * 5.0
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
            assert use_of(budget, live, *fitting).after <= max(use.before, amount)


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
    use = use_of(BUDGET, live, change(entity(user="a"), 5.0, None), logins=principals)
    assert (use.before, use.after) == (95.0, 180.0)
    (violation,) = budget_violations([use])
    assert violation.entity == entity(user="a")
    assert "fits" not in violation.message


def test_clients_that_a_plan_names_count_with_the_default_limit_that_they_get() -> None:
    """A limit of another key makes a client known: the next plan would count it."""
    live = QuotaState(limits={entity(user=DEFAULT): limits_of({RATE: 40.0})})
    share = tuple(
        QuotaChange(
            entity=entity(user=name),
            key=Key.REQUEST_PERCENTAGE,
            before=None,
            after=50.0,
            cause=Cause.CREATE,
        )
        for name in ("a", "b", "c")
    )
    use = use_of(BUDGET, live, *share)
    assert (use.before, use.after, use.raised_by) == (40.0, 120.0, ())
    (violation,) = budget_violations([use])
    assert (violation.entity, violation.key) == (None, None)


def test_a_document_that_moves_between_namespaces_takes_its_limit_with_it() -> None:
    owner = Owner(document="other/a")
    owned = OWNED.with_changes(
        [Recorded(entity=entity(user="a"), key=RATE, value=90.0, owner=owner)]
    )
    live = live_of(a=90.0, b=20.0)
    claims = [
        change(entity(user=name), None, value, "pay").claim
        for name, value in (("a", 90.0), ("b", 20.0))
    ]
    budget = replace(BUDGET, namespaces=frozenset({"pay"}))
    use = use_of(budget, live, desired=merge(filter(None, claims)), owned=owned)
    # A live limit without a record belongs to the document that declares it.
    assert (use.before, use.after, use.is_refused) == (20.0, 110.0, True)
    assert len(budget_violations([use])) == 1


def test_a_limit_under_a_temporary_one_counts_with_the_larger_of_both() -> None:
    override = Override(
        entity=entity(user="a"),
        key=RATE,
        value=70.0,
        until=9.0,
        author="x",
        before=30.0,
        applied=70.0,
    )
    owned = OWNED.with_changes([OverrideSet(override=override)])
    assert use_of(BUDGET, live_of(a=70.0, b=20.0), owned=owned).after == 90.0
    low = OWNED.with_changes([OverrideSet(override=replace(override, value=10.0, applied=10.0))])
    assert use_of(BUDGET, live_of(a=10.0, b=20.0), owned=low).after == 50.0


def test_a_lowering_of_another_tenant_is_not_named_beside_removals_that_raise_a_sum() -> None:
    live = QuotaState(
        limits={
            entity(user=DEFAULT): limits_of({RATE: 60.0}),
            **{entity(user=name): limits_of({RATE: 5.0}) for name in ("a", "b", "c")},
        }
    )
    use = use_of(
        BUDGET,
        live,
        change(entity(user="a"), 5.0, None),
        change(entity(user="b"), 5.0, None),
        change(entity(user="c"), 5.0, 4.0),
        logins=[Principal(user=name) for name in ("a", "b")],
    )
    assert [item.entity for item, _ in use.raised_by] == [entity(user="a"), entity(user="b")]


def test_an_infinite_or_huge_live_limit_is_a_sum_and_no_error() -> None:
    for value in (float("inf"), 1.7e308):
        use = use_of(replace(BUDGET, key=RATE), live_of(a=value, b=1.7e308, c=1.7e308))
        assert use.after == float("inf")
        assert use.is_exceeded


def test_a_budget_that_counts_nothing_is_a_warning() -> None:
    use = use_of(replace(BUDGET, namespaces=frozenset({"paymnts"})), live_of(a=1.0))
    (warning,) = budget_warnings([use])
    assert warning.endswith("no producer_byte_rate of namespace paymnts is declared")


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
    use = use_of(BUDGET, live, logins=principals)
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


def test_without_budgets_a_plan_has_the_violations_of_guards_alone() -> None:
    plan = Plan(cluster_id="c", changes=(change(entity(user=DEFAULT), None, 5.0),))
    uses, violations = check_with_budgets(
        plan, Guards(), live_of(), desired=merge(()), owned=OWNED, logins=()
    )
    assert uses == ()
    assert {violation.guard for violation in violations} == {Guard.PROTECTED, Guard.BOUNDS_UNIT}


def test_shares_that_overflow_together_are_an_infinite_sum() -> None:
    live = live_of(a=1e308, b=1e308)
    assert use_of(BUDGET, live).after == float("inf")


def test_a_client_without_a_limit_is_counted_apart_for_the_whole_cluster_alone() -> None:
    live, logins = live_of(a=1.0), [Principal(user="free")]
    assert use_of(BUDGET, live, logins=logins).unlimited == 1
    budget = replace(BUDGET, namespaces=frozenset({"pay"}))
    assert use_of(budget, live, logins=logins).unlimited == 0


def test_a_preview_with_other_figures_has_their_violations_and_warnings_alone() -> None:
    plan = Plan(cluster_id="c", changes=(change(entity(user="a"), None, 500.0),))
    promised = use_of(replace(BUDGET, basis=BudgetMeasure.OBSERVED), live_of(), *plan.changes)
    preview = Preview(
        plan=plan,
        budgets=(promised,),
        violations=(Violation(guard=Guard.MAX_REMOVALS, message="x"),),
        warnings=("other", promised.words),
        verdict=ValidationResult(source="none"),
        policy=Policy.UPSERT,
        drift_mode=DriftMode.WARN,
        created_at=0.0,
    )
    refused = preview.with_budgets((observed(promised, before=1.0, after=700.0),))
    assert [violation.guard for violation in refused.violations] == [
        Guard.MAX_REMOVALS,
        Guard.BUDGET,
    ]
    assert refused.warnings == ("other",)
    assert preview.with_budgets((promised,)).warnings == ("other", promised.words)


def test_a_limit_of_a_client_id_counts_unless_a_limit_of_all_users_is_closer() -> None:
    etl = QuotaState(limits={entity(client_id="etl"): limits_of({RATE: 5.0})})
    assert use_of(BUDGET, etl).after == 5.0
    both = QuotaState(limits={**etl.limits, entity(user=DEFAULT): limits_of({RATE: 3.0})})
    assert use_of(BUDGET, both).after == 3.0
    of_other_key = QuotaState(
        limits={**etl.limits, entity(user=DEFAULT): limits_of({CONNECTIONS: 3.0})}
    )
    assert use_of(BUDGET, of_other_key).after == 5.0


def test_a_client_whose_user_has_the_limit_is_no_client_of_a_default() -> None:
    live = QuotaState(
        limits={
            entity(user=DEFAULT): limits_of({RATE: 3.0}),
            entity(user="a"): limits_of({RATE: 9.0}),
        }
    )
    assert use_of(BUDGET, live, logins=[Principal(user="a", client_id="x")]).after == 12.0


def test_while_recorded_use_exceeds_a_budget_every_raise_is_refused_and_nothing_else() -> None:
    """What a limit held back was not seen, so the figure after a raise is the one before."""
    budget = replace(BUDGET, basis=BudgetMeasure.OBSERVED)
    live = live_of(a=10.0, b=20.0)
    lowered, raised = change(entity(user="a"), 10.0, 5.0), change(entity(user="b"), 20.0, 21.0)
    use = observed(use_of(budget, live, lowered, raised), before=130.0, after=130.0)
    assert [violation.entity for violation in budget_violations([use])] == [entity(user="b")]
    assert not observed(use, before=90.0, after=90.0).is_refused
    calm = observed(use_of(budget, live, lowered), before=130.0, after=125.0)
    assert (calm.is_exceeded, calm.is_refused) == (True, False)


def test_the_namespace_that_raises_most_in_all_gives_way_before_the_larger_raise_of_another() -> (
    None
):
    names = ("b", "c", "d", "e")
    many = [change(entity(user=name), None, 30.0, "large") for name in names]
    use = use_of(BUDGET, live_of(), *many, change(entity(user="f"), None, 40.0, "small"))
    assert (use.budget.allowed, use.after) == (100.0, 160.0)
    assert [raising.namespace for raising, _ in use.raised_by] == ["large", "large"]


def test_of_one_namespace_the_largest_raise_gives_way_first() -> None:
    sizes = {"b": 20.0, "c": 60.0, "d": 40.0}
    raises = [change(entity(user=name), None, size) for name, size in sizes.items()]
    ((raising, _),) = use_of(BUDGET, live_of(), *raises).raised_by
    assert raising.entity == entity(user="c")
