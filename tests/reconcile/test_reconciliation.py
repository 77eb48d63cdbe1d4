"""One reconciliation of a loop: what is withheld, what waits, what is held because of it, and its report."""

import asyncio
import sys
from types import FrameType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.errors import Interrupted, InventoryError, WrongCluster
from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import COLUMN_OF, Key
from reconciler.quota.planner.budgets import Budget, BudgetMode
from reconciler.quota.planner.desired_state import DesiredState, merge
from reconciler.quota.planner.guards import Guard, Guards, check
from reconciler.quota.planner.plan import Plan
from reconciler.quota.policy import DriftMode, Policy, Rules
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import NewOverride, reconcile_cluster, withhold
from tests.reconcile.scenarios import (
    ALICE,
    ALICE_SHOP,
    ANYONE,
    BOB,
    CONSUME,
    OPEN,
    RATE,
    SHARE,
    World,
    declared,
    documents,
    state,
)

CORRECT = Rules(policy=Policy.SYNC, sync_confirmed=True, drift=DriftMode.CORRECT)
USERS = {ALICE: {RATE: 1000.0, SHARE: 50.0}, BOB: {RATE: 2000.0}}


def passed(world: World, declared: dict | DesiredState, **orders) -> Reconciliation:
    return asyncio.run(a_pass(world, declared, **orders))


async def a_pass(
    world: World, declared, *, corrects=None, before=None, refuses: str = "", **orders
) -> Reconciliation:
    async def refusal(_: Plan) -> str:
        return refuses

    run_options = {"refuses_removals": refusal}
    run_options |= {} if corrects is None else {"corrects": corrects}
    run_options |= {} if before is None else {"before_sending": before}
    desired = declared if isinstance(declared, DesiredState) else documents(declared)
    return await reconcile_cluster(
        world.ports, world.options(**orders), desired, cluster="prod", **run_options
    )


def words(reconciliation: Reconciliation) -> dict:
    assert reconciliation.outcome is not None
    return {pair.change.pair: pair.status_text for pair in reconciliation.outcome.pairs}


def withheld(reconciliation: Reconciliation) -> dict:
    return {
        withheld_change.change.pair: {violation.guard for violation in withheld_change.violations}
        for withheld_change in reconciliation.withheld
    }


# -- guards -----------------------------------------------------------------------------------------


def test_a_change_to_eight_times_the_value_is_applied_with_a_warning():
    world = World({ALICE: {RATE: 1000.0}})
    reconciliation = passed(world, {ALICE: {RATE: 8000.0}})
    assert reconciliation.preview is not None
    assert reconciliation.preview.warnings[1:] == (
        "user=alice: producer_byte_rate changes by a factor of exactly 8; limits are in bytes per second, not in bits",
    )
    assert words(reconciliation) == {(ALICE, RATE): "APPLIED"}


def test_what_is_withheld_makes_the_rest_of_an_old_plan_not_stale():
    world = World({ANYONE: {RATE: 10.0}})
    world.apply(documents({ALICE_SHOP: {RATE: 5.0}, BOB: {RATE: 5.0}}))

    async def slow(_: Plan) -> None:
        world.cluster.clock.advance(60.0)

    reconciliation = passed(world, {BOB: {RATE: 6.0}}, before=slow, refuses="not now")
    assert set(withheld(reconciliation)) == {(ALICE_SHOP, RATE)}
    assert words(reconciliation) == {(BOB, RATE): "APPLIED"}


def test_a_loop_withholds_the_large_raise_that_a_budget_refuses_and_makes_the_small_one():
    budget = Budget(name="broker", key=RATE, amount=3500.0, mode=BudgetMode.REFUSE)
    world = World({ALICE: {RATE: 1000.0}}, guards=replace(OPEN, budgets=(budget,)))
    reconciliation = passed(
        world, {ALICE: {RATE: 1000.0}, BOB: {RATE: 9000.0}, ALICE_SHOP: {RATE: 2000.0}}
    )
    assert withheld(reconciliation) == {(BOB, RATE): {Guard.BUDGET}}
    assert world.cluster.truth == state({ALICE: {RATE: 1000.0}, ALICE_SHOP: {RATE: 2000.0}})
    assert reconciliation.preview is not None
    (use,) = reconciliation.preview.budgets
    assert (use.before, use.after) == (1000.0, 12000.0)


@pytest.mark.parametrize(
    ("guards", "guard"),
    [
        (replace(OPEN, max_removals=1), Guard.MAX_REMOVALS),
        (replace(OPEN, max_removed_percent=5.0), Guard.MAX_REMOVED_SHARE),
    ],
)
def test_too_many_removals_are_all_withheld_and_the_rest_is_made(guards: Guards, guard: Guard):
    many = {entity(user=f"u{number}"): {RATE: 1000.0} for number in range(30)}
    world = World()
    passed(world, many)
    fewer = dict(list(many.items())[2:]) | {BOB: {RATE: 3000.0}}
    reconciliation = passed(world, fewer, guards=guards)
    first, second = list(many)[:2]
    assert withheld(reconciliation) == {(first, RATE): {guard}, (second, RATE): {guard}}
    assert words(reconciliation) == {(BOB, RATE): "APPLIED"}
    assert world.cluster.truth.value(second, RATE) == 1000.0
    assert passed(world, fewer).in_order
    assert world.cluster.truth.value(second, RATE) is None


def test_an_empty_desired_state_removes_nothing():
    world = World()
    passed(world, USERS)
    reconciliation = passed(world, {}, guards=replace(OPEN, allow_empty=False))
    assert {guard for guards in withheld(reconciliation).values() for guard in guards} == {
        Guard.EMPTY_DESIRED
    }
    assert len(reconciliation.withheld) == 3
    assert reconciliation.outcome is None
    assert world.cluster.truth == state(USERS)


def test_a_change_that_relies_on_a_withheld_one_is_held():
    # The client's own limit may be removed only after the user's limit is set, and that is withheld.
    world = World()
    passed(world, {ALICE_SHOP: {RATE: 1000.0}})
    reconciliation = passed(
        world,
        {ALICE: {RATE: 10.0}, BOB: {RATE: 5000.0}},
        guards=replace(OPEN, allow_small_values=False),
    )
    assert withheld(reconciliation) == {(ALICE, RATE): {Guard.BOUNDS_UNIT}}
    assert words(reconciliation) == {(ALICE_SHOP, RATE): "HELD", (BOB, RATE): "APPLIED"}
    assert world.cluster.truth.value(ALICE_SHOP, RATE) == 1000.0
    # A held change does not change its record: the pair is still owned, and is removed when the guard is satisfied.
    assert passed(world, {ALICE: {RATE: 10.0}, BOB: {RATE: 5000.0}}).in_order
    assert world.cluster.truth.value(ALICE_SHOP, RATE) is None


def test_a_withheld_removal_does_not_hold_a_set():
    # Every set is sent before every removal, so each client has its limit of before or after.
    world = World()
    passed(world, {ALICE_SHOP: {RATE: 1000.0}, ALICE: {RATE: 2000.0}})
    reconciliation = passed(world, {ALICE: {RATE: 4000.0}}, guards=replace(OPEN, max_removals=0))
    assert withheld(reconciliation) == {(ALICE_SHOP, RATE): {Guard.MAX_REMOVALS}}
    assert words(reconciliation) == {(ALICE, RATE): "APPLIED"}
    assert world.cluster.truth.value(ALICE, RATE) == 4000.0


def order_of(
    world: World, value: float | None, *, subject: Entity = ALICE, key: Key = RATE
) -> NewOverride:
    """Return an override of one minute."""
    return NewOverride(
        entity=subject,
        key=key,
        value=value,
        until=world.cluster.clock.now() + 60.0,
        principal="me",
        reason="incident",
    )


def overridden_for_a_while(world: World, desired: DesiredState, *, value: float | None) -> None:
    """Begin an override, and let its time pass."""
    world.apply(desired, overrides=(order_of(world, value),))
    world.cluster.clock.advance(100.0)


@pytest.mark.parametrize("before", [1000.0, None])
@pytest.mark.parametrize("desired", [1e9, None])
@pytest.mark.parametrize("is_rejected", [False, True])
def test_an_override_ends_although_a_guard_refuses_what_is_declared(
    before: float | None, desired: float | None, is_rejected: bool
):
    """The author of a document would otherwise keep a raised limit, by a value or a removal that a guard refuses."""
    guards = replace(OPEN, max_change_factor=10.0, max_removals=0)
    world = World({ANYONE: {RATE: 500.0}})
    first = documents({ALICE: {SHARE: 50.0} if before is None else {RATE: before, SHARE: 50.0}})
    world.apply(first)
    overridden_for_a_while(world, first, value=5e6)
    declared = {ALICE: {SHARE: 50.0} if desired is None else {RATE: desired, SHARE: 50.0}}
    if is_rejected:
        world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
        assert words(passed(world, declared, guards=guards)) == {(ALICE, RATE): "REJECTED"}
        assert world.cluster.truth.value(ALICE, RATE) == 5e6
        world.cluster.faults.rejected.clear()
    reconciliation = passed(world, declared, guards=guards)
    assert words(reconciliation) == {(ALICE, RATE): "APPLIED"}
    assert reconciliation.expired_overrides == ()
    assert world.cluster.truth.value(ALICE, RATE) == before
    assert world.owned().overrides == {}
    again = passed(world, declared, guards=guards)
    assert again.outcome is None
    assert world.cluster.truth.value(ALICE, RATE) == before
    expected = Guard.MAX_REMOVALS if desired is None else Guard.MAX_CHANGE_FACTOR
    if before is not None:
        assert withheld(again) == {(ALICE, RATE): {expected}}


@pytest.mark.parametrize("value", [None, 5e6, 500.0])
def test_an_override_begins_although_a_guard_refuses_what_is_declared(value: float | None):
    """What waits for its end is no reason for its beginning to wait."""
    guards = replace(OPEN, max_change_factor=10.0)
    world = World({ANYONE: {RATE: 900.0}})
    world.apply(documents({ALICE: {RATE: 1000.0}}))
    began = passed(world, {ALICE: {RATE: 1e9}}, guards=guards, overrides=(order_of(world, value),))
    assert withheld(began) == {(ALICE, RATE): {Guard.MAX_CHANGE_FACTOR}}
    assert words(began) == {(ALICE, RATE): "APPLIED"}
    assert world.cluster.truth.value(ALICE, RATE) == value


@pytest.mark.parametrize("refused", [{ANYONE: {RATE: 500e6}}, {ALICE_SHOP: {RATE: 1e9}}])
@pytest.mark.parametrize("own_limit", [None, 700.0])
@pytest.mark.parametrize("default", [500.0, 600.0])
def test_an_override_ends_although_a_guard_withholds_a_set_that_meets_it(
    refused: dict, own_limit: float | None, default: float
):
    """The author of any refused document would otherwise keep a raised limit."""
    guards = replace(OPEN, max_change_factor=10.0)
    own = {} if own_limit is None else {ALICE: {RATE: own_limit}}
    world = World()
    world.apply(documents({ANYONE: {RATE: 500.0}, **own}))
    overridden_for_a_while(world, documents({ANYONE: {RATE: 500.0}, **own}), value=5e6)
    reconciliation = passed(world, {ANYONE: {RATE: default}, **own, **refused}, guards=guards)
    assert words(reconciliation)[ALICE, RATE] == "APPLIED"
    assert set(words(reconciliation).values()) <= {"APPLIED", "HELD"}
    assert world.cluster.truth.value(ALICE, RATE) == own_limit
    assert world.cluster.truth.value(*next((s, RATE) for s in refused)) in {None, 500.0}
    assert world.owned().overrides == {}


@pytest.mark.parametrize("before", [None, 100.0])
@pytest.mark.parametrize("refusal", ["the definition is being deleted", ""])
def test_an_override_ends_although_nothing_may_be_removed(before: float | None, refusal: str):
    """Its end undoes what kquota did; neither a deleted definition nor a wiped directory asks for it to stay.

    The removal of a limit that was declared is that of the next reconciliation.
    """
    world = World(guards=replace(OPEN, allow_empty=bool(refusal)))
    first = documents({BOB: {RATE: 1.0}} if before is None else {ALICE: {RATE: before}})
    world.apply(first)
    overridden_for_a_while(world, first, value=5e6)
    reconciliation = passed(world, {}, refuses=refusal)
    assert words(reconciliation) == {(ALICE, RATE): "APPLIED"}
    assert world.cluster.truth.value(ALICE, RATE) == before
    assert world.owned().overrides == {}
    assert world.owned().pair_count == 1
    if before is not None:
        assert withheld(reconciliation) == {}
        reconciliation = passed(world, {}, refuses=refusal)
    guard = Guard.DEFINITION if refusal else Guard.EMPTY_DESIRED
    assert withheld(reconciliation) == {(BOB if before is None else ALICE, RATE): {guard}}
    assert world.cluster.truth.value(ALICE, RATE) == before


def test_a_restored_value_belongs_to_the_document_that_owned_it_not_to_that_of_the_refused_value():
    guards = replace(OPEN, max_change_factor=10.0)
    world = World()
    first = documents({ALICE: {RATE: 1000.0}})
    world.apply(first)
    overridden_for_a_while(world, first, value=5e6)
    claim = declared(ALICE, {RATE: 1e9}, document="team/other")
    _ = passed(world, merge([claim]), guards=guards)
    assert records_of(world) == {(ALICE, RATE): (1000.0, first.claim(ALICE, RATE).document)}


LAST_ENTITIES = (ALICE_SHOP, ALICE, ANYONE, entity(client_id="shop"), entity(client_id=DEFAULT))
DECLARED = st.dictionaries(
    st.sampled_from(LAST_ENTITIES),
    st.dictionaries(
        st.sampled_from([RATE, SHARE]), st.sampled_from([10.0, 100.0, 5_000.0, 1e6]), min_size=1
    ),
    max_size=4,
)


POLICIES = st.sampled_from([Policy.UPSERT, Policy.SYNC])
GUARDS = st.builds(
    replace,
    st.just(OPEN),
    max_change_factor=st.just(10.0),
    max_removals=st.sampled_from([0, 10_000]),
)


@example(
    histories=[{ALICE: {RATE: 100.0}}, {ANYONE: {RATE: 100.0}}],
    pair=(ALICE, 7e9),
    guards=OPEN,
    policy=Policy.SYNC,
    rejected={ANYONE},
)
@example(
    histories=[{ALICE: {RATE: 100.0}}, {ALICE: {SHARE: 10.0}}],
    pair=(ALICE, 100.0),
    guards=replace(OPEN, max_removals=0),
    policy=Policy.UPSERT,
    rejected=set(),
)
@given(
    histories=st.lists(DECLARED, min_size=2, max_size=3),
    pair=st.tuples(st.sampled_from(LAST_ENTITIES), st.sampled_from([None, 77.0, 7e9])),
    guards=GUARDS,
    policy=POLICIES,
    rejected=st.sets(st.sampled_from(LAST_ENTITIES), max_size=1),
)
def test_an_override_that_has_ended_leaves_nothing_behind(
    histories, pair, guards, policy, rejected
):
    """Two reconciliations after its end, everything is as if the override had never been.

    The first one restores a limit that is not declared any more, so that the second one can judge its removal. Changes
    that are withheld or held follow the limits of the moment, which an override changes: with any of them, only the value
    and the record of the override are certainly gone.
    """
    subject, value = pair
    plain, overridden = (World(policy=policy, guards=guards) for _ in range(2))
    *earlier, last = histories
    complete: list[bool] = []

    def run(world: World, values: dict, **options: object) -> None:
        reconciliation = passed(world, values, **options)
        outcome = reconciliation.outcome
        is_done = outcome is None or all(result.is_done for result in outcome.pairs)
        complete.append(is_done and not reconciliation.withheld)

    for world in (plain, overridden):
        for values in earlier:
            run(world, values)
    replaced_value = overridden.cluster.truth.value(subject, RATE)
    run(overridden, earlier[-1], overrides=(order_of(overridden, value, subject=subject),))
    for world in (plain, overridden):
        world.cluster.clock.advance(100.0)
        for refused in rejected - {subject}:
            world.cluster.faults.rejected[refused] = (42, "INVALID_REQUEST", "no")
        for _ in range(2):
            run(world, last)
    assert overridden.owned().overrides == {}
    if all(complete):
        assert overridden.cluster.truth == plain.cluster.truth
        assert records_of(overridden) == records_of(plain)
    elif value not in {None, replaced_value}:
        assert overridden.cluster.truth.value(subject, RATE) != value


def records_of(world: World) -> dict:
    """Return the recorded values with their documents."""
    return {
        (subject, key): (record.applied[COLUMN_OF[key]], owner.document)
        for subject, record in world.owned().records.items()
        for key, owner in record.pairs()
    }


@given(st.data())
def test_the_plan_after_withholding_violates_no_guard_that_can_withhold(data):
    subjects = st.sampled_from([ALICE, ALICE_SHOP, BOB, ANYONE, entity(client_id=DEFAULT)])
    values = st.dictionaries(
        st.sampled_from([RATE, CONSUME]), st.sampled_from([10.0, 2000.0, 1e5, 1e9]), min_size=1
    )
    worlds = st.dictionaries(subjects, values, max_size=5)
    world, declared = World(data.draw(worlds)), data.draw(worlds)
    guards = Guards(
        max_removals=data.draw(st.integers(0, 3)),
        protect_defaults=data.draw(st.booleans()),
        allow_small_values=data.draw(st.booleans()),
        allow_empty=True,
    )
    prepared = world.plan(documents(declared))
    plan, withheld_changes = withhold(
        prepared.plan,
        guards,
        prepared.observation.live,
        owned=prepared.observation.owned,
        now=0.0,
        desired=prepared.desired,
    )
    assert {
        *plan.changes,
        *(withheld_change.change for withheld_change in withheld_changes),
    } == set(prepared.plan.changes)
    assert len(plan.changes) + len(withheld_changes) == len(prepared.plan.changes)
    assert check(plan, guards, prepared.observation.live) == ()
    assert all(withheld_change.violations for withheld_change in withheld_changes)
    if not check(prepared.plan, guards, prepared.observation.live):
        assert withheld_changes == ()


# -- policies and drift -----------------------------------------------------------------------------


def drifted() -> World:
    world = World()
    passed(world, USERS)
    world.cluster.clock.advance(60.0)
    world.cluster.write(ALICE, RATE, 7.0)
    return world


def test_drift_whose_correction_is_withheld_keeps_its_first_time():
    world = drifted()
    first = world.cluster.clock.now()
    for _ in range(2):
        reconciliation = passed(
            world, USERS, rules=CORRECT, guards=replace(OPEN, max_change_factor=10.0)
        )
        assert withheld(reconciliation) == {(ALICE, RATE): {Guard.MAX_CHANGE_FACTOR}}
        assert world.owned().drift_since == {(ALICE, RATE): first}
        world.cluster.clock.advance(60.0)


def test_corrected_drift_has_ended():
    world = drifted()
    passed(world, USERS, rules=CORRECT, corrects=lambda change: False)
    assert passed(world, USERS, rules=CORRECT).in_order
    assert world.cluster.truth.value(ALICE, RATE) == 1000.0
    assert world.owned().drift_since == {}


def test_while_an_earlier_leader_may_still_write_new_drift_is_not_recorded():
    world = drifted()

    async def fenced() -> Reconciliation:
        return await reconcile_cluster(
            world.ports, world.options(rules=CORRECT), documents(USERS), cluster="prod", fenced=True
        )

    process = asyncio.run(fenced())
    assert process.preview is not None
    assert process.preview.plan.drift == ()
    assert process.outcome is None
    assert world.owned().drift_since == {}


# -- reports before sending -------------------------------------------------------------------------------


def test_an_exception_of_the_callback_stops_the_reconciliation():
    world = World()

    async def before(plan: Plan) -> None:
        raise InventoryError("no space left on device")

    reconciliation = passed(world, USERS, before=before)
    assert isinstance(reconciliation.error, InventoryError)
    assert world.cluster.writes == 0


# -- errors -------------------------------------------------------------------------------------------


def test_another_cluster_is_an_error_and_never_written():
    world = World()
    reconciliation = passed(world, USERS, expected_cluster_id="another")
    assert isinstance(reconciliation.error, WrongCluster)
    assert world.cluster.writes == 0


def test_records_that_cannot_be_read_are_the_error_of_the_reconciliation():
    class Damaged(MemoryInventory):
        async def load(self, cluster_id):
            raise InventoryError("inventory.json is damaged")

    world = World()
    world.ports = replace(world.ports, inventory=Damaged())
    reconciliation = passed(world, USERS)
    assert isinstance(reconciliation.error, InventoryError)
    assert world.cluster.writes == 0


def test_a_stopped_reconciliation_reports_its_completed_changes():
    world = World()
    reconciliations: list[Reconciliation] = []

    async def stopped() -> None:
        task: asyncio.Task[Reconciliation]

        def stop(request: str) -> None:
            if request == "answer":
                task.cancel()

        world.cluster.faults.before = stop
        task = asyncio.ensure_future(a_pass(world, {ANYONE: {RATE: 9e3}, ALICE: {RATE: 1e3}}))
        reconciliations.append(await task)

    asyncio.run(stopped())
    (reconciliation,) = reconciliations
    assert isinstance(reconciliation.error, Interrupted)
    assert reconciliation.outcome is not None
    assert reconciliation.outcome.interrupted
    assert words(reconciliation) == {(ALICE, RATE): "APPLIED", (ANYONE, RATE): "NOT SENT"}
    assert world.owned().intents == {}


def test_a_reconciliation_stopped_during_its_last_describe_records_and_reports():
    world = World()
    world.cluster.faults.lag[2] = 1e9
    reconciliations: list[Reconciliation] = []

    async def stopped() -> None:
        task: asyncio.Task[Reconciliation]

        def stop(request: str) -> None:
            if request == "wait_visible" and world.cluster.requests.count("wait_visible") == 1:
                task.cancel()

        world.cluster.faults.before = stop
        task = asyncio.ensure_future(a_pass(world, USERS))
        reconciliations.append(await task)

    asyncio.run(stopped())
    (reconciliation,) = reconciliations
    assert isinstance(reconciliation.error, Interrupted)
    assert set(words(reconciliation).values()) == {"APPLIED"}
    assert len(world.audit.entries) == 6
    assert world.cluster.clock.now() - reconciliation.started_at < 5.0, (
        "a short wait, not the long one"
    )


def test_a_reconciliation_stopped_twice_ends_immediately_and_keeps_its_intents():
    world = World()
    world.cluster.faults.lag[2] = 1e9

    async def stopped() -> None:
        task: asyncio.Task[Reconciliation]

        def stop(request: str) -> None:
            if request == "wait_visible":
                task.cancel()

        world.cluster.faults.before = stop
        task = asyncio.ensure_future(a_pass(world, USERS))
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())
    assert len(world.owned().intents) == 3


def calls_of_withholding(count: int) -> int:
    """How many functions are called to withhold as many changes, each refused by a guard."""
    users = {entity(user=f"u{number}"): {RATE: 1.0} for number in range(count)}
    prepared = World().plan(documents(users))
    calls = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        plan, withheld_changes = withhold(
            prepared.plan,
            Guards(),
            prepared.observation.live,
            owned=prepared.observation.owned,
            now=0.0,
            desired=prepared.desired,
        )
    finally:
        sys.setprofile(None)
    assert (len(plan.changes), len(withheld_changes)) == (0, count)
    return calls


def test_withholding_takes_linear_time():
    assert calls_of_withholding(200) < 2.5 * calls_of_withholding(100)
