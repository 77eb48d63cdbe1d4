"""A complete run on a cluster in memory: sent requests, records, and the report."""

import asyncio

import pytest
from msgspec.structs import replace

from reconciler.errors import (
    ConnectError,
    InventoryError,
    ManifestErrors,
    PlanRefused,
    StalePlan,
    WrongCluster,
)
from reconciler.quota.entity import entity
from reconciler.quota.keys import COLUMN_OF
from reconciler.quota.ownership import (
    Intent,
    IntentStarted,
    Orphaned,
    Owner,
    OwnershipRecords,
    Recorded,
)
from reconciler.quota.planner.desired_state import conflict_problems, merge
from reconciler.quota.planner.guards import Guards
from reconciler.quota.policy import Cause, DriftMode
from reconciler.quota.results.report import PairVisibility, RunOrigin
from reconciler.quota.state import MAX_OPERATIONS
from reconciler.reconcile import NewOverride, apply, prepare
from reconciler.reconcile.workflow import FRESH_SECONDS
from tests.fakes.cluster import LATE, LOST
from tests.reconcile.scenarios import (
    ALICE,
    ANYONE,
    BOB,
    CONSUME,
    RATE,
    SHARE,
    World,
    declared,
    documents,
    state,
)

TWO = documents({ALICE: {RATE: 2048.0, SHARE: 50.0}, BOB: {RATE: 4096.0}})


def words(outcome) -> dict:
    return {pair.change.pair: pair.status_text for pair in outcome.pairs}


def visibilities(outcome) -> dict:
    return {pair.change.pair: pair.visibility for pair in outcome.pairs}


def test_intents_are_recorded_before_anything_is_sent():
    world = World()
    sent_at: list[OwnershipRecords] = []

    def look(request: str) -> None:
        if request == "alter":
            sent_at.append(world.inventory._owned["fake-cluster"])

    world.cluster.faults.before = look
    world.apply(TWO)
    assert set(sent_at[0].intents) == {(ALICE, RATE), (ALICE, SHARE), (BOB, RATE)}
    assert sent_at[0].intents[BOB, RATE].value == 4096.0
    assert sent_at[0].records == {}


def test_nothing_is_sent_after_an_error_of_the_step_before_sending():
    def fail(_outcome) -> None:
        raise InventoryError("the outcome cannot be written")

    world = World()

    async def run() -> None:
        prepared = await prepare(world.ports, world.options(), TWO)
        await apply(world.ports, world.options(), prepared, before_sending=fail)

    with pytest.raises(InventoryError, match="the outcome cannot be written"):
        asyncio.run(run())
    assert world.cluster.sent == []
    assert world.owned().intents == {}
    assert {entry.outcome for entry in world.audit.entries} == {"INTENDED", "NOT SENT"}


def test_after_an_unknown_write_nothing_else_is_written_to_that_entity_in_the_same_run():
    world = World({ALICE: {SHARE: 5.0}})
    world.apply(documents({ALICE: {SHARE: 5.0}}))
    world.cluster.faults.unknown[ALICE] = LOST
    outcome = world.apply(documents({ALICE: {RATE: 9.0}}))
    assert words(outcome) == {(ALICE, RATE): "UNKNOWN", (ALICE, SHARE): "HELD"}


def test_an_unknown_write_holds_other_writes_for_65_seconds_and_is_then_planned_again():
    world = World()
    world.cluster.faults.unknown[ALICE] = LATE
    world.apply(documents({ALICE: {RATE: 10.0}}))
    world.cluster.faults.unknown.clear()
    world.cluster.clock.advance(-world.cluster.clock.monotonic() % 1 + 5)
    changed = documents({ALICE: {RATE: 20.0}})
    assert words(world.apply(changed)) == {(ALICE, RATE): "HELD"}
    world.cluster.land_late_ones()
    world.cluster.clock.advance(66.0)
    assert world.apply(changed).complete
    assert world.cluster.truth == state({ALICE: {RATE: 20.0}})


def test_a_held_run_keeps_the_intent_of_an_unknown_write():
    world = World()
    world.cluster.faults.unknown[ALICE] = LATE
    world.apply(documents({ALICE: {RATE: 10.0}}))
    world.cluster.faults.unknown.clear()
    first = world.owned().intents
    changed = documents({ALICE: {RATE: 20.0}})
    for _ in range(3):
        world.cluster.clock.advance(5.0)
        assert words(world.apply(changed)) == {(ALICE, RATE): "HELD"}
        assert world.owned().intents == first
    world.cluster.clock.advance(66.0)
    assert world.apply(changed).complete


def test_a_repeated_write_that_is_rejected_may_still_land_from_the_first_time():
    world = World()
    world.cluster.faults.unknown[ALICE] = LATE
    expected_state = documents({ALICE: {RATE: 10.0}})
    world.apply(expected_state)
    world.cluster.faults.unknown.clear()
    world.cluster.faults.rejected[ALICE] = (44, "POLICY_VIOLATION", "no")
    assert words(world.apply(expected_state)) == {(ALICE, RATE): "REJECTED"}
    assert (ALICE, RATE) in world.owned().intents


def test_a_value_changed_concurrently_by_another_writer_is_reported():
    world = World()

    def interfere(request: str) -> None:
        if request == "wait_visible" and world.cluster.truth.value(BOB, RATE) == 4096.0:
            world.cluster.write(BOB, RATE, 7.0)

    world.cluster.faults.before = interfere
    outcome = world.apply(TWO)
    assert visibilities(outcome)[BOB, RATE] is PairVisibility.CHANGED
    assert outcome.pairs[-1].observed_value == 7.0
    assert visibilities(outcome)[ALICE, RATE] is PairVisibility.VISIBLE
    assert not outcome.complete
    world.cluster.faults.before = lambda _: None
    assert [finding.live for finding in world.plan(TWO).plan.findings_for(Cause.DRIFT)] == [7.0]


def test_a_guard_refuses_the_whole_plan_and_nothing_is_written():
    world = World({ANYONE: {RATE: 5000.0}}, guards=Guards())
    with pytest.raises(PlanRefused) as caught:
        world.apply(documents({ANYONE: {RATE: 6000.0}, ALICE: {RATE: 10.0}}))
    assert len(caught.value.violations) == 3
    assert any("--allow-defaults" in line for line in caught.value.violations)
    assert world.cluster.sent == []
    assert world.inventory.written == []


def test_two_documents_that_claim_one_pair_refuse_the_whole_run():
    world = World()
    desired = merge(
        [
            declared(ALICE, {RATE: 1.0}, document="a/one"),
            declared(ALICE, {RATE: 1.0}, document="b/two"),
        ]
    )
    with pytest.raises(ManifestErrors) as caught:
        world.apply(desired)
    assert [problem.path for problem in caught.value.problems] == ["a/one.yaml", "b/two.yaml"]
    assert list(caught.value.problems) == conflict_problems(desired.conflicts)
    assert world.cluster.sent == []


def test_a_cluster_other_than_the_expected_one_is_never_written():
    world = World()
    with pytest.raises(WrongCluster) as caught:
        world.apply(TWO, expected_cluster_id="prod")
    assert (caught.value.expected, caught.value.found) == ("prod", "fake-cluster")
    assert world.cluster.requests == ["cluster", "describe"]


def test_a_failed_describe_is_never_an_empty_cluster():
    world = World({ALICE: {RATE: 1.0}})
    world.cluster.faults.unreachable = {1: "x", 2: "x", 3: "x"}
    with pytest.raises(ConnectError):
        world.apply(TWO)
    assert world.cluster.sent == []


def test_only_the_selected_pairs_are_written_and_recorded():
    world = World({BOB: {RATE: 4096.0}})
    outcome = world.apply(TWO, only=lambda subject, key: subject == ALICE)
    assert set(words(outcome)) == {(ALICE, RATE), (ALICE, SHARE)}
    assert set(world.owned().records) == {ALICE}


def test_a_settled_write_of_another_pair_is_recorded_as_it_was_requested():
    owner, pair = Owner(document=f"team/{BOB}", since=1.0), {"entity": BOB, "key": RATE}
    owned = OwnershipRecords(cluster_id=World().cluster.cluster_id).with_changes(
        (
            Recorded(**pair, value=2048.0, owner=owner),
            Orphaned(**pair),
            IntentStarted(**pair, intent=Intent(value=4096.0, owner=owner)),
        )
    )
    world = World({BOB: {RATE: 4096.0}}, owned=owned)
    world.apply(TWO, only=lambda subject, _: subject == ALICE)
    assert world.owned().records[BOB].applied[COLUMN_OF[RATE]] == 4096.0
    assert (BOB, RATE) in world.owned().orphaned


def test_the_value_of_an_override_that_ended_during_the_confirmation_is_not_written():
    async def story(seconds: float):
        world = World()
        await world.run(TWO)
        overrides = (
            NewOverride(
                entity=ALICE,
                key=RATE,
                value=5.0,
                until=world.cluster.clock.now() + 5.0,
                principal="ops",
                reason="incident",
            ),
        )
        await world.run(TWO, overrides=overrides)
        world.cluster.write(ALICE, RATE, 7.0)
        orders = world.options(rules=replace(world.orders.rules, drift=DriftMode.CORRECT))
        prepared = await prepare(world.ports, orders, TWO)
        assert [change.after for change in prepared.plan.changes] == [5.0]
        world.cluster.clock.advance(seconds)
        return await apply(world.ports, orders, prepared)

    assert asyncio.run(story(1.0)).complete
    with pytest.raises(StalePlan) as caught:
        asyncio.run(story(FRESH_SECONDS - 2))
    assert caught.value.differences == (
        "user=alice producer_byte_rate: reviewed set 5 B/s, now set 2048 (2 KiB/s); its cause was Drift, is Ended",
    )


def test_a_plan_that_waited_for_confirmation_is_compared_with_the_cluster_again():
    async def story(meanwhile):
        world = World()
        prepared = await prepare(world.ports, world.orders, TWO)
        world.cluster.clock.advance(60.0)
        meanwhile(world)
        return await apply(world.ports, world.orders, prepared)

    assert asyncio.run(story(lambda world: None)).complete
    with pytest.raises(StalePlan) as caught:
        asyncio.run(story(lambda world: world.cluster.write(ALICE, RATE, 5.0)))
    assert caught.value.differences == (
        "user=alice producer_byte_rate: live was not set, is 5 B/s; its cause was Create, is Takeover",
    )


def test_a_removal_that_waited_for_confirmation_needs_the_default_that_protects_its_clients():
    async def story(meanwhile):
        world = World({ANYONE: {RATE: 10.0}})
        await world.run(documents({ALICE: {RATE: 5.0}, BOB: {RATE: 5.0}}))
        prepared = await prepare(world.ports, world.orders, documents({BOB: {RATE: 5.0}}))
        world.cluster.clock.advance(60.0)
        meanwhile(world)
        return await apply(world.ports, world.orders, prepared)

    assert asyncio.run(story(lambda world: world.cluster.write(BOB, SHARE, 7.0))).complete
    with pytest.raises(StalePlan, match="after the plan was computed") as caught:
        asyncio.run(story(lambda world: world.cluster.write(ANYONE, RATE, None)))
    assert caught.value.differences == (
        "user=<default> producer_byte_rate: live was 10 B/s, is not set; clients of a removal fall back to it",
    )


def test_an_override_that_waited_for_confirmation_is_compared_with_the_live_value_again():
    async def story(meanwhile):
        world = World({ALICE: {RATE: 1.0}})
        order = NewOverride(
            entity=ALICE, key=RATE, value=5.0, until=1e12, principal="ops", reason="incident"
        )
        options = world.options(overrides=(order,))
        prepared = await prepare(world.ports, options, documents({}))
        world.cluster.clock.advance(60.0)
        meanwhile(world)
        return await apply(world.ports, options, prepared)

    assert asyncio.run(story(lambda world: None)).complete
    with pytest.raises(StalePlan) as caught:
        asyncio.run(story(lambda world: world.cluster.write(ALICE, RATE, 7.0)))
    assert caught.value.differences == ("user=alice producer_byte_rate: live was 1 B/s, is 7 B/s",)


def test_a_plan_that_waited_does_not_replace_records_that_another_run_wrote_meanwhile():
    owner = Owner(document="team/bob")
    adopted = Recorded(entity=BOB, key=RATE, value=2048.0, owner=owner)

    async def story(*changes):
        world = World({BOB: {RATE: 2048.0}})
        await world.inventory.write(world.cluster.cluster_id, (adopted,))
        world.cluster.write(BOB, RATE, None)
        prepared = await prepare(world.ports, world.orders, documents({}))
        assert [finding.cause for finding in prepared.plan.findings] == [Cause.GONE]
        world.cluster.clock.advance(60.0)
        await world.inventory.write(world.cluster.cluster_id, changes)
        try:
            _ = await apply(world.ports, world.orders, prepared)
        finally:
            owned = await world.inventory.load(world.cluster.cluster_id)
            assert (BOB in owned.records) == bool(changes)

    asyncio.run(story())
    with pytest.raises(StalePlan) as caught:
        asyncio.run(story(replace(adopted, value=4096.0)))
    assert caught.value.differences == ("another run wrote ownership records",)


def test_results_that_cannot_be_recorded_are_reported_and_owned_by_the_next_run():
    world = World()
    real = world.inventory.write

    async def only_intents(cluster_id, changes):
        if not all(isinstance(change, IntentStarted) for change in changes):
            raise InventoryError("the disk is full")
        await real(cluster_id, changes)

    world.inventory.write = only_intents
    outcome = world.apply(TWO)
    assert not outcome.recorded
    assert outcome.failure == "the disk is full"
    assert [entry.outcome for entry in world.audit.entries] == ["INTENDED"] * 3 + ["APPLIED"] * 3
    world.inventory.write = real
    assert world.apply(TWO).pairs == ()
    assert set(world.owned().records) == {ALICE, BOB}
    assert world.owned().intents == {}


def test_a_large_apply_waits_for_each_request_to_be_visible():
    world = World()
    limits = {RATE: 5.0, CONSUME: 6.0, SHARE: 7.0}
    many = documents(
        {entity(user=f"u{i}"): limits for i in range(2 * MAX_OPERATIONS // len(limits) + 2)}
    )
    world.apply(many)
    assert world.cluster.requests.count("wait_visible") == 1
    paced = World()
    assert paced.apply(many, pace=True).complete
    assert paced.cluster.requests.count("alter") == 3
    assert paced.cluster.requests.count("wait_visible") == 4


def test_a_paced_apply_stops_when_the_brokers_lag():
    world = World()
    world.cluster.faults.lag[2] = float("inf")
    many = documents({entity(user=f"u{i}"): {RATE: 5.0} for i in range(MAX_OPERATIONS + 5)})
    outcome = world.apply(many, pace=True)
    assert outcome.count("NOT SENT") == 5
    assert outcome.failure == "sending stopped: brokers that lag: 2"


def test_the_number_of_requests_is_bounded_by_operations_not_entities():
    world = World()
    many = documents(
        {entity(user=f"u{i}"): {RATE: 5.0, CONSUME: 6.0, SHARE: 7.0} for i in range(2_000)}
    )
    outcome = world.apply(many)
    assert outcome.complete
    requests = world.cluster.requests
    assert requests.count("validate") <= 4
    assert requests.count("alter") <= 4
    assert requests.count("describe") == 2
    assert all(
        sum(len(alteration.operations) for alteration in chunk) <= MAX_OPERATIONS
        for chunk in world.cluster.sent
    )


def test_without_records_removals_are_unknown():
    assert "so nothing is removed" in World().plan(TWO).preview.warnings[0]
    world = World(owned=OwnershipRecords(cluster_id="fake-cluster"))
    assert world.plan(TWO).preview.warnings == ()


def test_a_project_whose_addresses_lead_to_another_cluster_is_warned_unless_it_names_its_cluster():
    """Nothing was applied there, and without an expected id nothing refuses it."""
    origin = RunOrigin(cluster="prod")
    (_, unpinned) = World().plan(TWO, origin=origin).preview.warnings
    assert "expectedClusterId of prod is not set" in unpinned
    assert "fake-cluster" in unpinned
    pinned = World().plan(TWO, origin=origin, expected_cluster_id="fake-cluster")
    assert len(pinned.preview.warnings) == 1
    applied = World(owned=OwnershipRecords(cluster_id="fake-cluster"))
    assert applied.plan(TWO, origin=origin).preview.warnings == ()


@pytest.mark.parametrize(
    ("age", "jump", "is_old"),
    [
        (FRESH_SECONDS - 1, 0.0, False),
        (FRESH_SECONDS - 1, -1e6, False),
        (FRESH_SECONDS + 1, 0.0, True),
        (FRESH_SECONDS + 1, -1e6, True),
        # A machine that was suspended: its monotonic clock stood still.
        (1.0, FRESH_SECONDS, True),
        # A person has read the plan: what another writer set meanwhile is not overwritten.
        (15.0, 0.0, True),
    ],
)
def test_a_plan_is_old_if_either_clock_shows_its_age(age: float, jump: float, is_old: bool):
    world = World()
    prepared = world.plan(TWO)
    world.cluster.clock.advance(age)
    world.cluster.clock.jump(jump)
    world.cluster.requests.clear()
    assert asyncio.run(apply(world.ports, world.orders, prepared)).complete
    assert (world.cluster.requests.index("alter") > 0) == is_old
