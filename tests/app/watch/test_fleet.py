"""`kquota watch` for all clusters: loops restart when settings change, run when documents change, and end in order."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from reconciler.app.clusters.runtime import Runtime
from reconciler.app.watch.cluster import WatchedFleet
from reconciler.app.watch.revision import Revision
from reconciler.app.watch.state_file import WatchState
from reconciler.client import QuotaClient
from reconciler.errors import AuthenticationError, ConfigError, TaskDied, WrongCluster
from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.reconcile import ReconcilePorts
from tests.app.loop.projects import Origin, cluster, quota
from tests.fakes.cluster import FakeCluster
from tests.fakes.manual_clock import Inline, TurnedClock, settle
from tests.fakes.memory_audit_log import MemoryAuditLog
from tests.fakes.telemetry import RecordedTelemetry

ALICE, BOB, RATE = entity(user="alice"), entity(user="bob"), Key.PRODUCER_BYTE_RATE
MIB = 1024 * 1024.0
CORRECT = "  driftDetection: Correct\n  interval: 100s\n"


class Yard:
    """Clusters in memory, managed by a fleet."""

    def __init__(self, folder: Path) -> None:
        self.origin = Origin(folder)
        self.clock = TurnedClock()
        self.telemetry = RecordedTelemetry()
        self.state = WatchState(folder / "watch.json")
        self.clusters: dict[str, FakeCluster] = {}
        self.inventories: dict[str, MemoryInventory] = {}
        self.audit = MemoryAuditLog()
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.rested = 0
        self.fails: dict[str, Exception] = {}
        self.pinned_cluster_id: str | None = None

    @contextlib.asynccontextmanager
    async def open(self, revision: Revision, name: str) -> AsyncIterator[Runtime]:
        if name in self.fails:
            raise self.fails[name]
        self.opened.append(name)
        configured = revision.project.cluster(name).cluster
        ports = ReconcilePorts(
            store=self.cluster(name),
            inventory=self.inventories.setdefault(name, MemoryInventory()),
            clock=self.clock,
            audit=self.audit,
        )
        try:
            yield Runtime(
                ports=ports,
                client=cast("QuotaClient", ports.store),
                unlock=self._rest,
                expected_cluster_id=configured.expected_cluster_id or self.pinned_cluster_id,
            )
        finally:
            self.closed.append(name)

    def _rest(self) -> None:
        self.rested += 1

    def cluster(self, name: str) -> FakeCluster:
        if name not in self.clusters:
            self.clusters[name] = FakeCluster(clock=self.clock, cluster_id=f"id-{name}")
        return self.clusters[name]

    async def take(self) -> Revision:
        revision = await self.origin.revision()
        self.fleet.take(revision)
        return revision

    def play(self, story: Callable[["Yard"], Awaitable[None]]) -> None:
        async def run() -> None:
            asyncio.get_running_loop().set_default_executor(Inline())
            self.fleet = WatchedFleet(
                opener=self.open,
                state=self.state,
                telemetry=self.telemetry,
                clock=self.clock,
                random=lambda: 0.5,
                principal="tests",
            )
            self.stop = asyncio.Event()
            self.task = asyncio.ensure_future(self.fleet.run(self.stop))
            try:
                await story(self)
            finally:
                self.stop.set()
                await settle()
                await asyncio.wait({self.task})
                await settle()
                assert self.clock.sleepers == 0, "a task is still running"
                assert sorted(self.opened) == sorted(self.closed), "a session is still open"

        asyncio.run(run())


@pytest.fixture
def yard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Yard:
    caplog.set_level(logging.INFO, "reconciler")
    return Yard(tmp_path)


def test_changed_settings_restart_every_loop_and_keep_the_saved_state(yard: Yard):
    yard.origin.commit(quota("alice"), clusters=cluster(more=CORRECT))

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(5.0)
        yard.cluster("prod").write(ALICE, RATE, 5 * MIB)
        yard.fleet.watched.enqueue("now")
        await yard.clock.turn(1.0)
        assert [
            observation.observation_count for observation in yard.telemetry.passes[-1].observations
        ] == [1]
        yard.origin.commit(quota("alice"), clusters=cluster(more=CORRECT.replace("100s", "50s")))
        await yard.take()
        await yard.clock.turn(1.0)
        assert yard.opened == ["prod", "prod"]
        assert yard.closed == ["prod"]
        assert yard.telemetry.intervals == {"prod": 50.0}
        # The second consecutive observation, although another loop made it: so the drift was corrected.
        assert [
            len(observation.corrections) for observation in yard.telemetry.passes[-1].observations
        ] == [1]
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 10 * MIB

    yard.play(story)


def test_a_cluster_that_leaves_during_its_reconciliation_ends_it_with_its_own_revision(yard: Yard):
    both = cluster("prod") + cluster("test")
    yard.origin.commit(quota("alice"), quota("bob", cluster="test"), clusters=both)

    async def story(yard: Yard) -> None:
        first = await yard.origin.revision()
        yard.origin.commit(quota("alice", "{producerByteRate: 20Mi}"))
        second = await yard.origin.revision()
        texts: list[str] = []

        def leave(request: str) -> None:
            if request == "answer" and not texts:
                texts.append(second.commit)
                yard.fleet.take(second)

        yard.cluster("test").faults.before = leave
        yard.fleet.take(first)
        await yard.clock.turn(3.0)
        assert texts
        assert not yard.task.done()
        assert list(yard.fleet.watched.loops) == ["prod"]
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 20 * MIB
        assert yard.cluster("test").truth.value(BOB, RATE) == 10 * MIB
        assert not (await yard.inventories["test"].load("id-test")).intents

    yard.play(story)


def test_a_refused_login_opens_a_new_session_that_reads_the_files_again(yard: Yard):
    yard.origin.commit(quota("alice"))

    async def story(yard: Yard) -> None:
        def refused(request: str) -> None:
            raise AuthenticationError("the broker refused who we are")

        yard.cluster("prod").faults.before = refused
        await yard.take()
        await yard.clock.turn(1.0)
        assert yard.closed == ["prod"]
        yard.cluster("prod").faults.before = lambda request: None
        await yard.clock.turn(130.0)
        assert yard.opened == ["prod", "prod"]
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 10 * MIB

    yard.play(story)


@pytest.mark.parametrize(
    ("more", "pinned", "sessions"),
    [("  expectedClusterId: id-prod\n", None, 2), ("", None, 1), ("", "id-prod", 2)],
)
def test_a_client_that_met_another_cluster_is_replaced_if_the_expected_id_is_known(
    yard: Yard, more: str, pinned: str | None, sessions: int
):
    yard.pinned_cluster_id = pinned
    yard.origin.commit(quota("alice"), clusters=cluster(more=CORRECT + more))

    async def story(yard: Yard) -> None:
        def another(request: str) -> None:
            raise WrongCluster("another cluster answers", expected="id-prod", actual="other")

        yard.cluster("prod").faults.before = another
        await yard.take()
        await yard.clock.turn(1.0)
        assert yard.closed == ["prod"] * (sessions - 1)
        yard.cluster("prod").faults.before = lambda request: None
        await yard.clock.turn(130.0)
        assert yard.opened == ["prod"] * sessions

    yard.play(story)


def test_a_session_that_cannot_be_opened_is_the_error_of_the_reconciliation(yard: Yard):
    yard.origin.commit(quota("alice"))
    yard.fails["prod"] = ConfigError("the trust store is gone")

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(1.0)
        assert [str(reconciliation.error) for reconciliation in yard.telemetry.passes] == [
            "the trust store is gone"
        ]
        yard.fails.clear()
        await yard.clock.turn(130.0)
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 10 * MIB

    yard.play(story)


def test_a_fault_of_the_program_ends_the_fleet_and_is_named(yard: Yard):
    yard.origin.commit(quota("alice"))
    yard.fails["prod"] = ZeroDivisionError("by zero")

    async def story(yard: Yard) -> None:
        await yard.take()
        await settle()
        assert yard.task.done()
        with pytest.raises(TaskDied, match="cluster prod failed: ZeroDivisionError"):
            yard.task.result()

    yard.play(story)


def test_a_new_commit_triggers_the_loops_and_keeps_the_connection(yard: Yard):
    yard.origin.commit(quota("alice"))

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(5.0)
        yard.origin.commit(quota("alice"), quota("bob"))
        await yard.take()
        await yard.clock.turn(1.0)
        assert yard.cluster("prod").truth.value(BOB, RATE) == 10 * MIB
        assert yard.opened == ["prod"]
        assert yard.closed == []
        assert ("prod", 1) in yard.telemetry.depths
        assert ("prod", 1) in yard.telemetry.batches

    yard.play(story)
