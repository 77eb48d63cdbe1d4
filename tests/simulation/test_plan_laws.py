"""Tests of each law of plans and outcomes with a hand-made result that violates it."""

import asyncio

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Intent, IntentStarted, Owner, OwnershipRecords
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.guards import Guard, Guards, Violation
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.removal_guard import RemovalCount
from reconciler.quota.policy import Cause, Rules
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    Preview,
    Reconciliation,
    WithheldChange,
)
from reconciler.quota.state import Alteration, Applied, Held, QuotaState, Visibility, limits_of
from reconciler.reconcile import Observation, ReconcileOptions, preview
from reconciler.sandbox.broker_rules.image import QuotaRecord
from tests.reconcile.scenarios import OPEN
from tests.simulation.laws import LawBroken, names_of
from tests.simulation.plan_model import PlanInputs
from tests.simulation.scenario import EPOCH, Scenario
from tests.simulation.world import World

ALICE, APP = entity(user="alice"), entity(user="alice", client_id="app")
RATE = Key.PRODUCER_BYTE_RATE
SET = Alteration(ALICE, ((str(RATE), 1.0),))


@pytest.fixture(name="world")
def a_world():
    world = World(Scenario(seed=1))
    yield world
    asyncio.set_event_loop(None)
    world.loop.close()


def declared(value: float) -> tuple[PlanInputs, Preview]:
    """Return a plan that sets a declared value, and its inputs."""
    document = Declaration(document="team/a", entity=ALICE, limits=limits_of({RATE: value}))
    owned, live = OwnershipRecords(cluster_id="c"), QuotaState()
    observation = Observation(cluster=None, cluster_id="c", live=live, owned=owned, at=EPOCH)
    options = ReconcileOptions(rules=Rules(), guards=Guards(protect_defaults=False), assess=False)
    prepared = preview(observation, merge([document]), options)
    inputs = PlanInputs(documents=(document,), owned=owned, live=live, rules=Rules(), at=EPOCH)
    return inputs, prepared.preview


def test_a_plan_of_other_inputs_is_seen(world):
    world.plan_laws.prepared(*declared(5_000.0), Guards(protect_defaults=False))
    (inputs, _), (_, plan) = declared(5_000.0), declared(6_000.0)
    with pytest.raises(LawBroken, match="a plan against the rules"):
        world.plan_laws.prepared(inputs, plan, OPEN)


def test_a_guard_that_refuses_nothing_is_seen(world):
    inputs, refused = declared(5.0)
    with pytest.raises(LawBroken, match=r"not refused .*bounds"):
        world.plan_laws.prepared(inputs, replace(refused, violations=()), Guards())


def test_a_command_that_applies_a_refused_plan_is_seen(world):
    _, refused = declared(5.0)
    assert refused.violations
    with pytest.raises(LawBroken, match="applies a plan that a guard refuses"):
        world.plan_laws.accepted(refused)


def test_a_write_to_an_entity_of_unknown_outcome_is_seen(world):
    inputs, _ = declared(5_000.0)
    intent = Intent(value=1.0, owner=Owner(document="team/a"), at=EPOCH)
    earlier = IntentStarted(entity=ALICE, key=RATE, intent=intent)
    change = QuotaChange(entity=ALICE, key=RATE, before=None, after=2.0, cause=Cause.CREATE)
    outcome = Outcome(
        cluster_id="c",
        digest="",
        pairs=(PairOutcome(change=change, result=Applied()),),
        started_at=EPOCH + 1.0,
    )
    inputs = replace(inputs, owned=inputs.owned.with_changes([earlier]))
    with pytest.raises(LawBroken, match="had to wait for an earlier write"):
        world.plan_laws.applied(inputs, outcome, ())


ANYONE, NOBODY = entity(user=None), entity(user="alice", client_id=None)


def test_a_set_waits_for_the_removal_of_a_limit_that_hides_it_now(world):
    inputs, _ = declared(5_000.0)
    intent = Intent(value=None, owner=Owner(document="team/a"), at=EPOCH)
    earlier = IntentStarted(entity=NOBODY, key=RATE, intent=intent)
    change = QuotaChange(entity=ANYONE, key=RATE, before=None, after=2.0, cause=Cause.CREATE)
    waiting = PairOutcome(change=change, result=Held(waits_for=(NOBODY,)))
    outcome = Outcome(cluster_id="c", digest="", pairs=(waiting,), started_at=EPOCH + 1.0)
    live = QuotaState(limits={NOBODY: limits_of({RATE: 7.0})})
    inputs = replace(inputs, live=live, owned=inputs.owned.with_changes([earlier]))
    world.plan_laws.applied(inputs, outcome, ())


REMOVAL = QuotaChange(
    entity=ALICE,
    key=RATE,
    before=1.0,
    after=None,
    cause=Cause.PRUNE,
    owner=Owner(document="shop/a"),
)


@pytest.mark.parametrize(("used", "is_withheld"), [(1, False), (2, True)])
@pytest.mark.parametrize("is_lawful", [True, False])
def test_a_removal_against_the_guard_of_removals_is_seen(world, used, is_withheld, is_lawful):
    inputs, preview = declared(5_000.0)
    violation = Violation(guard=Guard.MAX_REMOVALS, message="", entity=ALICE, key=RATE)
    withheld = WithheldChange(change=REMOVAL, violations=(violation,))
    reconciliation = Reconciliation(
        cluster="prod",
        preview=replace(preview, plan=replace(preview.plan, changes=(REMOVAL,))),
        withheld=(withheld,) if is_withheld is is_lawful else (),
        started_at=EPOCH,
    )
    counts = [RemovalCount(at=EPOCH - 10, tenant="shop", count=used)]
    arguments = inputs, reconciliation, counts, Guards(max_removals=2)
    if is_lawful:
        world.plan_laws.withheld(*arguments)
        return
    with pytest.raises(LawBroken, match="asks for"):
        world.plan_laws.withheld(*arguments)


@pytest.mark.parametrize(
    ("visible", "law"), [((1, 2), "does not mention"), ((1, 2, 3), "counts as showing")]
)
def test_a_wait_that_says_too_much_of_brokers_is_seen(world, visible, law):
    cluster = world.brokers.cluster
    cluster.on_commit = lambda _: None
    cluster.hold(3)
    cluster.commit([QuotaRecord(names=names_of(ALICE), key=str(RATE), value=1.0)])
    visibility = Visibility(visible=visible, lagging=(), unreachable={})
    with pytest.raises(LawBroken, match=law):
        world.plan_laws.visible(EPOCH, world.brokers.running(), [SET], visibility)


def test_a_removal_before_a_set_is_visible_is_seen(world):
    removal = Alteration(APP, ((str(RATE), None),))
    world.plan_laws.alters([removal], [])
    with pytest.raises(LawBroken, match="before every broker shows"):
        world.plan_laws.alters([removal], [SET])
