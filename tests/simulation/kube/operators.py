"""Operator processes: the product's operator on the ports of a simulated process."""

import asyncio
import io
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from reconciler.base.protocols import Progress
from reconciler.errors import KquotaError, StalePlan
from reconciler.inventory.audit_log import StreamAuditLog
from reconciler.kube.api.access import ApiAccess
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.http_exchange import RequestTimeouts
from reconciler.kube.configuration.client_sessions import SessionKeeper
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.leadership.election import ONE_TRY, ElectionSettings, Leader
from reconciler.kube.leadership.lease_thread import CHECK_SECONDS, Watchdog
from reconciler.kube.run.operator import Operator
from reconciler.kube.run.operator_ports import KafkaWrites, LeadingStore, OperatorPorts
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.ports import QuotaStore
from reconciler.quota.entity import Entity
from reconciler.quota.overrides import Override
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.guards import Guards
from reconciler.quota.results.report import Reconciliation
from reconciler.quota.state import (
    Alteration,
    Applied,
    ClusterDescription,
    QuotaState,
    Result,
    Visibility,
)
from tests.simulation.kube.api_network import ProcessTransport, ProcessWatch
from tests.simulation.plan_model import PlanInputs
from tests.simulation.processes import SimulatedProcess

if TYPE_CHECKING:
    from tests.simulation.kube.operator_world import OperatorWorld

GRACE_SECONDS = 3.0
"""Time that a process may take to end after it lost its Lease."""

HOME = "ops"
"""Namespace of the operator."""


class ProcessClock:
    """The clocks of a machine, whose wall clock may be stepped."""

    def __init__(self, world: "OperatorWorld", replica: str) -> None:
        self._world, self._replica = world, replica

    def now(self) -> float:
        return self._world.clock.now() + self._world.clock_steps.get(self._replica, 0.0)

    def monotonic(self) -> float:
        return self._world.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))


class LeaseClock(ProcessClock):
    """The clocks of a candidate for the Lease."""

    def monotonic(self) -> float:
        return self._world.lease_time.time()

    async def sleep(self, seconds: float) -> None:
        await self._world.lease_time.sleep(max(seconds, 0.0))


class JudgedMetrics:
    """Metrics that check the laws of each reconciliation, and discard every other value."""

    def __init__(self, judge: "ReconciliationJudge") -> None:
        self._judge = judge

    def record(self, reconciliation: Reconciliation, **_: object) -> None:
        self._judge.passed(reconciliation)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _ignore


def _ignore(*_: object, **__: object) -> None:
    """Do nothing."""


class ProcessOutput(io.StringIO):
    """Standard output of a process; flushed text is visible even if the process is then killed."""

    def __init__(self, world: "OperatorWorld", process: SimulatedProcess) -> None:
        super().__init__()
        self._world, self._process = world, process

    def flush(self) -> None:
        self._process.step()
        self._world.audited(self._process, self.getvalue().encode())
        _ = self.truncate(0)
        _ = self.seek(0)
        self._process.step()


class Candidate(Leader):
    """The product's Lease candidate on the simulation's loop, instead of a thread."""

    _resign: asyncio.Event | None = None

    @property
    def leads_on(self) -> bool:
        """Whether it leads, and has not ended its work to release the Lease."""
        return self.leading and (self._resign is None or not self._resign.is_set())

    async def run(self, resign: asyncio.Event) -> None:
        self._resign = resign
        try:
            await super().run(resign)
        except BaseException:
            self.leadership_lost.set()
            raise


class TaskWatchdog:
    """The product's watchdog, polled by a task instead of a thread."""

    def __init__(
        self,
        certain_until: Callable[[], float | None],
        *,
        clock: LeaseClock,
        process: SimulatedProcess,
    ) -> None:
        self._dog = Watchdog(certain_until, clock=clock, end=process.kill, grace=GRACE_SECONDS)
        self._certain_until, self._clock, self._process = certain_until, clock, process
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._task = asyncio.ensure_future(self._look())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        _ = self._task.cancel()

    async def _look(self) -> None:
        while not self._dog.overdue():
            # Equivalent to polling every half second, with fewer polls, because the time only increases.
            until = self._certain_until()
            seconds = 0.0 if until is None else until + GRACE_SECONDS - self._clock.monotonic()
            shortest = CHECK_SECONDS if until is not None else GRACE_SECONDS
            await self._clock.sleep(max(seconds, shortest))
        self._process.kill()


class ReconciliationJudge:
    """Checks plans and outcomes of one process. Plans of a part of the cluster are not compared with the guards.

    Args:
        world: The simulation.
        process: The process.
    """

    def __init__(self, world: "OperatorWorld", process: SimulatedProcess) -> None:
        self._world, self._process = world, process
        self._guards = Guards()
        self._overrides: Mapping[Pair, Override] = {}
        self._inputs: PlanInputs | None = None
        self._sent: list[Alteration] = []
        self._unseen: list[Alteration] = []

    def begin(self, guards: Guards) -> None:
        """Forget the last reconciliation; the next one has these guards."""
        self._guards, self._inputs = guards, None
        self._sent, self._unseen = [], []
        self._overrides = self._world.laws.records.overrides

    def observed(self, quotas: QuotaState) -> None:
        """Record a describe of all quotas, with the records at that time.

        An override that somebody recorded since the reconciliation began may be unknown to it: it is not judged then.
        """
        owned = self._world.laws.records
        self._inputs = (
            PlanInputs(
                documents=(),
                owned=owned,
                live=quotas,
                rules=self._world.settings.rules,
                at=self._world.clock.now(),
            )
            if owned.overrides == self._overrides
            else None
        )

    def alters(self, alterations: Sequence[Alteration]) -> None:
        """Check that the process may send alterations now."""
        world = self._world
        world.alters(self._process, world.candidates[self._process.name])
        described = None if self._inputs is None else self._inputs.live
        world.judge(world.plan_laws.alters, alterations, self._unseen, described)
        self._sent += alterations

    def altered(self, alterations: Sequence[Alteration], results: Mapping[Entity, Result]) -> None:
        """Record the acknowledged alterations: not every broker shows them yet."""
        self._unseen += [
            alteration
            for alteration in alterations
            if isinstance(results.get(alteration.entity), Applied)
        ]

    async def waited(
        self, expected: Sequence[Alteration], wait: Coroutine[None, None, Visibility]
    ) -> Visibility:
        """Check the result of a wait for visibility."""
        world, awaited = self._world, list(self._unseen)
        began, nodes = world.clock.now(), world.brokers.running()
        visibility = await wait
        world.judge(world.plan_laws.visible, began, nodes, expected, visibility)
        if visibility.everywhere:
            self._unseen = [each for each in self._unseen if each not in awaited]
        return visibility

    def passed(self, reconciliation: Reconciliation) -> None:
        """Check the result of a reconciliation, unless its plan was stale: it was computed from an earlier describe."""
        inputs, world = self._inputs, self._world
        if inputs is None or isinstance(reconciliation.error, StalePlan):
            return
        preview, outcome = reconciliation.preview, reconciliation.outcome
        if preview is not None:
            world.judge(
                partial(world.plan_laws.guarded, unknown={"allowEmpty"}),
                *(inputs, preview, self._guards, preview.plan.owned_pairs),
            )
        if outcome is not None:
            withheld = reconciliation.withheld
            world.judge(world.plan_laws.applied, inputs, outcome, withheld, self._sent)


class JudgedStore(LeadingStore):
    """A quota store that checks the laws before each alteration."""

    def __init__(self, store: QuotaStore, judge: ReconciliationJudge) -> None:
        super().__init__(store, lambda: True, KafkaWrites())
        self._judge = judge

    async def observe(self, *, scram_users: bool = False) -> ClusterDescription:
        description = await super().observe(scram_users=scram_users)
        self._judge.observed(description.quotas)
        return description

    async def wait_visible(
        self,
        expected: Sequence[Alteration],
        *,
        timeout: float,  # noqa: ASYNC109 - as the port has it
    ) -> Visibility:
        return await self._judge.waited(expected, super().wait_visible(expected, timeout=timeout))

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        if validate_only:
            return await super().alter(
                alterations, validate_only=True, progress=progress, results=results
            )
        self._judge.alters(alterations)
        results = {} if results is None else results
        try:
            return await super().alter(alterations, progress=progress, results=results)
        finally:
            self._judge.altered(alterations, results)


class JudgedSessions:
    """The product's sessions with stores that check the laws."""

    def __init__(self, keeper: SessionKeeper, judge: ReconciliationJudge) -> None:
        self._keeper, self._judge = keeper, judge

    async def for_(self, cluster: QuotaCluster) -> QuotaStore:
        self._judge.begin(cluster.guards)
        return JudgedStore(await self._keeper.for_(cluster), self._judge)

    async def forget(self, name: str) -> None:
        await self._keeper.forget(name)

    def state(self, name: str) -> SecretState:
        return self._keeper.state(name)


async def _no_login() -> str:
    return ""


def connect(
    world: "OperatorWorld",
    process: SimulatedProcess,
    clock: ProcessClock,
    *,
    patience: RequestTimeouts | None = None,
) -> KubernetesApi:
    """Return a client of a process for the API server."""
    access = ApiAccess(
        host="https://api",
        tls=None,
        server_name=None,
        proxy="",
        authorization=_no_login,
    )
    transport = ProcessTransport(world.api, process)
    return KubernetesApi(access, clock=clock, patience=patience, transport=transport)


async def run_operator(
    world: "OperatorWorld", process: SimulatedProcess, replica: str, stop: asyncio.Event
) -> None:
    """Run an operator process until it ends.

    Raises:
        KquotaError: The operator ended with an error.
    """
    clock, lease_clock = ProcessClock(world, replica), LeaseClock(world, replica)
    api, writes = connect(world, process, clock), KafkaWrites()
    settings = OperatorSettings(identity=replica, operator_namespace=HOME)
    keeper = SessionKeeper(api, settings=settings, clock=clock)

    def candidate(election: ElectionSettings, report: Callable[[bool], None]) -> Candidate:
        pace = world.settings.election_pace
        slower = replace(
            election,
            duration=election.duration * pace,
            renew=election.renew * pace,
            deadline=election.deadline * pace,
        )

        async def connection() -> KubernetesApi:
            return connect(world, process, lease_clock, patience=ONE_TRY)

        lease_candidate = Candidate(
            connection, slower, clock=lease_clock, report=report, is_writing=writes.are_under_way
        )
        world.candidates[process.name] = lease_candidate
        return lease_candidate

    judge = ReconciliationJudge(world, process)
    operator = Operator(
        settings,
        api,
        JudgedSessions(keeper, judge),  # type: ignore[arg-type]
        clock=clock,
        metrics=JudgedMetrics(judge),  # type: ignore[arg-type]
        ports=OperatorPorts(
            watch=ProcessWatch(world.api, process),
            candidate=candidate,
            watchdog=lambda until: TaskWatchdog(until, clock=lease_clock, process=process),
            audit=StreamAuditLog(ProcessOutput(world, process)),
            writes=writes,
            new_salt=lambda: f"{world.scenario.chance(f'salt {process.name}').getrandbits(64):x}",
        ),
    )
    try:
        await operator.run(stop)
    except KquotaError as error:
        world.trace(process.name, "ends: %s", error)
        raise
    finally:
        await keeper.close()
