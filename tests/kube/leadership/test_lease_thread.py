"""The Lease is renewed independently of the program's event loop, but never for a loop that hangs.

These tests block event loops on purpose, so they use the system clock; times are scaled down.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from reconciler.base.clock import SystemClock
from reconciler.errors import ConfigError, KubernetesUnavailable, LeaseLost
from reconciler.kube.api.resource_paths import LEASES
from reconciler.kube.leadership.election import RELEASED_BY, ElectionSettings
from reconciler.kube.leadership.lease_thread import LeaseThread, Watchdog
from tests.fakes.kube_api import FakeKubeApi

PATIENCE = 120.0
DURATION = 2.0


def election(identity: str, **options: float) -> ElectionSettings:
    times: dict[str, Any] = {"duration": DURATION, "renew": 0.2, "deadline": 1.4} | options
    return ElectionSettings(namespace="kafka", name="kquota", identity=identity, **times)


class SharedApi:
    """One API server in memory for several threads: one request at a time."""

    def __init__(self) -> None:
        self.api = FakeKubeApi()
        self.away = threading.Event()
        self._lock = threading.Lock()
        self._renewed = threading.Condition()
        self._count = 0

    @asynccontextmanager
    async def _connection(self) -> Any:
        yield self

    async def connect(self) -> AbstractAsyncContextManager[Any]:
        return self._connection()

    async def get(self, *arguments: Any, **options: Any) -> Any:
        return self._at_once(self.api.get(*arguments, **options))

    async def create(self, *arguments: Any, **options: Any) -> Any:
        return self._at_once(self.api.create(*arguments, **options))

    async def replace(self, *arguments: Any, **options: Any) -> Any:
        answer = self._at_once(self.api.replace(*arguments, **options))
        with self._renewed:
            self._count += 1
            self._renewed.notify_all()
        return answer

    def _at_once(self, request: Any) -> Any:
        if self.away.is_set():
            request.close()
            raise KubernetesUnavailable("no answer")
        with self._lock:
            while True:
                try:
                    request.send(None)
                except StopIteration as done:
                    return done.value

    def wait_renewals(self, count: int) -> None:
        """Block this thread and its event loop until there were the given number of further writes."""
        with self._renewed:
            until = self._count + count
            assert self._renewed.wait_for(lambda: self._count >= until, PATIENCE)

    def is_renewed_within(self, seconds: float) -> bool:
        """Whether there is another write in time."""
        with self._renewed:
            count = self._count
            return self._renewed.wait_for(lambda: self._count > count, seconds)

    @property
    def holder(self) -> str:
        return str(self.api.find(LEASES, "kafka", "kquota")["spec"]["holderIdentity"])


class Candidate:
    """One process: a candidate with a separate event loop, in a thread that ends on request."""

    def __init__(self, api: SharedApi, identity: str) -> None:
        self.elected_at: float | None = None
        self._elected = threading.Event()
        self._ended = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(api, identity)), daemon=True
        )
        self._thread.start()

    async def _run(self, api: SharedApi, identity: str) -> None:
        resign, loop = asyncio.Event(), asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(resign.set)
        lease = LeaseThread(api.connect, election(identity), clock=SystemClock())
        running = asyncio.ensure_future(lease.run(resign))
        elected = asyncio.ensure_future(lease.elected.wait())
        await asyncio.wait({running, elected}, return_when=asyncio.FIRST_COMPLETED)
        if lease.elected.is_set():
            self.elected_at = time.monotonic()
            self._elected.set()
        await running

    def wait_elected(self) -> float:
        assert self._elected.wait(PATIENCE)
        assert self.elected_at is not None
        return self.elected_at

    def stop(self) -> None:
        self._stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


class Program:
    """The leader's program, in the event loop of a test."""

    def __init__(self, api: SharedApi, **options: float) -> None:
        self.reported: list[bool] = []
        self.resign = asyncio.Event()
        self.lease = LeaseThread(
            api.connect,
            election("pod-1", **options),
            clock=SystemClock(),
            report=self.reported.append,
        )
        self.running = asyncio.ensure_future(self.lease.run(self.resign))

    async def lead(self) -> None:
        await asyncio.wait_for(self.lease.elected.wait(), PATIENCE)


def story(test: Callable[[SharedApi], Awaitable[None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(test(SharedApi()), 2 * PATIENCE)

    asyncio.run(run())


def test_a_loop_that_is_blocked_for_longer_than_the_lease_keeps_it_and_no_other_leads() -> None:
    async def test(api: SharedApi) -> None:
        program = Program(api)
        await program.lead()
        candidate = Candidate(api, "pod-2")
        began = time.monotonic()
        while time.monotonic() - began < 1.5 * DURATION:
            api.wait_renewals(3)  # The event loop is blocked meanwhile.
        assert program.lease.leading
        assert candidate.elected_at is None
        assert api.holder.startswith("pod-1_")
        assert not program.lease.leadership_lost.is_set()
        program.resign.set()
        await program.running
        await asyncio.to_thread(candidate.wait_elected)
        candidate.stop()

    story(test)


def test_a_loop_that_hangs_loses_the_lease_and_its_process_before_another_leads() -> None:
    """The candidate's thread could renew forever; it must not renew for a blocked program."""

    async def test(api: SharedApi) -> None:
        program = Program(api, stall=1.0)
        await program.lead()
        killed_at: list[float] = []
        candidate = Candidate(api, "pod-2")
        with Watchdog(
            lambda: program.lease.certain_until,
            clock=SystemClock(),
            grace=0.0,
            end=lambda: killed_at.append(time.monotonic()),
        ):
            elected_at = candidate.wait_elected()  # The event loop is blocked meanwhile.
        assert not program.lease.leading
        assert killed_at
        assert killed_at[0] < elected_at
        with pytest.raises(LeaseLost, match="no progress"):
            await program.running
        assert program.lease.leadership_lost.is_set()
        candidate.stop()

    story(test)


def test_a_candidate_with_a_hung_loop_does_not_acquire_the_lease() -> None:
    async def test(api: SharedApi) -> None:
        holder = Candidate(api, "pod-2")
        await asyncio.to_thread(holder.wait_elected)
        program = Program(api, stall=0.5)
        await asyncio.sleep(0)
        api.wait_renewals(4)  # Its loop does not run before and while the Lease expires.
        holder.stop()
        blocked = threading.Event()
        assert not blocked.wait(1.5 * DURATION)
        assert not program.lease.leading
        await program.lead()
        program.resign.set()
        await program.running

    story(test)


def test_a_lease_that_cannot_be_renewed_is_lost_in_time_although_the_loop_is_blocked() -> None:
    async def test(api: SharedApi) -> None:
        program = Program(api)
        await program.lead()
        candidate = Candidate(api, "pod-2")
        api.wait_renewals(2)
        api.away.set()
        blocked = threading.Event()
        assert not blocked.wait(DURATION)
        assert not program.lease.leading
        assert candidate.elected_at is None
        with pytest.raises(LeaseLost):
            await program.running
        assert program.lease.leadership_lost.is_set()
        api.away.clear()
        await asyncio.to_thread(candidate.wait_elected)
        candidate.stop()

    story(test)


def test_the_lease_is_released_and_the_change_is_reported_in_the_event_loop_of_the_program() -> (
    None
):
    async def test(api: SharedApi) -> None:
        program = Program(api)
        await program.lead()
        assert program.reported == [True]
        program.resign.set()
        await program.running
        assert program.reported == [True, False]
        assert not program.lease.leadership_lost.is_set()
        assert api.holder == ""
        annotations = api.api.find(LEASES, "kafka", "kquota")["metadata"]["annotations"]
        assert annotations[RELEASED_BY] == "pod-1"

    story(test)


def test_a_cancelled_lease_thread_does_not_release_the_lease() -> None:
    async def test(api: SharedApi) -> None:
        program = Program(api)
        await program.lead()
        program.running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await program.running
        assert api.holder.startswith("pod-1_")
        assert not await asyncio.to_thread(api.is_renewed_within, 1.0)

    story(test)


def test_a_lease_thread_that_resigns_at_the_start_ends_before_it_leads() -> None:
    async def test(api: SharedApi) -> None:
        program = Program(api)
        program.resign.set()
        await program.running

    story(test)


def test_a_missing_kubeconfig_is_raised_by_the_lease_thread() -> None:
    async def connect() -> Any:
        raise ConfigError("there is no kubeconfig")

    async def test(_: SharedApi) -> None:
        lease = LeaseThread(connect, election("pod-1"), clock=SystemClock())
        with pytest.raises(ConfigError, match="no kubeconfig"):
            await lease.run(asyncio.Event())
        assert lease.leadership_lost.is_set()

    story(test)
