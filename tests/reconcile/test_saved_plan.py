"""A saved plan is applied only where cluster, records, documents and clock still agree."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.codecs.plan import plan_document, read_plan
from reconciler.errors import PlanRefused, StalePlan
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, RecordDropped, Recorded
from reconciler.quota.patterns import EVERYTHING, EntityForm, EntityPattern, NamePattern
from reconciler.quota.planner.guards import Guard, Guards, Protection
from reconciler.quota.policy import Cause, DriftMode, IgnoreRule, Policy, Rules
from reconciler.reconcile import (
    NewOverride,
    apply,
    check_digest,
    check_fresh,
    check_same_effect,
    observe,
    prepare,
    trust_plan,
)
from reconciler.render.json_values import dump
from tests.fakes.cluster import LOST
from tests.reconcile.scenarios import (
    ALICE,
    ALICE_SHOP,
    ANYONE,
    BOB,
    OPEN,
    RATE,
    SHARE,
    World,
    documents,
    state,
)

OLD = documents({ALICE: {RATE: 100.0}, ALICE_SHOP: {RATE: 50.0}})
NEW = documents({ALICE: {RATE: 200.0}, BOB: {SHARE: 5.0}})
"""One set, one change, one removal."""
CONNECTIONS = Key.CONNECTION_CREATION_RATE
TABLES = st.dictionaries(
    st.sampled_from([ALICE, ALICE_SHOP, BOB, ANYONE]),
    st.dictionaries(
        st.sampled_from([RATE, SHARE]), st.sampled_from([1.0, 2.0, 9.0, 5000.0]), min_size=1
    ),
    max_size=4,
)
LOOPBACK, ALIAS = entity(ip="::1"), entity(ip="0:0:0:0:0:0:0:1")
ADDRESS = documents({ALICE: {RATE: 100.0}, ALICE_SHOP: {RATE: 50.0}, LOOPBACK: {CONNECTIONS: 5.0}})


def reviewed(world: World, desired=NEW):
    """A plan that was written to a file and read back."""
    text = dump(plan_document(world.plan(desired).preview))
    return read_plan(text, location="plan.json")


def started() -> World:
    world = World({ANYONE: {RATE: 10.0}})
    world.apply(OLD)
    return world


def look(world: World):
    return asyncio.run(observe(world.ports, world.orders))


def check(world: World, saved, **more) -> None:
    check_fresh(saved, look(world), now=world.cluster.clock.now(), **more)


def test_a_plan_that_still_matches_is_applied_as_reviewed():
    world = started()
    saved = reviewed(world)
    check(world, saved)
    check_same_effect(saved, world.plan(NEW))
    outcome = asyncio.run(
        apply(world.ports, world.orders, trust_plan(saved, look(world), world.orders))
    )
    assert outcome.complete
    assert outcome.digest == saved.plan.digest
    assert world.cluster.truth == state(
        {ALICE: {RATE: 200.0}, BOB: {SHARE: 5.0}, ANYONE: {RATE: 10.0}}
    )
    assert world.apply(NEW).pairs == ()


def test_a_recomputed_and_a_trusted_plan_give_the_same_records():
    trusting_world, recomputing_world = started(), started()
    saved = reviewed(trusting_world)
    asyncio.run(
        apply(
            trusting_world.ports,
            trusting_world.orders,
            trust_plan(saved, look(trusting_world), trusting_world.orders),
        )
    )
    recomputing_world.apply(NEW)
    assert trusting_world.owned() == recomputing_world.owned()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((ALICE, RATE, 150.0), "user=alice producer_byte_rate: live was 100 B/s, is 150 B/s"),
        ((BOB, SHARE, 7.0), "user=bob request_percentage: live was not set, is 7 %"),
        ((ALICE_SHOP, RATE, None), "live was 50 B/s, is not set"),
        ((ANYONE, RATE, None), "user=<default> producer_byte_rate: was 10 B/s and is gone"),
    ],
)
def test_a_changed_cluster_makes_the_plan_stale_with_the_difference(change, words):
    world = started()
    saved = reviewed(world)
    world.cluster.write(*change)
    with pytest.raises(StalePlan) as caught:
        check(world, saved)
    assert caught.value.exit_code == 4
    assert len(caught.value.differences) == 1
    assert words in caught.value.differences[0]


def test_a_limit_that_the_plan_does_not_rely_on_may_change():
    world = started()
    saved = reviewed(world)
    world.cluster.write(BOB, RATE, 7.0)
    check(world, saved)


@pytest.mark.parametrize(
    "change",
    [
        RecordDropped(entity=ALICE, key=RATE),
        Recorded(entity=ALICE, key=RATE, value=99.0, owner=Owner(document="team/x")),
    ],
)
def test_changed_records_make_the_plan_stale(change):
    world = started()
    saved = reviewed(world)
    asyncio.run(world.inventory.write("fake-cluster", [change]))
    with pytest.raises(StalePlan, match="no longer fits"):
        check(world, saved)


def override(world: World, value: float, *, seconds: float) -> NewOverride:
    until = world.cluster.clock.now() + seconds
    return NewOverride(
        entity=ALICE, key=RATE, value=value, until=until, principal="ops", reason="incident\n"
    )


def test_an_override_that_ended_since_the_plan_makes_it_stale():
    world = started()
    world.apply(OLD, overrides=(override(world, 500.0, seconds=3600.0),))
    world.cluster.write(ALICE, RATE, 900.0)
    options = world.options(rules=replace(world.orders.rules, drift=DriftMode.CORRECT))
    prepared = asyncio.run(prepare(world.ports, options, OLD))
    saved = read_plan(dump(plan_document(prepared.preview)), location="plan.json")
    assert [change.after for change in saved.plan.changes] == [500.0]
    world.cluster.clock.advance(1800.0)
    check(world, saved)
    world.cluster.clock.advance(1800.0)
    with pytest.raises(StalePlan) as caught:
        check(world, saved)
    assert caught.value.differences == (
        "user=alice producer_byte_rate: 500 B/s is the value of an override that has ended",
    )


def test_an_override_that_began_since_the_plan_makes_it_stale_although_the_live_value_is_equal():
    world = started()
    saved = reviewed(world)
    world.apply(OLD, overrides=(override(world, 100.0, seconds=3600.0),))
    with pytest.raises(StalePlan) as caught:
        check(world, saved)
    assert caught.value.differences == (
        "user=alice producer_byte_rate: an override to 100 B/s is in force: incident\\u000a",
    )
    world.cluster.clock.advance(3600.0)
    check(world, saved)


def test_another_cluster_makes_the_plan_stale():
    saved = reviewed(started())
    with pytest.raises(StalePlan) as caught:
        check(World(cluster_id="other"), saved)
    assert "cluster fake-cluster, the current cluster is other" in caught.value.differences[0]


def test_a_plan_expires():
    world = started()
    saved = reviewed(world)
    world.cluster.clock.advance(86_401.0)
    with pytest.raises(StalePlan) as caught:
        check(world, saved)
    assert caught.value.differences == ("the plan is 1 d old; 1 d is allowed (--max-age)",)
    check(world, saved, max_age=100_000.0)


def test_documents_with_other_values_are_reported_for_each_operation():
    world = started()
    saved = reviewed(world)
    other_state = documents({ALICE: {RATE: 300.0}, ALICE_SHOP: {RATE: 50.0}})
    with pytest.raises(StalePlan) as caught:
        check_same_effect(saved, world.plan(other_state))
    assert caught.value.differences == (
        "user=alice,client-id=shop producer_byte_rate: reviewed remove, now nothing",
        "user=alice producer_byte_rate: reviewed set 200 B/s, now set 300 B/s",
        "user=bob request_percentage: reviewed set 5 %, now nothing",
    )


def test_only_a_plan_with_the_approved_digest_is_applied():
    world = started()
    saved = reviewed(world)
    check_same_effect(saved, world.plan(NEW), digest=saved.plan.digest)
    with pytest.raises(StalePlan):
        check_same_effect(saved, world.plan(NEW), digest="sha256:other")
    check_digest(world.plan(NEW), saved.plan.digest)
    with pytest.raises(StalePlan):
        check_digest(world.plan(OLD), saved.plan.digest)


def test_two_plans_on_disjoint_pairs_are_applied_in_any_order():
    world = started()
    base = {ALICE: {RATE: 100.0}, ALICE_SHOP: {RATE: 50.0}}
    alice_limits, bob_limits = base | {ALICE: {RATE: 200.0}}, base | {BOB: {SHARE: 5.0}}
    first, second = reviewed(world, documents(alice_limits)), reviewed(world, documents(bob_limits))
    check(world, first)
    world.apply(documents(alice_limits))
    merged = documents(base | {ALICE: {RATE: 200.0}, BOB: {SHARE: 5.0}})
    check(world, second)
    check_same_effect(second, world.plan(merged))
    assert world.apply(merged).complete


def test_a_trusted_plan_is_checked_by_the_local_guards():
    world = started()
    saved = reviewed(world)
    strict = world.options(guards=Guards(max_removals=0))
    with pytest.raises(PlanRefused):
        asyncio.run(apply(world.ports, strict, trust_plan(saved, look(world), strict)))
    assert world.apply(OLD).pairs == ()


def trust(world: World, saved):
    return trust_plan(saved, look(world), world.orders).preview


def test_a_long_list_of_differences_is_shortened_with_a_count():
    world = World()

    many = documents({entity(user=f"u{i}"): {RATE: 5.0} for i in range(60)})
    with pytest.raises(StalePlan) as caught:
        check_same_effect(reviewed(world, many), world.plan(documents({})))
    assert len(caught.value.differences) == 51
    assert caught.value.differences[-1] == "and 10 more"


# ---- a trusted plan that was edited --------------------------------------------------------------

EDITED = st.tuples(st.sampled_from(Cause), st.booleans())
"""Cause and whether a document is named, for each change."""


def edited(world: World, desired, facts, **fields):
    """A plan whose causes and documents are replaced by others, as in an edited file."""
    saved = world.plan(desired).preview
    changes = tuple(
        replace(change, cause=cause, claim=change.claim if is_named else None)
        for change, (cause, is_named) in zip(saved.plan.changes, facts, strict=True)
    )
    return replace(saved, plan=replace(saved.plan, changes=changes, **fields))


@given(st.tuples(EDITED, EDITED, EDITED))
def test_guards_judge_a_trusted_plan_whatever_causes_and_documents_it_names(facts):
    world = started()
    everything = EntityPattern(forms=frozenset(EntityForm))
    for guards, pairs in (
        (replace(OPEN, protected=(Protection(entities=everything),)), 3),
        (replace(OPEN, allow_small_values=False), 1),
        (replace(OPEN, max_change_factor=1.5), 2),
    ):
        strict = world.options(guards=guards)
        honest = trust_plan(edited(world, NEW, UNEDITED), look(world), strict).preview
        assert len(honest.violations) == pairs
        preview = trust_plan(edited(world, NEW, facts), look(world), strict).preview
        for violations in (honest.violations, preview.violations):
            assert {violation.entity for violation in violations} <= {ALICE, ALICE_SHOP, BOB}
        assert {(v.guard, v.entity) for v in preview.violations} >= {
            (v.guard, v.entity) for v in honest.violations
        }


def order_of(world: World, value: float | None) -> NewOverride:
    until = world.cluster.clock.now() + 60.0
    return NewOverride(
        entity=ALICE, key=RATE, value=value, until=until, principal="me", reason="incident"
    )


@given(
    st.tuples(TABLES, TABLES, TABLES),
    st.sampled_from(Policy),
    st.sampled_from(DriftMode),
    st.sampled_from([(), (EntityPattern(user=NamePattern(prefix="")),), (EVERYTHING,)]),
    st.none() | st.tuples(st.sampled_from([None, 3.0, 7.0]), st.booleans()),
)
def test_a_trusted_plan_that_was_not_edited_is_judged_as_when_it_was_computed(
    tables, policy, drift, scope, override
):
    live, old, new = tables
    world = World(live)
    world.apply(documents(old))
    if override is not None:
        value, has_ended = override
        world.apply(documents(old), overrides=(order_of(world, value),))
        if has_ended:
            world.cluster.clock.advance(100.0)
        else:
            world.cluster.write(ALICE, RATE, 8.0)
    rules = Rules(policy=policy, sync_confirmed=True, drift=drift, scope=scope, exclusive=True)
    options = world.options(rules=rules, guards=Guards(max_change_factor=1.5, max_removals=1))
    desired = documents({subject: new[subject] for subject in new if rules.in_scope(subject)})
    prepared = asyncio.run(prepare(world.ports, options, desired))
    judged = trust_plan(prepared.preview, prepared.observation, options)
    assert judged.preview.violations == prepared.preview.violations


def test_the_share_of_removals_of_a_trusted_plan_is_that_of_the_records():
    values = {entity(user=f"u{number}"): {RATE: 100.0} for number in range(20)}
    world = World(values)
    world.apply(documents(values))
    saved = edited(world, documents(dict(list(values.items())[:10])), UNEDITED[:1] * 10)
    forged = replace(saved, plan=replace(saved.plan, owned_pairs=1_000_000))
    strict = world.options(guards=replace(OPEN, max_removed_percent=20.0))
    for plan in (saved, forged):
        (violation,) = trust_plan(plan, look(world), strict).preview.violations
        assert violation.guard is Guard.MAX_REMOVED_SHARE


UNEDITED = ((Cause.SPEC, True), (Cause.PRUNE, False), (Cause.CREATE, True))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"policy": Policy.OBSERVE}, ["Observe writes nothing"] * 3),
        ({"policy": Policy.CREATE_ONLY}, ["changes no limit that is live"] * 2),
        ({"scope": (EntityPattern(user=NamePattern(exact="bob")),)}, ["outside of the scope"]),
        (
            {
                "ignore": (
                    IgnoreRule(entities=EntityPattern(user=NamePattern(exact="bob")), reason="x"),
                )
            },
            ["its differences are ignored"],
        ),
    ],
)
def test_a_trusted_plan_is_refused_where_the_rules_permit_no_such_change(rules, words):
    world = started()
    saved = reviewed(world)
    strict = world.options(rules=replace(world.orders.rules, **rules))
    with pytest.raises(PlanRefused) as caught:
        trust_plan(saved, look(world), strict)
    assert len(caught.value.violations) == len(words)
    for violation, part in zip(caught.value.violations, words, strict=True):
        assert part in violation


def test_a_trusted_plan_removes_a_limit_without_a_record_only_in_an_exclusive_cluster():
    world = started()
    world.cluster.write(BOB, RATE, 7.0)
    exclusive = replace(
        world.orders.rules, exclusive=True, scope=(EntityPattern(user=NamePattern(prefix="")),)
    )
    options = world.options(rules=exclusive)
    saved = world.plan(OLD, rules=exclusive).preview
    assert [change.cause for change in saved.plan.changes] == [Cause.UNMANAGED]
    assert trust_plan(saved, look(world), options).preview.violations == ()
    with pytest.raises(PlanRefused) as caught:
        trust_plan(saved, look(world), world.orders)
    assert "it is not owned" in caught.value.violations[0]


def test_a_trusted_plan_writes_the_value_of_a_recorded_override_past_the_guards():
    world = started()
    world.apply(OLD, overrides=(order_of(world, 1e9),))
    world.cluster.write(ALICE, RATE, None)
    scope = (EntityPattern(user=NamePattern(exact="bob")),)
    strict = world.options(
        guards=replace(OPEN, allow_small_values=False),
        rules=replace(world.orders.rules, drift=DriftMode.CORRECT, scope=scope),
    )
    saved = world.plan(OLD, rules=replace(world.orders.rules, drift=DriftMode.CORRECT)).preview
    assert [(change.cause, change.after) for change in saved.plan.changes] == [(Cause.DRIFT, 1e9)]
    assert trust_plan(saved, look(world), strict).preview.violations == ()
    saved = replace(
        saved,
        plan=replace(saved.plan, changes=tuple(replace(c, after=2e9) for c in saved.plan.changes)),
    )
    with pytest.raises(PlanRefused, match="do not permit 1 change"):
        trust_plan(saved, look(world), strict)


def test_guards_judge_the_undoing_of_a_rollback_by_a_trusted_plan():
    """A rollback ends with a change of the document; the value that it replaced is never restored without one."""
    world = started()
    rollback = replace(order_of(world, 5.0), ends_with_document=True)
    world.apply(OLD, overrides=(rollback,))
    changed = documents({ALICE: {RATE: 90.0}, ALICE_SHOP: {RATE: 50.0}})
    saved = edited(world, changed, ((Cause.OVERRIDE_EXPIRED, False),))
    (change,) = saved.plan.changes
    saved = replace(saved, plan=replace(saved.plan, changes=(replace(change, after=100.0),)))
    strict = world.options(guards=replace(OPEN, max_change_factor=10.0))
    (violation,) = trust_plan(saved, look(world), strict).preview.violations
    assert violation.guard is Guard.MAX_CHANGE_FACTOR


@pytest.mark.parametrize("unwritten_value", [None, 6.0])
def test_a_trusted_plan_that_ends_an_override_leaves_the_restored_limit_with_its_document(
    unwritten_value,
):
    """A file does not say whether it keeps its owner; without one the next run would not remove the limit."""
    world = started()
    world.apply(OLD, overrides=(order_of(world, 5.0),))
    if unwritten_value is not None:
        world.cluster.faults.unknown[ALICE] = LOST
        world.apply(OLD, overrides=(order_of(world, unwritten_value),))
        world.cluster.faults.unknown.clear()
    world.cluster.clock.advance(100.0)
    deleted = documents({ALICE_SHOP: {RATE: 50.0}})
    saved = reviewed(world, deleted)
    assert [(change.cause, change.after) for change in saved.plan.changes] == [
        (Cause.OVERRIDE_EXPIRED, 100.0)
    ]
    trusted = trust_plan(saved, look(world), world.orders)
    assert asyncio.run(apply(world.ports, world.orders, trusted)).complete
    assert [change.cause for change in world.plan(deleted).plan.changes] == [Cause.PRUNE]
