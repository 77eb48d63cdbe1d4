"""An operator that is killed, refused or disconnected at any step of two reconciliations ends in the same state."""

import itertools
from typing import Final

import pytest

from reconciler.kube.records.record_parts import PARTS
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.kube.faulty_worlds import CUT, KILL, REFUSE, Fault, FaultyWorld
from tests.kube.run.test_cluster_reconciler import ALICE

RATE, SHARE = Key.PRODUCER_BYTE_RATE, Key.REQUEST_PERCENTAGE
STEPS: Final = range(7, 16)
"""From the request before the intents are written to the last status: describe, intents, alter, two describes, results,
statuses.

Before that a reconciliation changes nothing. A new process has one request more: which cluster has to answer."""

FIRST_STEPS: Final = range(9, 16 + 2 * PARTS)
"""The same in the first reconciliation, which creates all parts of the records and writes the intents with each of them."""


def follow_up(world: FaultyWorld, change: str) -> None:
    """Changes of users to alice's document after two failed reconciliations."""
    match change:
        case "another value":
            world.update("alice", {RATE: 8192})
        case "the first value again":
            world.update("alice", {RATE: 2048})
        case "another key":
            world.update("alice", {SHARE: 50})
        case "deletion":
            world.remove("alice")
        case _:
            world.remove("alice")
            world.create("other", {SHARE: 20}, user="alice")


def test_the_steps_cover_the_reconciliation_from_the_intents_to_its_end() -> None:
    world = FaultyWorld()
    world.create("alice", {RATE: 2048})
    world.faulty_turn()
    world.update("alice", {RATE: 4096})
    world.api.calls.clear()
    world.faulty_turn()
    written = [number for number, verb in enumerate(world.order) if verb in {"update", "create"}]
    assert written[0] in STEPS
    assert written[1] < world.order.index("apply") == STEPS[-3]


@pytest.mark.parametrize("kind", [KILL, REFUSE, CUT])
@pytest.mark.parametrize(
    "change",
    ["another value", "the first value again", "another key", "deletion", "another document"],
)
def test_two_reconciliations_may_fail_at_any_step_and_the_next_ones_reach_the_declared_state(
    change: str, kind: str
) -> None:
    for first, second in itertools.product(STEPS, repeat=2):
        world = FaultyWorld(foreign={entity(user="eve"): 5000.0})
        world.create("alice", {RATE: 2048})
        world.faulty_turn()
        world.update("alice", {RATE: 4096})
        world.faulty_turn(Fault(step=first, kind=kind))
        world.update("alice", {RATE: 6000})
        world.faulty_turn(Fault(step=second, kind=kind))
        follow_up(world, change)
        world.settle()


def test_the_first_steps_cover_the_creation_of_the_records() -> None:
    world = FaultyWorld()
    world.create("alice", {RATE: 2048})
    world.faulty_turn()
    creations = [number for number, verb in enumerate(world.order) if verb == "create"]
    assert len(creations) == PARTS
    assert FIRST_STEPS[0] < creations[0]
    assert world.order.index("apply") == FIRST_STEPS[-2]


@pytest.mark.parametrize("kind", [KILL, REFUSE, CUT])
def test_a_first_write_that_no_status_shows_is_owned_after_a_second_crash(kind: str) -> None:
    for first, second in itertools.product(FIRST_STEPS, STEPS):
        world = FaultyWorld()
        world.create("alice", {RATE: 2048})
        world.faulty_turn(Fault(step=first, kind=kind))
        world.update("alice", {RATE: 6000})
        world.faulty_turn(Fault(step=second))
        world.remove("alice")
        world.settle()


def test_a_document_that_is_created_again_immediately_is_created_and_does_not_drift() -> None:
    world = FaultyWorld()
    world.create("alice", {RATE: 2048})
    world.faulty_turn()
    world.remove("alice")
    world.faulty_turn()
    world.create("alice", {RATE: 2048})
    world.settle()


def test_records_missing_in_a_status_survive_a_crash_of_a_reconciliation_of_another_document() -> (
    None
):
    for first, step in itertools.product((11, 12, 13), STEPS):
        world = FaultyWorld()
        world.create("alice", {RATE: 2048})
        world.faulty_turn()
        world.update("alice", {RATE: 4096})
        world.faulty_turn(Fault(step=first))
        world.create("bob", {RATE: 2048})
        world.faulty_turn(Fault(step=step))
        world.remove("alice")
        world.settle()
        assert ALICE not in world.live()
