"""The records of a run: a store that fails is part of the outcome, and does not affect other stores."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from reconciler.errors import InventoryError
from reconciler.quota.outcome import Unknown
from reconciler.quota.ownership import Pair
from reconciler.quota.results.report import Outcome
from reconciler.reconcile.run_records import lost_outcome, record
from tests.reconcile.scenarios import ALICE, BOB, RATE, World, documents

NEW = documents({ALICE: {RATE: 10.0}, BOB: {RATE: 20.0}})


class BrokenLog:
    """An audit log on a full disk. Implements ``ports.AuditLog``."""

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        raise InventoryError("no space for the audit log")

    def open_intents(self, cluster_id: str, pairs: Collection[Pair]) -> None:
        return None


class BrokenInventory:
    """Records that cannot be written. Implements ``ports.Inventory``."""

    async def load(self, cluster_id: str) -> None:
        raise NotImplementedError

    async def write(self, cluster_id: str, changes: Sequence[object]) -> None:
        raise InventoryError("no space for the records")


@pytest.fixture
def outcome() -> Outcome:
    return World().apply(NEW)


def recorded(world: World, outcome: Outcome) -> Outcome:
    pairs = [pair.change.pair for pair in outcome.pairs]
    return asyncio.run(record(world.ports, outcome, (), pairs))


def test_records_are_written_although_the_audit_log_fails(outcome: Outcome) -> None:
    world = World()
    world.ports = replace(world.ports, audit=BrokenLog())
    result = recorded(world, outcome)
    assert (result.recorded, result.failure) == (False, "no space for the audit log")
    assert world.owned().pair_count == 2


def test_the_audit_log_is_written_although_the_records_fail(outcome: Outcome) -> None:
    world = World()
    world.ports = replace(world.ports, inventory=BrokenInventory())
    result = recorded(world, outcome)
    assert (result.recorded, result.failure) == (False, "no space for the records")
    assert len(world.audit.entries) == 2


def test_the_first_failure_is_reported(outcome: Outcome) -> None:
    world = World()
    world.ports = replace(world.ports, audit=BrokenLog(), inventory=BrokenInventory())
    assert recorded(world, outcome).failure == "no space for the audit log"
    earlier = replace(outcome, failure="stopped")
    assert recorded(world, earlier).failure == "stopped"


def test_a_run_without_a_recorded_result_may_have_written_its_intents() -> None:
    world = World()
    plan = world.plan(NEW).plan
    outcome = lost_outcome(plan, [(ALICE, RATE)], world.orders, started=5.0, record_count=3)
    results = {pair.change.entity: pair.result for pair in outcome.pairs}
    assert results == {
        ALICE: Unknown(reason="the run ended before it recorded a result"),
        BOB: None,
    }
    assert (outcome.bookkeeping, outcome.digest, outcome.complete) == (3, plan.digest, False)
