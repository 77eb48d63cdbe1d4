"""`kquota watch` for all clusters: loops restart when settings change, run when documents change, and end in order."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from reconciler.app.watch.cluster import ClusterSession
from reconciler.app.watch.fleet import WatchedFleet
from reconciler.app.watch.revision import Revision
from reconciler.app.watch.state_file import WatchState
from reconciler.errors import AuthenticationError, ConfigError, ConnectError, TaskDied, WrongCluster
from reconciler.inventory.memory import MemoryInventory
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.policy import Cause
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
    async def open(self, revision: Revision, name: str) -> AsyncIterator[ClusterSession]:
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
            yield ClusterSession(
                ports=ports,
                disconnect=self._rest,
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


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_no_cluster_is_reconciled_before_a_revision_is_in_force(yard: Yard):
    async def story(yard: Yard) -> None:
        await yard.clock.turn(1000.0)
        assert yard.opened == []

    yard.play(story)


def test_a_revision_is_applied_and_logged(yard: Yard, caplog):
    yard.origin.commit(quota("alice"))

    async def story(yard: Yard) -> None:
        revision = await yard.take()
        await yard.clock.turn(0.5)
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 10 * MIB
        (reconciliation,) = yard.telemetry.passes
        assert reconciliation.in_order
        assert yard.telemetry.intervals == {"prod": 120.0}
        assert yard.rested == 1
        (_, entry) = yard.audit.entries
        assert (entry.author, entry.commit) == ("tests", revision.commit)
        assert yard.fleet.watched.loops["prod"].last_ended == reconciliation.ended_at
        assert f"prod: 1 applied for {revision.commit[:12]}" in lines(caplog)

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
            observation.corrections for observation in yard.telemetry.passes[-1].observations
        ] == [1]
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 10 * MIB

    yard.play(story)


def test_a_cluster_that_leaves_the_project_is_forgotten_and_keeps_its_quotas(yard: Yard):
    both = cluster("prod") + cluster("test")
    yard.origin.commit(quota("alice"), quota("bob", cluster="test"), clusters=both)

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(1.0)
        assert yard.cluster("test").truth.value(BOB, RATE) == 10 * MIB
        yard.origin.commit(quota("alice"))
        await yard.take()
        await yard.clock.turn(1.0)
        assert list(yard.fleet.watched.loops) == ["prod"]
        assert yard.telemetry.forgotten == ["test"]
        assert yard.cluster("test").truth.value(BOB, RATE) == 10 * MIB

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


def test_of_two_revisions_with_changed_settings_the_newer_is_used(yard: Yard):
    yard.origin.commit(quota("alice"))

    async def story(yard: Yard) -> None:
        first = await yard.origin.revision()
        yard.origin.commit(quota("alice"), clusters=cluster(more="  policy: Observe\n"))
        second = await yard.origin.revision()
        yard.origin.commit(quota("bob"), clusters=cluster(more="  policy: Observe\n"))
        third = await yard.origin.revision()
        for revision in (first, second, third):
            yard.fleet.take(revision)
        await yard.clock.turn(3.0)
        assert yard.cluster("prod").writes == 0
        assert yard.telemetry.passes[0].preview is not None
        assert [finding.entity for finding in yard.telemetry.passes[0].preview.plan.findings] == [
            BOB
        ]

    yard.play(story)


def test_an_unreachable_cluster_does_not_stop_the_others(yard: Yard):
    both = cluster("prod") + cluster("test")
    yard.origin.commit(quota("alice"), quota("bob", cluster="test"), clusters=both)

    async def story(yard: Yard) -> None:
        def down(request: str) -> None:
            raise ConnectError("no broker answers")

        yard.cluster("prod").faults.before = down
        await yard.take()
        await yard.clock.turn(20.0)
        assert yard.cluster("test").truth.value(BOB, RATE) == 10 * MIB
        assert yard.fleet.watched.loops["prod"].failures > 2
        assert yard.cluster("prod").truth.value(ALICE, RATE) is None
        yard.cluster("prod").faults.before = lambda request: None
        await yard.clock.turn(60.0)
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 10 * MIB
        assert yard.opened.count("prod") == 1, "a broker outage does not cause a new client"

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


def test_only_the_cluster_of_the_records_is_written(yard: Yard):
    yard.origin.commit(quota("alice"))
    yard.pinned_cluster_id = "id-before"

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(1.0)
        (reconciliation,) = yard.telemetry.passes
        assert isinstance(reconciliation.error, WrongCluster)
        assert yard.cluster("prod").writes == 0
        yard.pinned_cluster_id = "id-prod"
        await yard.clock.turn(130.0)
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 10 * MIB

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


def test_a_suspended_cluster_is_observed_and_not_written(yard: Yard):
    yard.origin.commit(quota("alice"), clusters=cluster(more="  suspend: true\n"))

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(1.0)
        assert yard.telemetry.passes[0].preview is not None
        assert yard.cluster("prod").writes == 0
        assert yard.inventories["prod"].written == []

    yard.play(story)


def test_a_cluster_with_an_unexpected_id_is_not_written(yard: Yard):
    yard.origin.commit(quota("alice"), clusters=cluster(more="  expectedClusterId: another\n"))

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(1.0)
        assert "not 'another'" in str(yard.telemetry.passes[0].error)
        assert yard.cluster("prod").writes == 0

    yard.play(story)


def test_removals_of_an_hour_are_counted_together_and_survive_a_restart(
    yard: Yard, tmp_path: Path, caplog
):
    guards = "  policy: Sync\n  expectedClusterId: id-prod\n  confirmSync: id-prod\n"
    guards += "  guards: {maxRemovals: 1}\n"
    three = ("alice", "bob", "carol")
    yard.origin.commit(*(quota(name) for name in three), clusters=cluster(more=guards))

    async def first(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(2.0)
        yard.origin.commit(quota("bob"), quota("carol"), clusters=cluster(more=guards))
        await yard.take()
        await yard.clock.turn(2.0)
        assert yard.cluster("prod").truth.value(ALICE, RATE) is None

    async def second(yard: Yard) -> None:
        yard.origin.commit(quota("carol"), clusters=cluster(more=guards))
        await yard.take()
        await yard.clock.turn(2.0)
        assert yard.cluster("prod").truth.value(BOB, RATE) == 10 * MIB
        assert any(
            "namespace team: 2 removals are more than the 1 that are allowed, 1 of them made"
            in text
            for text in lines(caplog)
        )
        await yard.clock.turn(3600.0)
        assert yard.cluster("prod").truth.value(BOB, RATE) is None
        assert "prod: recovered" in lines(caplog)

    yard.play(first)
    yard.state = WatchState(tmp_path / "watch.json")
    yard.play(second)


def test_a_condition_is_logged_once(yard: Yard, caplog):
    yard.origin.commit(quota("alice", "{producerByteRate: 10}"))

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(1000.0)
        assert len(yard.telemetry.passes) > 5
        assert sum("not made: user=alice" in text for text in lines(caplog)) == 1

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


def test_stop_waits_for_the_request_under_way(yard: Yard):
    yard.origin.commit(
        quota("alice"),
        quota("default", entity="{user: {default: true}}"),
        clusters=cluster(more="  guards: {protectDefaults: false}\n"),
    )

    async def story(yard: Yard) -> None:
        def ask(request: str) -> None:
            if request == "answer":
                yard.stop.set()

        yard.cluster("prod").faults.before = ask
        await yard.take()
        await yard.clock.turn(1.0)
        assert yard.task.done()
        assert yard.task.exception() is None
        words = {pair.status_text for pair in _outcome(yard).pairs}
        assert words <= {"APPLIED", "NOT SENT"}
        owned = await yard.inventories["prod"].load("id-prod")
        assert not owned.intents
        assert owned.pair_count == sum(p.status_text == "APPLIED" for p in _outcome(yard).pairs)

    yard.play(story)


def _outcome(yard: Yard):
    outcome = yard.telemetry.passes[-1].outcome
    assert outcome is not None
    return outcome


def test_drift_is_logged_then_corrected_and_the_correction_is_logged(yard: Yard, caplog):
    yard.origin.commit(quota("alice"), clusters=cluster(more=CORRECT))

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(5.0)
        yard.cluster("prod").write(ALICE, RATE, 5 * MIB)
        await yard.clock.turn(250.0)
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 10 * MIB
        texts = [text for text in lines(caplog) if "drift" in text]
        assert texts == [
            "prod: drift corrected: user=alice producer_byte_rate was 5 MiB/s instead of 10 MiB/s"
        ]
        corrections = [p.change.cause for p in _changes(yard)]
        assert corrections == [Cause.CREATE, Cause.DRIFT]

    yard.play(story)


def _changes(yard: Yard):
    return [
        pair
        for reconciliation in yard.telemetry.passes
        if reconciliation.outcome
        for pair in reconciliation.outcome.pairs
    ]


def test_a_writer_that_reverts_corrections_is_logged_with_its_values(yard: Yard, caplog):
    yard.origin.commit(quota("alice"), clusters=cluster(more=CORRECT))

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(5.0)
        for value in (5, 6, 7, 8):
            yard.cluster("prod").write(ALICE, RATE, value * MIB)
            await yard.clock.turn(300.0)
        assert yard.cluster("prod").truth.value(ALICE, RATE) == 8 * MIB
        texts = [text for text in lines(caplog) if "keeps changing" in text]
        assert len(texts) == 1
        assert "corrections of 5 MiB/s, 6 MiB/s, 7 MiB/s were reverted" in texts[0]

    yard.play(story)


def test_warnings_of_a_reconciliation_are_logged(yard: Yard, caplog):
    yard.origin.commit(quota("a", entity='{user: {name: "User:alice"}}'))

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(1.0)
        assert any("quotas/all.yaml:" in text and "User:" in text for text in lines(caplog))

    yard.play(story)


def test_rejections_of_the_broker_are_logged_with_its_message(yard: Yard, caplog):
    yard.origin.commit(quota("alice"))
    yard.cluster("prod").faults.rejected[ALICE] = (44, "POLICY_VIOLATION", "not\nhere")

    async def story(yard: Yard) -> None:
        await yard.take()
        await yard.clock.turn(1.0)
        texts = [text for text in lines(caplog) if "rejected: " in text]
        assert len(texts) == 1
        assert "POLICY_VIOLATION" in texts[0]
        assert "\n" not in texts[0]

    yard.play(story)
