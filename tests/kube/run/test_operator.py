"""The operator as a whole, on an API server, a Kafka cluster and a clock in memory."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.kube.configuration.client_sessions import SecretState
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.leadership.election import ElectionSettings
from reconciler.kube.run.operator import Operator
from reconciler.kube.run.operator_ports import OperatorPorts
from reconciler.metrics import Metrics
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.fakes.cluster import FakeCluster
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.manual_clock import Inline, TurnedClock
from tests.fakes.memory_audit_log import MemoryAuditLog
from tests.kube.worlds import Sessions, quota_cluster, resource

ALICE = entity(user="alice")


class OneSession(Sessions):
    """The sessions of an operator that has one cluster and no Secret."""

    def state(self, _: str) -> SecretState:
        return SecretState()

    async def forget(self, _: str) -> None:
        """Nothing is open."""


class PausedLeader:
    """A candidate that leads until a test pauses it."""

    def __init__(self) -> None:
        self.elected, self.leadership_lost = asyncio.Event(), asyncio.Event()
        self.elected.set()
        self.leading, self.fenced, self.certain_until = True, False, None

    async def run(self, resign: asyncio.Event) -> None:
        _ = await resign.wait()


class RunningOperator:
    """An operator whose watch reports what a test hands to it."""

    def __init__(self, *, leader_elect: bool = False) -> None:
        self.clock, self.kafka = TurnedClock(), FakeCluster()
        self.api: Any = FakeKubeApi(namespace="ops")
        self.api.put(QUOTA_CLUSTERS, quota_cluster())
        self.handlers: dict[str, Callable[[str, Any], object]] = {}
        self.leader = PausedLeader()
        sessions: Any = OneSession(self.kafka)
        self.operator = Operator(
            OperatorSettings(identity="op", operator_namespace="ops", leader_elect=leader_elect),
            self.api,
            sessions,
            clock=self.clock,
            metrics=Metrics(),
            ports=OperatorPorts(
                watch=self.watch,
                candidate=self.candidate,
                watchdog=lambda _: nullcontext(),
                audit=MemoryAuditLog(),
            ),
        )

    def candidate(self, _: ElectionSettings, __: Callable[[bool], None]) -> PausedLeader:
        return self.leader

    async def watch(
        self,
        kinds: Mapping[tuple[str, str, str], Callable[[str, Any], object]],
        *,
        namespaces: Sequence[str],
        stop: asyncio.Event,
    ) -> None:
        del namespaces
        self.handlers |= {kind[2]: deliver for kind, deliver in kinds.items()}
        _ = await stop.wait()

    def run(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A story while it runs."""

        async def both() -> None:
            asyncio.get_running_loop().set_default_executor(Inline())
            stop = asyncio.Event()
            running = asyncio.ensure_future(self.operator.run(stop))
            await self.clock.turn(5)
            await story()
            stop.set()
            await self.clock.turn(5)
            await running

        asyncio.run(both())

    def limit(self) -> float | None:
        return self.kafka.truth.value(ALICE, Key.PRODUCER_BYTE_RATE)


def test_a_change_that_an_answer_shows_before_its_event_is_reconciled_at_once() -> None:
    running = RunningOperator()
    running.api.put(CLIENT_QUOTAS, resource("alice", ALICE, {Key.PRODUCER_BYTE_RATE: 2048}))

    def change(verb: str, plural: str, *_: str) -> None:
        obj = running.api.find(CLIENT_QUOTAS, "team", "alice")
        if (verb, plural) == ("apply", "clientquotas") and obj["metadata"]["generation"] == 1:
            obj["metadata"] |= {"generation": 2, "resourceVersion": running.api.next_version()}
            obj["spec"]["limits"] = {"producerByteRate": 4096}

    running.api.before = change

    async def story() -> None:
        obj = running.api.find(CLIENT_QUOTAS, "team", "alice")
        assert obj["metadata"]["generation"] == 2
        # The event is as old as what the answer showed.
        _ = running.handlers["clientquotas"]("MODIFIED", obj)
        await running.clock.turn(10)
        assert running.limit() == 4096

    running.run(story)


def test_a_quota_cluster_that_is_suspended_while_its_status_is_written_says_so_at_once() -> None:
    running = RunningOperator()

    def suspend(verb: str, plural: str, *_: str) -> None:
        obj = running.api.find(QUOTA_CLUSTERS, None, "prod")
        if (verb, plural) == ("apply", "quotaclusters") and obj["metadata"]["generation"] == 1:
            obj["metadata"] |= {"generation": 2, "resourceVersion": running.api.next_version()}
            obj["spec"]["suspend"] = True

    running.api.before = suspend

    async def story() -> None:
        await running.clock.turn(10)
        status = running.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
        assert status["observedGeneration"] == 2

    running.run(story)


def test_a_leader_that_pauses_is_not_ready_and_a_standby_is() -> None:
    running = RunningOperator(leader_elect=True)
    assert running.operator.unready() == ["first listing of the API server pending"]

    async def story() -> None:
        assert running.operator.unready() == []
        running.leader.leading = False
        assert running.operator.unready() == ["leading pauses: the Lease was not renewed in time"]
        running.leader.elected.clear()
        assert running.operator.unready() == []

    running.run(story)
