"""Laws of the whole comparison over random worlds."""

import itertools

from hypothesis import given, settings
from msgspec.structs import replace

from reconciler.quota.entity import entity, sort_key
from reconciler.quota.keys import COLUMNS, Key, same_value
from reconciler.quota.ownership import (
    Orphaned,
    OverrideEnded,
    OverrideWritten,
    Owner,
    OwnershipRecords,
    RecordChange,
    RecordDropped,
    Recorded,
)
from reconciler.quota.planner.comparison import compare
from reconciler.quota.planner.desired_state import Declaration, DesiredState, merge
from reconciler.quota.planner.plan import Plan, QuotaChange, apply_to
from reconciler.quota.policy import STRICTNESS, Cause, DriftMode, Policy, Rules
from reconciler.quota.state import QuotaState, limits_of
from tests.hypothesis_profiles import count_examples
from tests.quota.strategies import ENTITIES, NOW, World, declarations, states, worlds

MANY = settings(max_examples=count_examples(60))


def plan_of(world: World) -> Plan:
    return compare(
        desired=world.desired, owned=world.owned, live=world.live, rules=world.rules, now=NOW
    )


@MANY
@given(worlds())
def test_a_plan_without_one_of_its_changes_does_not_reach_the_desired_state(world):
    changes = plan_of(world).changes
    reached = apply_to(world.live, changes)
    for left_out in changes:
        assert not same_value(left_out.key, left_out.before, left_out.after)
        assert left_out.before == world.live.value(left_out.entity, left_out.key)
        assert (
            apply_to(world.live, [change for change in changes if change is not left_out])
            != reached
        )


@MANY
@given(worlds())
def test_every_pair_occurs_at_most_once_and_in_order(world):
    plan = plan_of(world)
    for spoken in (plan.changes, plan.findings):
        places = [(sort_key(entry.entity), COLUMNS.index(entry.key)) for entry in spoken]
        assert places == sorted(places)
    pairs = [(entry.entity, entry.key) for entry in (*plan.changes, *plan.findings)]
    assert len(pairs) == len(set(pairs))


@MANY
@given(worlds())
def test_the_counts_of_a_plan_equal_those_of_its_inputs(world):
    plan = plan_of(world)
    desired = sum(len(COLUMNS) - limits.count(None) for limits in world.desired.limits.values())
    assert plan.desired_pairs == world.desired.pair_count == desired
    assert plan.owned_pairs == world.owned.pair_count
    assert plan.documents == len(world.desired.documents)
    spoken = {(entry.entity, entry.key) for entry in (*plan.changes, *plan.findings)}
    declared = {
        (s, k)
        for s, limits in world.desired.limits.items()
        for k, v in zip(COLUMNS, limits, strict=True)
        if v is not None
    }
    silent = {
        (s, k)
        for s, k in declared - spoken
        if not same_value(k, world.desired.limits[s][COLUMNS.index(k)], world.live.value(s, k))
    }
    # Only drift that a rule ignores is neither in sync nor listed.
    assert not silent or world.rules.drift is DriftMode.DISABLED
    assert plan.in_sync == len(declared - spoken - silent)


@given(states(among=ENTITIES))
def test_a_state_compared_with_itself_needs_no_change(state):
    desired = declared_as(state)
    owned = OwnershipRecords(cluster_id="c").with_changes(
        Recorded(entity=s, key=k, value=v, owner=Owner(document=desired.claims[s][0].document))
        for s, k, v in state.pairs()
    )
    plan = compare(desired=desired, owned=owned, live=state, rules=Rules())
    pairs = len(list(state.pairs()))
    assert plan == Plan(
        cluster_id="c",
        documents=len(state.limits),
        desired_pairs=pairs,
        in_sync=pairs,
        owned_pairs=pairs,
    )


def declared_as(state: QuotaState) -> DesiredState:
    return merge(
        Declaration(document=f"team/{number}", entity=subject, limits=limits)
        for number, (subject, limits) in enumerate(state.limits.items())
    )


@given(states(), states())
def test_a_plan_without_records_reaches_exactly_the_declared_values(before, after):
    plan = compare(
        desired=declared_as(after),
        owned=OwnershipRecords(cluster_id="c"),
        live=before,
        rules=Rules(),
    )
    reached = apply_to(before, plan.changes)
    for subject, key, value in after.pairs():
        assert same_value(key, reached.value(subject, key), value)


@MANY
@given(declarations(among=ENTITIES), worlds())
def test_the_plan_does_not_depend_on_the_order_of_the_documents(documents, world):
    plans = {
        repr(plan_of(replace(world, desired=merge(order))))
        for order in (documents, documents[::-1], sorted(documents, key=repr))
    }
    assert len(plans) == 1


# -- a second plan ------------------------------------------------------------------------------------


def recorded(change: QuotaChange) -> tuple[RecordChange, ...]:
    """The record of an applied and verified change."""
    entity, key = change.pair
    ended = (OverrideEnded(entity=entity, key=key),) if change.cause is Cause.ENDED else ()
    if change.keeps_record:
        return (OverrideWritten(entity=entity, key=key, value=change.after), *ended)
    if change.after is None or change.owner is None:
        return (RecordDropped(entity=entity, key=key), *ended)
    return (Recorded(entity=entity, key=key, value=change.after, owner=change.owner), *ended)


def carried_out(world: World) -> World:
    plan = plan_of(world)
    records = itertools.chain(plan.bookkeeping, *map(recorded, plan.changes))
    return replace(
        world, live=apply_to(world.live, plan.changes), owned=world.owned.with_changes(records)
    )


@MANY
@given(worlds())
def test_a_second_plan_writes_and_records_nothing_but_what_the_record_below_an_override_asks_for(
    world,
):
    over = {
        pair
        for pair, override in world.owned.overrides.items()
        if pair not in carried_out(world).owned.overrides
    }
    again = plan_of(carried_out(world))
    assert {change.pair for change in again.changes} <= over
    assert {(change.entity, change.key) for change in again.bookkeeping} <= over
    third = plan_of(carried_out(carried_out(world)))
    assert (third.changes, third.bookkeeping) == ((), ())


@MANY
@given(worlds())
def test_under_an_override_nothing_is_written_but_its_value_and_its_end(world):
    """What holds or refuses an ordinary change would delay the end otherwise."""
    for change in plan_of(world).changes:
        override = world.owned.overrides.get(change.pair)
        assert change.is_temporary == (override is not None)
        if override is not None and change.of_override:
            assert change.after == override.value


@MANY
@given(worlds())
def test_observe_changes_neither_the_broker_nor_the_records(world):
    plan = plan_of(replace(world, rules=replace(world.rules, policy=Policy.OBSERVE)))
    assert (plan.changes, plan.bookkeeping) == ((), ())


@MANY
@given(worlds())
def test_an_incomplete_listing_removes_drops_and_orphans_nothing(world):
    plan = plan_of(replace(world, rules=replace(world.rules, complete=False)))
    assert [
        change
        for change in plan.changes
        if change.removes and change.cause is not Cause.OVERRIDE and change.cause is not Cause.ENDED
    ] == []
    assert {finding.pair for finding in plan.orphans} <= world.owned.orphaned
    assert not any(isinstance(change, Orphaned) for change in plan.bookkeeping)


@MANY
@given(worlds())
def test_files_without_a_project_change_nothing_of_what_they_do_not_declare(world):
    """Neither limits nor records, whatever the records say about the documents."""
    rules = replace(world.rules, configured=False, sync_confirmed=False, force=True)
    plan = plan_of(replace(world, rules=rules))
    of_others = {
        (subject, key)
        for subject, record in world.owned.records.items()
        for key, owner in record.pairs()
        if owner.document
        and owner.document
        not in {claim.document for claim in world.desired.claims.get(subject, ())}
        and world.desired.claim(subject, key) is None
    } - {*world.owned.overrides, *world.owned.intents, *world.owned.orphaned}
    assert {change.pair for change in plan.changes}.isdisjoint(of_others)
    assert {(change.entity, change.key) for change in plan.bookkeeping}.isdisjoint(of_others)


@MANY
@given(worlds(overrides=False))
def test_each_policy_allows_at_least_the_writes_of_the_stricter_one(world):
    written = [
        {
            change.pair
            for change in plan_of(
                replace(world, rules=replace(world.rules, policy=policy, sync_confirmed=True))
            ).changes
        }
        for policy in STRICTNESS
    ]
    assert all(first <= second for first, second in itertools.pairwise(written))


@given(worlds())
def test_foreign_types_and_keys_are_never_changed(world):
    foreign = replace(
        world.live,
        foreign_values={entity(user="alice"): (("new_key", 1.0),)},
        foreign_entities=(((("client-id-prefix", "a"),), (("producer_byte_rate", 1.0),)),),
    )
    assert plan_of(replace(world, live=foreign)) == plan_of(world)


def test_one_entity_of_another_writer_is_reported():
    live = QuotaState(limits={entity(user="bob"): limits_of({Key.PRODUCER_BYTE_RATE: 5.0})})
    plan = compare(
        desired=DesiredState(),
        owned=OwnershipRecords(cluster_id="c"),
        live=live,
        rules=Rules(),
        now=NOW,
    )
    assert [finding.cause for finding in plan.findings] == [Cause.UNMANAGED]
