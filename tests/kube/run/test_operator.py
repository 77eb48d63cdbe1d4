"""The operator as a whole, with an API server, a Kafka cluster and a clock in memory."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from datetime import datetime
from typing import Any

from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, QUOTA_CLUSTERS
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.leadership.election import ElectionSettings
from reconciler.kube.run.operator import Operator
from reconciler.kube.run.operator_ports import OperatorPorts
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.kube.watch.resource_listing import FullListing
from reconciler.metrics import Metrics
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.fakes.cluster import FakeCluster
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.manual_clock import Inline, TurnedClock
from tests.fakes.memory_audit_log import MemoryAuditLog
from tests.kube.worlds import Sessions, quota_cluster, resource, seen

ALICE = entity(user="alice")


class OneSession(Sessions):
    """The sessions of an operator with one cluster and without Secrets."""

    def state(self, _: str) -> SecretState:
        return SecretState()

    async def forget(self, _: str) -> None:
        """Forget nothing: no session is open."""


class PausedLeader:
    """A candidate that leads until a test pauses it; its lease ends at a time that a test sets."""

    def __init__(self, clock: TurnedClock) -> None:
        self.elected, self.leadership_lost = asyncio.Event(), asyncio.Event()
        self.elected.set()
        self.leading, self.certain_until = True, None
        self.fenced_until, self._clock = 0.0, clock

    @property
    def fence_seconds(self) -> float:
        return max(0.0, self.fenced_until - self._clock.monotonic())

    async def run(self, resign: asyncio.Event) -> None:
        _ = await resign.wait()


class RunningOperator:
    """An operator whose watch reports the events of the test."""

    def __init__(
        self, *, leader_elect: bool = False, predecessor: "RunningOperator | None" = None
    ) -> None:
        self.clock = TurnedClock()
        self.kafka = FakeCluster() if predecessor is None else predecessor.kafka
        self.api: Any = FakeKubeApi(namespace="ops") if predecessor is None else predecessor.api
        if predecessor is None:
            self.api.put(QUOTA_CLUSTERS, quota_cluster())
        self.api.calls.clear()
        self.handlers: dict[str, Callable[[str, Any], object]] = {}
        self.leader = PausedLeader(self.clock)
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
        """Run a story with the running operator."""

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

    def listings(self) -> list[str]:
        """The sources of all listings of ClientQuotas: "memory" of the API server, or "" = its database."""
        return [call[3] for call in self.api.calls if call[:2] == ("list", "clientquotas")]

    def next_sync_time(self) -> float:
        status = self.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
        return datetime.fromisoformat(status["nextSyncTime"]).timestamp()

    def limit(self) -> float | None:
        return self.kafka.truth.value(ALICE, Key.PRODUCER_BYTE_RATE)


def test_a_change_that_a_response_shows_before_its_event_is_reconciled_immediately() -> None:
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
        # The event has the version of the response.
        _ = running.handlers["clientquotas"]("MODIFIED", seen(obj))
        await running.clock.turn(10)
        assert running.limit() == 4096

    running.run(story)


def test_a_start_lists_all_documents_from_the_database_before_it_removes_undeclared_limits() -> (
    None
):
    running = RunningOperator()
    running.api.put(CLIENT_QUOTAS, resource("alice", ALICE, {Key.PRODUCER_BYTE_RATE: 2048}))

    async def apply() -> None:
        assert (running.limit(), running.listings()) == (2048, ["memory", ""])

    running.run(apply)
    obj = running.api.find(CLIENT_QUOTAS, "team", "alice")
    obj["metadata"] |= {"generation": 2, "resourceVersion": running.api.next_version()}
    obj["spec"]["limits"] = {"consumerByteRate": 4096}
    following = RunningOperator(predecessor=running)

    async def remove() -> None:
        assert (following.limit(), following.listings()) == (None, ["memory", ""])

    following.run(remove)


def test_the_listing_at_the_start_is_used_for_one_reconciliation_without_changes() -> None:
    running = RunningOperator()
    foreign, listing = (
        FullListing(
            running.api,
            ResourceCache(operator_class=operator_class),
            namespaces=(),
            from_file=None,
            enqueue=lambda _, __: None,
            on_listed=lambda: None,
        )
        for operator_class in ("theirs", "")
    )

    async def story() -> None:
        assert await foreign.start()
        assert await foreign.for_cluster("prod", lambda: True)
        assert running.listings() == ["memory", ""], "another operator may have recorded more"
        assert await listing.start()
        assert await listing.for_cluster("prod", lambda: True)
        assert running.listings()[2:] == ["memory"]
        assert await listing.for_cluster("prod", lambda: True)
        assert running.listings()[3:] == [""], "it is used by one reconciliation only"
        assert await listing.start()
        assert await listing.for_cluster("prod", lambda: False)
        assert running.listings()[4:] == ["memory", ""], "there is something to do"

    asyncio.run(story())


def applied_documents(*names: str) -> RunningOperator:
    """An operator that applied and recorded 2048 for each of these users, and has ended."""
    running = RunningOperator()
    for name in names:
        limits = {Key.PRODUCER_BYTE_RATE: 2048}
        obj = resource(name, entity(user=name), limits, deletionPolicy="Delete")
        running.api.put(CLIENT_QUOTAS, obj)

    async def pause() -> None:
        await running.clock.turn(5)

    running.run(pause)
    return running


def change_document(running: RunningOperator, limit: int) -> None:
    obj = running.api.find(CLIENT_QUOTAS, "team", "alice")
    obj["metadata"] |= {
        "generation": obj["metadata"]["generation"] + 1,
        "resourceVersion": running.api.next_version(),
    }
    obj["spec"]["limits"] = {"producerByteRate": limit}


def test_a_change_missing_in_the_watch_cache_is_applied_when_the_watch_lists_it() -> None:
    running = applied_documents("alice")
    running.api.memory = deepcopy(running.api.objects)
    change_document(running, 4096)
    following = RunningOperator(predecessor=running)

    async def apply() -> None:
        assert following.limit() == 2048
        assert following.listings() == ["memory"]
        _ = following.handlers["clientquotas"](
            "", seen(following.api.find(CLIENT_QUOTAS, "team", "alice"))
        )
        await following.clock.turn(10)
        assert following.limit() == 4096

    following.run(apply)


def test_drift_that_a_fenced_leader_observes_is_confirmed_after_the_fence() -> None:
    running = applied_documents("alice")
    running.kafka.write(ALICE, Key.PRODUCER_BYTE_RATE, 9000.0)
    following = RunningOperator(leader_elect=True, predecessor=running)
    following.leader.fenced_until = following.clock.monotonic() + 90

    def drifted() -> str:
        status = following.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
        conditions = {each["type"]: each["status"] for each in status["conditions"]}
        return str(conditions["Drifted"])

    async def story() -> None:
        await following.clock.turn(84)
        assert drifted() == "Unknown"
        # The next resync would be due after 108 seconds at the earliest.
        await following.clock.turn(6)
        assert drifted() == "True"

    following.run(story)


def test_a_paused_leader_is_not_ready_and_a_standby_is() -> None:
    running = RunningOperator(leader_elect=True)
    assert running.operator.unready() == ["first listing of the API server pending"]

    async def story() -> None:
        assert running.operator.unready() == []
        running.leader.leading = False
        assert running.operator.unready() == [
            "leadership is paused: the Lease was not renewed in time"
        ]
        running.leader.elected.clear()
        assert running.operator.unready() == []

    running.run(story)
