"""Tests of the laws of an operator's plans and outcomes with hand-made results that violate them."""

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest
from msgspec.structs import replace

from reconciler.quota.entity import DEFAULT, Entity, entity
from reconciler.quota.keys import Key
from reconciler.quota.outcome import Alteration, Applied
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.desired_state import Declaration, merge
from reconciler.quota.planner.guards import Guards
from reconciler.quota.policy import Rules
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    Preview,
    Reconciliation,
    ValidationResult,
)
from reconciler.quota.state import QuotaState, Visibility, limits_of
from reconciler.reconcile import Observation, ReconcileOptions, preview
from tests.simulation.kube.operator_world import OperatorWorld
from tests.simulation.kube.operators import Candidate, ReconciliationJudge
from tests.simulation.scenario import EPOCH, scenario_of

RATE = Key.PRODUCER_BYTE_RATE
ALICE, ANYONE = entity(user="alice"), entity(user=DEFAULT)
GUARDS = Guards(protect_defaults=True)
SETS = [Alteration(subject, ((str(RATE), 5_000.0),)) for subject in (ALICE, ANYONE)]


@pytest.fixture(name="world")
def a_world() -> Iterator[OperatorWorld]:
    world = OperatorWorld(scenario_of(1, "operator"))
    yield world
    asyncio.set_event_loop(None)
    world.loop.close()


@pytest.fixture(name="judge")
def a_judge(world: OperatorWorld) -> ReconciliationJudge:
    judge = ReconciliationJudge(world, world.process("operator-a"))
    judge.begin(GUARDS)
    judge.observed(QuotaState())
    return judge


def planned(*subjects: Entity) -> Preview:
    """Return a plan that sets a limit of each entity."""
    documents = [
        Declaration(document=f"team/{number}", entity=subject, limits=limits_of({RATE: 5_000.0}))
        for number, subject in enumerate(subjects)
    ]
    owned = OwnershipRecords(cluster_id="c")
    observation = Observation(
        cluster=None, cluster_id="c", live=QuotaState(), owned=owned, at=EPOCH
    )
    options = ReconcileOptions(rules=Rules(), guards=GUARDS, assess=False)
    verdict = ValidationResult(source="none")
    return preview(observation, merge(documents), options, verdict=verdict).preview


def test_a_reconciliation_that_follows_the_rules_breaks_no_law(
    world: OperatorWorld, judge: ReconciliationJudge
) -> None:
    judge.passed(Reconciliation(cluster="prod", preview=planned(ALICE, ANYONE)))
    assert not world.violation


def test_a_guard_that_refuses_nothing_is_seen(
    world: OperatorWorld, judge: ReconciliationJudge
) -> None:
    refused = planned(ANYONE)
    assert refused.violations
    judge.passed(Reconciliation(cluster="prod", preview=replace(refused, violations=())))
    assert world.violation.startswith("guards against the rules")


def test_a_set_at_a_wider_level_before_a_closer_one_is_seen(
    world: OperatorWorld, judge: ReconciliationJudge
) -> None:
    plan = planned(ALICE, ANYONE).plan
    closer, wider = SETS
    pairs = tuple(PairOutcome(change=change, result=Applied()) for change in plan.changes)
    world.candidates["operator-a-1"] = cast("Candidate", Leading())
    judge.alters([wider])
    judge.alters([closer])
    outcome = Outcome(cluster_id="c", digest="", pairs=pairs, started_at=EPOCH)
    judge.passed(Reconciliation(cluster="prod", outcome=outcome))
    assert world.violation.startswith("a plan is sent against the order")


class Leading:
    """A candidate that leads."""

    leading = True


def test_a_removal_before_a_set_is_visible_is_seen(
    world: OperatorWorld, judge: ReconciliationJudge
) -> None:
    world.candidates["operator-a-1"] = cast("Candidate", Leading())
    judge.altered([SETS[1]], {ANYONE: Applied()})
    judge.alters([Alteration(ALICE, ((str(RATE), None),))])
    assert "before every broker shows" in world.violation


def test_a_wait_that_says_too_much_of_brokers_is_seen(
    world: OperatorWorld, judge: ReconciliationJudge
) -> None:
    async def wait() -> Visibility:
        return Visibility(visible=(1, 2), lagging=(), unreachable={})

    _ = asyncio.run(judge.waited(SETS, wait()))
    assert "does not mention running brokers" in world.violation
