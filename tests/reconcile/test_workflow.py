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
from reconciler.quota.outcome import MAX_OPERATIONS, Applied, Held, Rejected
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
from reconciler.quota.policy import Cause, DriftMode, Policy
from reconciler.quota.results.report import PairVisibility, RunOrigin
from reconciler.reconcile import NewOverride, apply, prepare
from reconciler.reconcile.workflow import FRESH_SECONDS
from tests.fakes.cluster import LANDED, LATE, LOST
from tests.reconcile.scenarios import (
    ALICE,
    ALICE_SHOP,
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


def test_declared_limits_are_applied_visible_and_owned():
    world = World()
    outcome = world.apply(TWO)
    assert outcome.complete
    assert world.cluster.truth == state({ALICE: {RATE: 2048.0, SHARE: 50.0}, BOB: {RATE: 4096.0}})
    assert world.owned().records[ALICE].applied == (2048.0, None, 50.0, None, None)
    assert world.owned().intents == {}
    assert set(visibilities(outcome).values()) == {PairVisibility.VISIBLE}
    assert outcome.visibility.visible == (1, 2, 3)


def test_a_second_run_writes_nothing():
    world = World()
    world.apply(TWO)
    requests, written, lines = (
        len(world.cluster.sent),
        len(world.inventory.written),
        len(world.audit.entries),
    )
    outcome = world.apply(TWO)
    assert outcome.complete
    assert outcome.pairs == ()
    assert len(world.cluster.sent) == requests
    assert len(world.inventory.written) == written
    assert len(world.audit.entries) == lines
    assert world.cluster.requests[-2:] == ["cluster", "describe"]


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


def test_a_limit_that_a_suspended_document_owns_is_a_warning_with_the_next_step():
    world = World()
    world.apply(TWO)
    second_document = declared(ALICE, {RATE: 9000.0}, document="team/two")
    frozen = declared(ALICE, {RATE: 2048.0, SHARE: 50.0})
    plan = world.plan(merge([replace(frozen, suspended=True), second_document]))
    (warning,) = plan.preview.warnings
    assert warning.startswith("not written: 1 declared limit, because another document")
    assert "delete that document" in warning


def test_a_plan_writes_nothing():
    world = World({ALICE: {RATE: 1.0}})
    prepared = world.plan(TWO)
    assert [change.cause for change in prepared.plan.changes] == [
        Cause.TAKEOVER,
        Cause.CREATE,
        Cause.CREATE,
    ]
    assert world.cluster.sent == []
    assert world.inventory.written == []


def test_a_rejected_entity_does_not_stop_independent_ones():
    world = World()
    world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    outcome = world.apply(TWO)
    assert words(outcome) == {
        (ALICE, RATE): "REJECTED",
        (ALICE, SHARE): "REJECTED",
        (BOB, RATE): "APPLIED",
    }
    assert not outcome.complete
    assert world.owned().intents == {}
    assert ALICE not in world.owned().records
    assert outcome.pairs[0].result == Rejected(code=42, name="INVALID_REQUEST", message="no")


def test_a_wider_set_is_held_if_a_closer_one_is_rejected():
    world = World()
    world.cluster.faults.rejected[ALICE] = (42, "INVALID_REQUEST", "no")
    outcome = world.apply(documents({ALICE: {RATE: 10.0}, ANYONE: {RATE: 5.0, SHARE: 1.0}}))
    results = {pair.change.pair: pair.result for pair in outcome.pairs}
    assert results[ANYONE, RATE] == Held(waits_for=(ALICE,))
    assert results[ANYONE, SHARE] == Applied()
    assert world.cluster.truth.value(ANYONE, RATE) is None


def test_a_removal_waits_until_the_set_that_it_relies_on_is_visible_on_every_live_broker():
    world = World({ALICE_SHOP: {RATE: 1.0}})
    world.apply(documents({ALICE_SHOP: {RATE: 1.0}}))
    world.cluster.faults.lag[3] = float("inf")
    outcome = world.apply(documents({ALICE: {RATE: 9.0}}))
    assert words(outcome) == {(ALICE_SHOP, RATE): "HELD", (ALICE, RATE): "APPLIED"}
    assert outcome.visibility.lagging == (3,)
    assert visibilities(outcome)[ALICE, RATE] is PairVisibility.NOT_YET
    assert world.cluster.truth.value(ALICE_SHOP, RATE) == 1.0

    world.cluster.faults.lag.clear()
    world.cluster.clock.advance(100.0)
    assert world.apply(documents({ALICE: {RATE: 9.0}})).complete
    assert world.cluster.truth == state({ALICE: {RATE: 9.0}})


def test_an_unreachable_broker_is_named_and_delays_nothing():
    world = World({ALICE_SHOP: {RATE: 1.0}})
    world.apply(documents({ALICE_SHOP: {RATE: 1.0}}))
    world.cluster.faults.unreachable[2] = "connection refused"
    outcome = world.apply(documents({ALICE: {RATE: 9.0}}))
    assert outcome.complete
    assert outcome.visibility.unreachable == {2: "connection refused"}


@pytest.mark.parametrize(("fate", "live"), [(LOST, None), (LANDED, 2048.0), (LATE, None)])
def test_a_write_without_a_response_is_unknown_and_described_again(fate: str, live):
    world = World()
    world.cluster.faults.unknown[ALICE] = fate
    outcome = world.apply(TWO)
    assert words(outcome)[ALICE, RATE] == "UNKNOWN"
    assert visibilities(outcome)[ALICE, RATE] is (
        PairVisibility.VISIBLE if fate == LANDED else PairVisibility.NOT_YET
    )
    assert outcome.pairs[0].observed_value == live
    assert ((ALICE, RATE) in world.owned().intents) == (fate != LANDED)
    assert (ALICE in world.owned().records) == (fate == LANDED)


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


def test_the_same_value_may_be_sent_again_immediately():
    world = World()
    world.cluster.faults.unknown[ALICE] = LATE
    world.apply(TWO)
    world.cluster.faults.unknown.clear()
    assert world.apply(TWO).complete
    world.cluster.land_late_ones()
    assert world.apply(TWO).pairs == ()


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


def test_observe_writes_neither_to_the_broker_nor_to_the_records():
    world = World({BOB: {RATE: 4096.0}}, policy=Policy.OBSERVE)
    outcome = world.apply(TWO)
    assert outcome.pairs == ()
    assert world.cluster.sent == []
    assert world.inventory.written == []


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
                until=world.cluster.clock.now() + 20.0,
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
        asyncio.run(story(25.0))
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


def test_nothing_is_sent_if_intents_cannot_be_written():
    world = World()

    async def broken(cluster_id, changes):
        raise InventoryError("the disk is full")

    world.inventory.write = broken
    with pytest.raises(InventoryError, match="disk is full"):
        world.apply(TWO)
    assert world.cluster.sent == []


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


def test_a_failure_before_anything_was_sent_is_raised_and_leaves_no_intent():
    world = World()

    def cut(request: str) -> None:
        if request == "alter":
            raise ConnectError("no broker answers")

    world.cluster.faults.before = cut
    with pytest.raises(ConnectError):
        world.apply(TWO)
    assert world.owned().intents == {}


def test_a_failure_while_sending_reports_sent_and_unsent_changes():
    world = World()
    texts: list[str] = []

    def cut(request: str) -> None:
        texts.append(request)
        if request == "alter" and texts.count("alter") == 2:
            raise ConnectError("no broker answers")

    world.cluster.faults.before = cut
    outcome = world.apply(documents({ALICE: {RATE: 9.0}, ANYONE: {RATE: 5.0}}))
    assert words(outcome) == {(ALICE, RATE): "APPLIED", (ANYONE, RATE): "NOT SENT"}
    assert outcome.failure == "no broker answers"
    assert set(world.owned().records) == {ALICE}
    assert world.owned().intents == {}


def test_every_change_writes_its_intent_and_its_outcome_to_the_audit_log():
    world = World({ALICE: {RATE: 1.0}})
    world.apply(TWO)
    assert [
        (line.entity, line.key, line.before, line.after, line.outcome)
        for line in world.audit.entries
        if line.outcome != "INTENDED"
    ] == [
        ((("user", "alice"),), "producer_byte_rate", 1, 2048, "APPLIED"),
        ((("user", "alice"),), "request_percentage", None, 50, "APPLIED"),
        ((("user", "bob"),), "producer_byte_rate", None, 4096, "APPLIED"),
    ]
    assert {line.cluster_id for line in world.audit.entries} == {"fake-cluster"}


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


def test_progress_is_reported_from_zero_to_the_total():
    world = World()
    world.apply(TWO)
    assert ("validate", 0, 2) in world.progress
    assert ("apply", 3, 3) in world.progress


def test_a_first_apply_that_one_broker_does_not_show_makes_the_records_known():
    world = World()
    world.cluster.faults.lag[3] = float("inf")
    assert not world.apply(TWO).complete
    world.cluster.faults.lag.clear()
    prepared = world.plan(TWO)
    assert prepared.plan.removals_known
    assert prepared.preview.warnings == ()


def test_an_adopted_pair_is_only_recorded():
    world = World({BOB: {RATE: 4096.0}})
    outcome = world.apply(documents({BOB: {RATE: 4096.0}}))
    assert outcome.pairs == ()
    assert outcome.bookkeeping == 1
    assert world.cluster.sent == []
    assert world.owned().records[BOB].applied[0] == 4096.0


def test_a_pair_that_is_no_longer_declared_is_removed_with_its_record():
    world = World()
    world.apply(TWO)
    outcome = world.apply(documents({BOB: {RATE: 4096.0}}))
    assert [pair.change.after for pair in outcome.pairs] == [None, None]
    assert outcome.complete
    assert set(world.owned().records) == {BOB}
    assert world.cluster.truth == state({BOB: {RATE: 4096.0}})


def test_sync_acts_as_upsert_until_it_is_confirmed_for_this_cluster():
    world = World()
    world.apply(TWO)
    rules = replace(world.orders.rules, sync_confirmed=False)
    for confirmed, removed in ((None, 0), ("other", 0), ("fake-cluster", 2)):
        plan = world.plan(documents({BOB: {RATE: 4096.0}}), rules=rules, confirm_sync=confirmed)
        assert len(plan.plan.changes) == removed
    warning = world.plan(TWO, rules=rules).preview.warnings[0]
    assert "not confirmed for cluster fake-cluster" in warning
    assert "--confirm-sync" in warning


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


def test_the_date_of_the_first_application_is_kept():
    world = World()
    world.apply(TWO)
    before = world.owned().records[BOB].owners[0]
    world.cluster.clock.advance(1000.0)
    world.apply(documents({ALICE: {RATE: 2048.0, SHARE: 50.0}, BOB: {RATE: 5000.0}}))
    assert world.owned().records[BOB].owners[0] == before
    assert isinstance(before, Owner)
    assert isinstance(world.inventory.written[0][0], IntentStarted)
    assert isinstance(world.inventory.written[1][0], Recorded)
