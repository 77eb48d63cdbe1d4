import asyncio

import pytest
from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import LoopOutcome
from reconciler.app.loop.reconcile_runner import ReconcileRunner, loop_outcome_of
from reconciler.errors import (
    AuthenticationError,
    ConnectError,
    Interrupted,
    InventoryError,
    InventoryLocked,
    KquotaError,
)
from reconciler.quota.drift_tracker import DriftTracker
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.guards import Guard
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.removal_guard import RemovalCount
from reconciler.quota.policy import Cause, DriftMode, Policy, Rules
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    PairVisibility,
    Reconciliation,
    WithheldChange,
)
from reconciler.quota.state import Applied, Held, Rejected, Result, Unknown
from tests.fakes.cluster import LOST
from tests.reconcile.scenarios import ALICE, BOB, OPEN, RATE, SHARE, World, documents

USERS = {ALICE: {RATE: 1000.0, SHARE: 50.0}, BOB: {RATE: 2000.0, SHARE: 50.0}}
CORRECT = Rules(policy=Policy.SYNC, sync_confirmed=True, drift=DriftMode.CORRECT)


class MemoryRemovals:
    """Counts in memory only. Implements ``RowStore``."""

    def __init__(self) -> None:
        self.counts: tuple[RemovalCount, ...] = ()

    async def load(self) -> tuple[RemovalCount, ...]:
        return self.counts

    async def save(self, rows) -> None:
        self.counts = tuple(rows)


class Loop:
    """One world and its reconciliations."""

    def __init__(
        self,
        world: World,
        *,
        store: MemoryRemovals | None = None,
        tracker: DriftTracker | None = None,
    ) -> None:
        self.world = world
        self.store = store or MemoryRemovals()
        self.tracker = tracker
        self.restarted()

    def restarted(self) -> None:
        self.passes = ReconcileRunner(
            "prod", clock=self.world.cluster.clock, removals=self.store, tracker=self.tracker
        )

    def run(self, limits: dict, *, counts_drift: bool = True, **orders) -> Reconciliation:
        self.world.cluster.clock.advance(60.0)
        return asyncio.run(
            self.passes.run(
                self.world.ports,
                self.world.options(**orders),
                documents(limits),
                counts_drift=counts_drift,
            )
        )


def at_most(removals: int) -> dict:
    return {"guards": replace(OPEN, max_removals=removals)}


def test_removals_of_earlier_reconciliations_count_against_the_guard() -> None:
    loop = Loop(World())
    assert loop.run(USERS).in_order
    fewer = {ALICE: {RATE: 1000.0}, BOB: USERS[BOB]}
    assert loop.run(fewer, **at_most(1)).in_order
    stopped = loop.run({ALICE: {RATE: 1000.0}, BOB: {RATE: 2000.0}}, **at_most(1))
    assert [withheld_change.change.entity for withheld_change in stopped.withheld] == [BOB]
    assert stopped.withheld[0].violations[0].guard is Guard.MAX_REMOVALS
    assert loop.world.cluster.truth.value(BOB, SHARE) == 50.0


def test_counted_removals_survive_a_restart_and_expire_after_an_hour() -> None:
    loop = Loop(World())
    loop.run(USERS)
    loop.run({ALICE: {RATE: 1000.0}, BOB: USERS[BOB]}, **at_most(1))
    loop.restarted()
    fewer = {ALICE: {RATE: 1000.0}, BOB: {RATE: 2000.0}}
    assert loop.run(fewer, **at_most(1)).withheld
    loop.world.cluster.clock.advance(3600.0)
    assert loop.run(fewer, **at_most(1)).in_order
    assert loop.world.cluster.truth.value(BOB, SHARE) is None


def test_a_removal_is_counted_before_it_is_sent() -> None:
    loop = Loop(World())
    loop.run(USERS)
    counted: list[int] = []
    loop.world.cluster.faults.before = lambda request: (
        counted.append(sum(count.count for count in loop.store.counts))
        if request == "alter"
        else None
    )
    loop.run({ALICE: {RATE: 1000.0}, BOB: USERS[BOB]})
    assert counted == [1]


def test_a_removal_with_unknown_outcome_is_counted_once_for_any_number_of_tries() -> None:
    loop = Loop(World())
    loop.run(USERS)
    fewer = {ALICE: {RATE: 1000.0}, BOB: USERS[BOB]}
    loop.world.cluster.faults.unknown[ALICE] = LOST
    for _ in range(3):
        process = loop.run(fewer, **at_most(1))
        assert not process.withheld
    assert sum(count.count for count in loop.store.counts) == 1
    loop.world.cluster.faults.unknown.clear()
    assert loop.run(fewer, **at_most(1)).in_order
    assert sum(count.count for count in loop.store.counts) == 1


def test_removals_whose_count_cannot_be_saved_are_not_sent() -> None:
    class Full(MemoryRemovals):
        async def save(self, rows: object) -> None:
            raise InventoryError("no space left on device")

    loop = Loop(World(), store=Full())
    loop.run(USERS)
    process = loop.run({ALICE: {RATE: 1000.0}, BOB: USERS[BOB]})
    assert isinstance(process.error, InventoryError)
    assert loop.world.cluster.truth.value(ALICE, SHARE) == 50.0


def test_removal_counts_that_cannot_be_read_end_the_reconciliation_before_the_cluster_is_read() -> (
    None
):
    class Damaged(MemoryRemovals):
        async def load(self) -> tuple[RemovalCount, ...]:
            raise InventoryError("removals.json is damaged")

    loop = Loop(World(), store=Damaged())
    process = loop.run(USERS)
    assert isinstance(process.error, InventoryError)
    assert process.preview is None
    assert loop.world.cluster.requests == []


def test_an_error_reports_that_removals_cannot_be_subtracted_again() -> None:
    class Once(MemoryRemovals):
        async def save(self, rows) -> None:
            if self.counts:
                raise InventoryError("no space left on device")
            await super().save(rows)

    loop = Loop(World(), store=Once())
    loop.run(USERS)
    loop.world.cluster.faults.rejected[ALICE] = (44, "POLICY_VIOLATION", "no")
    process = loop.run({ALICE: {RATE: 1000.0}, BOB: USERS[BOB]})
    assert isinstance(process.error, InventoryError)
    assert process.outcome is not None


def test_while_an_earlier_leader_may_still_write_nothing_counts_as_drift() -> None:
    loop = Loop(World(), tracker=DriftTracker(confirm_after=1))
    loop.run(USERS)
    loop.world.cluster.write(ALICE, RATE, 7.0)
    process = loop.run(USERS, counts_drift=False, rules=CORRECT)
    assert process.observations == ()
    assert loop.world.owned().drift_since == {}
    assert loop.world.cluster.truth.value(ALICE, RATE) == 7.0
    assert not loop.run(USERS, rules=CORRECT).waiting
    assert loop.world.cluster.truth.value(ALICE, RATE) == 1000.0


CHANGE = QuotaChange(
    entity=entity(user="alice"),
    key=Key.PRODUCER_BYTE_RATE,
    before=None,
    after=1.0,
    cause=Cause.CREATE,
)
REFUSED = Rejected(code=44, name="POLICY_VIOLATION", message="no")
HELD = Held(waits_for=(CHANGE.entity,))


def pair(result: Result | None, visibility: PairVisibility = PairVisibility.VISIBLE) -> PairOutcome:
    return PairOutcome(change=CHANGE, result=result, visibility=visibility)


def ended(*pairs: PairOutcome, withheld: tuple[WithheldChange, ...] = (), **outcome) -> LoopOutcome:
    new_outcome = Outcome(cluster_id="c", digest="d", pairs=pairs, **outcome)
    return loop_outcome_of(Reconciliation(cluster="prod", outcome=new_outcome, withheld=withheld))


@pytest.mark.parametrize(
    ("error", "turn"),
    [
        (ConnectError("no broker answers"), LoopOutcome(retry=True, note="no broker answers")),
        (InventoryLocked("locked", hint="wait"), LoopOutcome(retry=True, note="locked")),
        (AuthenticationError("refused", hint="look"), LoopOutcome(note="refused; look")),
        (KquotaError("no"), LoopOutcome(note="no")),
        (Interrupted("interrupted"), LoopOutcome()),
    ],
)
def test_an_error_decides_whether_a_reconciliation_is_retried(
    error: KquotaError, turn: LoopOutcome
):
    assert loop_outcome_of(Reconciliation(cluster="prod", error=error)) == turn


@pytest.mark.parametrize("result", [Applied(), REFUSED])
def test_a_limit_that_an_override_gave_back_to_its_document_is_compared_again_soon(result: Result):
    """The document may not declare it any more; its removal would wait for the resync."""
    end = replace(CHANGE, cause=Cause.ENDED, claim=None)
    restored = PairOutcome(change=end, result=result, visibility=PairVisibility.VISIBLE)
    assert ended(restored).confirm == isinstance(result, Applied)


@pytest.mark.parametrize(
    ("result", "visibility", "note"),
    [
        (Unknown(reason="cut off"), PairVisibility.NOT_YET, "1 unknown or not sent"),
        (None, PairVisibility.UNCHECKED, "1 unknown or not sent"),
        (Applied(), PairVisibility.NOT_YET, "1 not yet shown by every broker"),
        (Applied(), PairVisibility.UNCHECKED, "1 not yet shown by every broker"),
        (HELD, PairVisibility.UNCHECKED, "1 waiting for others"),
    ],
)
def test_a_result_that_may_change_soon_is_retried(result, visibility: PairVisibility, note: str):
    assert ended(pair(Applied()), pair(result, visibility)) == LoopOutcome(retry=True, note=note)


def test_a_rejected_operation_and_the_operations_held_by_it_wait_for_the_next_trigger():
    assert ended(pair(REFUSED), pair(HELD)) == LoopOutcome()


def test_records_that_could_not_be_written_are_retried():
    assert ended(pair(Applied()), recorded=False, failure="disk full") == LoopOutcome(
        retry=True, note="disk full"
    )
    assert ended(pair(Applied()), recorded=False).note == "the records could not be written"
