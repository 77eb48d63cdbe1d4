import asyncio

import pytest

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
from reconciler.quota.outcome import Applied, Held, Result, Unknown
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.planner.removal_guard import RemovalCount
from reconciler.quota.policy import Cause
from reconciler.quota.results.report import (
    Outcome,
    PairOutcome,
    PairVisibility,
    Reconciliation,
    WithheldChange,
)
from tests.reconcile.scenarios import ALICE, BOB, RATE, SHARE, World, documents

USERS = {ALICE: {RATE: 1000.0, SHARE: 50.0}, BOB: {RATE: 2000.0, SHARE: 50.0}}


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


CHANGE = QuotaChange(
    entity=entity(user="alice"),
    key=Key.PRODUCER_BYTE_RATE,
    before=None,
    after=1.0,
    cause=Cause.CREATE,
)
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


def test_records_that_could_not_be_written_are_retried():
    assert ended(pair(Applied()), recorded=False, failure="disk full") == LoopOutcome(
        retry=True, note="disk full"
    )
    assert ended(pair(Applied()), recorded=False).note == "the records could not be written"
