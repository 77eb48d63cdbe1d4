"""The records of a run: a store that fails is part of the outcome, and does not affect other stores."""

import asyncio
from collections.abc import Collection, Sequence

import pytest
from msgspec.structs import replace

from reconciler.errors import InventoryError
from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.ownership import Pair, RecordChange
from reconciler.quota.results.audit_entry import AuditEntry
from reconciler.quota.results.report import Outcome
from reconciler.quota.state import Unknown
from reconciler.reconcile.run_records import intent_entries, lost_outcome, record
from tests.reconcile.scenarios import ALICE, BOB, RATE, World, documents

NEW = documents({ALICE: {RATE: 10.0}, BOB: {RATE: 20.0}})


class BrokenLog:
    """An audit log on a full disk. Implements ``ports.AuditLog``."""

    def append(self, entries: Sequence[AuditEntry]) -> None:
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
    return asyncio.run(record(world.ports, outcome, (), intent_entries(outcome, pairs)))


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
    preview = world.plan(NEW).preview
    outcome = lost_outcome(
        preview, preview.plan.changes, [(ALICE, RATE)], world.orders, at=5.0, records=3
    )
    results = {pair.change.entity: pair.result for pair in outcome.pairs}
    assert results == {
        ALICE: Unknown(reason="the run ended before it recorded a result"),
        BOB: None,
    }
    assert (outcome.bookkeeping, outcome.digest, outcome.complete) == (3, preview.digest, False)


class SlowInventory(MemoryInventory):
    """Records whose write takes as long as ``begun`` is not followed by ``may_end``. Implements ``ports.Inventory``."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        self.begun.set()
        _ = await self.may_end.wait()
        await super().write(cluster_id, changes)


@pytest.mark.parametrize("is_interrupted", [False, True], ids=["first", "second"])
def test_only_a_second_request_to_stop_ends_the_write_of_the_results(
    outcome: Outcome, is_interrupted: bool
) -> None:
    world, inventory = World(), SlowInventory()
    ports = replace(world.ports, inventory=inventory)
    before = replace(outcome, interrupted=is_interrupted)

    async def stopped() -> Outcome:
        recording = asyncio.ensure_future(record(ports, before, (), {}))
        _ = await inventory.begun.wait()
        _ = recording.cancel()
        await asyncio.sleep(0)
        inventory.may_end.set()
        return await recording

    if is_interrupted:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(stopped())
    else:
        assert asyncio.run(stopped()) == replace(outcome, interrupted=True)
    assert bool(inventory.written) is not is_interrupted


def test_a_second_request_to_stop_during_the_write_of_the_results_ends_it(outcome: Outcome) -> None:
    inventory = SlowInventory()
    ports = replace(World().ports, inventory=inventory)

    async def stopped() -> None:
        recording = asyncio.ensure_future(record(ports, outcome, (), {}))
        _ = await inventory.begun.wait()
        for _ in range(2):
            _ = recording.cancel()
            await asyncio.sleep(0)
        _ = await recording

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())
    assert inventory.written == []
