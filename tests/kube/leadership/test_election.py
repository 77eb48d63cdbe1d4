"""The leader election: who leads, until when, and the effect of a hang, a clock jump and another candidate."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest

from reconciler.errors import (
    ConfigError,
    KubernetesConflict,
    KubernetesUnavailable,
    LeaseLost,
    NotFound,
)
from reconciler.kube.api.resource_paths import LEASES
from reconciler.kube.leadership.election import RELEASED_BY, Connect, ElectionSettings, Leader
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.manual_clock import TurnedClock, settle


class Clocks(TurnedClock):
    """The two clocks of a machine, each with separate faults."""

    def jump(self, seconds: float) -> None:
        """Change the wall clock."""
        self._epoch += seconds

    def freeze(self, seconds: float) -> None:
        """Advance the time while nothing runs: a stopped process, a blocked loop."""
        self._passed += seconds


def election(identity: str = "pod-1", **options: float) -> ElectionSettings:
    return ElectionSettings(namespace="kafka", name="kquota", identity=identity, **options)


def connected_to(api: Any) -> Connect:
    """A connection to an API server that stays open."""

    async def connect() -> AbstractAsyncContextManager[Any]:
        return nullcontext(api)

    return connect


class Candidate:
    """One process: its leader and the task that runs it."""

    def __init__(self, api: FakeKubeApi, clock: Clocks, identity: str = "pod-1") -> None:
        self.changes: list[bool] = []
        self.is_writing = True
        self.resign = asyncio.Event()
        self.leader = Leader(
            connected_to(api),
            election(identity),
            clock=clock,
            report=self.changes.append,
            is_writing=lambda: self.is_writing,
        )
        self.task = asyncio.ensure_future(self.leader.run(self.resign))

    @property
    def leads(self) -> bool:
        return self.leader.leading

    async def kill(self) -> None:
        """As SIGKILL: the Lease is not released."""
        self.task.cancel()
        await asyncio.wait({self.task})


async def started(
    api: FakeKubeApi, clock: Clocks, identity: str = "pod-1", *, seconds: float
) -> Candidate:
    """A candidate that runs for some seconds."""
    candidate = Candidate(api, clock, identity)
    await clock.turn(seconds)
    return candidate


async def leads_with_answers(
    candidate: Candidate, api: FakeKubeApi, clock: Clocks, *, seconds: float
) -> None:
    """Require that a candidate leads some seconds after the API server responds again."""
    api.before = None
    await clock.turn(seconds)
    assert candidate.leads


def hang(*_: str) -> Any:
    return asyncio.Event().wait()


def away(*_: str) -> None:
    raise KubernetesUnavailable("away")


def lose_answers(api: FakeKubeApi, *, count: int) -> list[Any]:
    """Execute the next replacements without a response; return the lost requests, a growing list."""
    replace, lost = api.replace, list[Any]()

    async def replace_without_answer(*args: Any, **options: Any) -> Any:
        answer = await replace(*args, **options)
        if len(lost) < count:
            lost.append(answer)
            raise KubernetesUnavailable("the answer was lost")
        return answer

    api.replace = replace_without_answer
    return lost


def story(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test with an API server and the clocks of a machine; its other arguments are pytest's."""

    async def run_test(arguments: dict[str, Any]) -> None:
        await test(FakeKubeApi(), Clocks(), **arguments)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(run_test(arguments))

    parameters = list(inspect.signature(test).parameters.values())[2:]
    run.__signature__ = inspect.Signature(parameters)
    return run


def lease(api: FakeKubeApi) -> dict[str, Any]:
    return api.find(LEASES, "kafka", "kquota")


@story
async def test_the_first_candidate_creates_the_lease_and_leads_without_a_fence(api, clock):
    first = await started(api, clock, seconds=0)
    assert first.leads
    assert first.leader.elected.is_set()
    assert not first.leader.fence_seconds
    assert first.changes == [True]
    spec = lease(api)["spec"]
    assert spec["holderIdentity"].startswith("pod-1_")
    assert spec["leaseDurationSeconds"] == 15
    assert spec["renewTime"].endswith("Z")


@story
async def test_the_lease_is_renewed_every_two_seconds_and_the_second_candidate_is_standby(
    api, clock
):
    first = await started(api, clock, seconds=0)
    second = Candidate(api, clock, "pod-2")
    for _ in range(600):
        await clock.turn(1)
        assert first.leads
        assert not second.leads
    updates = [call for call in api.calls if call[0] == "update"]
    assert 299 <= len(updates) <= 301
    assert lease(api)["spec"]["holderIdentity"].startswith("pod-1_")


@story
async def test_a_killed_leader_is_replaced_after_the_duration_and_the_next_one_is_fenced(
    api, clock
):
    first = await started(api, clock, seconds=0)
    second = await started(api, clock, "pod-2", seconds=20)
    await first.kill()
    ended = first.leader.certain_until
    assert ended is not None
    await clock.turn(12)
    assert not second.leads
    await clock.turn(7)
    assert second.leads
    assert second.leader.fence_seconds
    await clock.turn(80)
    assert second.leader.fence_seconds
    await clock.turn(10)
    assert second.leads
    assert not second.leader.fence_seconds
    assert lease(api)["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("moment", range(0, 40, 3))
@story
async def test_at_most_one_candidate_leads_at_any_time_when_the_leader_stops(api, clock, moment):
    both = [Candidate(api, clock, "pod-1"), Candidate(api, clock, "pod-2")]
    await clock.turn(moment / 7)
    leads = [candidate for candidate in both if candidate.leads]
    assert len(leads) == 1
    await leads[0].kill()
    for _ in range(80):
        await clock.turn(0.25)
        assert sum(candidate.leads for candidate in both) <= 1
    assert sum(candidate.leads for candidate in both) == 1


@story
async def test_a_released_lease_is_acquired_immediately(api, clock):
    first = await started(api, clock, seconds=0)
    second = await started(api, clock, "pod-2", seconds=5)
    first.resign.set()
    await clock.turn(2.1)
    assert first.task.done()
    assert not first.leads
    assert first.changes == [True, False]
    assert second.leads
    # Another pod released it: its last requests may still arrive.
    assert second.leader.fence_seconds


@story
async def test_a_clean_restart_leads_immediately_without_a_fence_and_a_crash_does_not(api, clock):
    first = await started(api, clock, seconds=5)
    first.resign.set()
    await clock.turn(0)
    assert lease(api)["metadata"]["annotations"][RELEASED_BY] == "pod-1"
    second = await started(api, clock, seconds=0)
    assert second.leads
    assert not second.leader.fence_seconds
    assert RELEASED_BY not in lease(api)["metadata"]["annotations"]
    await second.kill()
    three = await started(api, clock, seconds=14)
    assert not three.leads
    await clock.turn(3)
    assert three.leads
    assert three.leader.fence_seconds


@story
async def test_two_processes_with_one_name_have_different_identities(api, clock):
    first = await started(api, clock, seconds=0)
    second = await started(api, clock, seconds=100)
    assert (first.leads, second.leads) == (True, False)


@story
async def test_a_hung_api_server_ends_the_leader_before_the_lease_expires(api, clock):
    first = await started(api, clock, seconds=4)
    renewed = clock.monotonic()
    api.before = hang
    await clock.turn(9.5)
    assert first.leads
    assert not first.leader.leadership_lost.is_set()
    await clock.turn(1)
    assert first.leader.leadership_lost.is_set()
    assert not first.leads
    assert clock.monotonic() - renewed < 15
    with pytest.raises(LeaseLost, match="not renewed for 10 s"):
        await first.task
    assert first.changes == [True, False]


@story
async def test_a_leader_without_open_writes_pauses_while_the_api_server_is_unavailable_and_resumes(
    api, clock
):
    first = Candidate(api, clock)
    first.is_writing = False
    await clock.turn(4)
    api.before = away
    await clock.turn(60)
    assert not first.leads
    assert first.leader.certain_until is None  # The watchdog has nothing to end.
    assert not first.task.done()
    api.before = None
    await clock.turn(3)
    assert first.leads
    assert first.changes == [True, False, True]
    assert not first.leader.fence_seconds


@story
async def test_a_paused_leader_ends_when_another_candidate_acquired_the_lease(api, clock):
    first = Candidate(api, clock)
    first.is_writing = False
    await clock.turn(4)
    api.before = away
    await clock.turn(30)
    rival_lease = lease(api)
    rival_lease["spec"]["holderIdentity"] = "pod-2_x"
    rival_lease["metadata"]["resourceVersion"] = api.next_version()
    api.before = None
    await clock.turn(3)
    assert not first.leads
    with pytest.raises(LeaseLost, match="taken by pod-2_x"):
        await first.task


@story
async def test_a_paused_leader_ends_when_the_lease_was_deleted(api, clock):
    first = Candidate(api, clock)
    first.is_writing = False
    await clock.turn(4)
    api.before = away
    await clock.turn(30)
    del api.objects["leases", "kafka", "kquota"]
    api.before = None
    await clock.turn(3)
    with pytest.raises(LeaseLost, match="deleted"):
        await first.task


@pytest.mark.parametrize(
    "failure", [KubernetesUnavailable("away"), ConfigError("no token"), KubernetesConflict("busy")]
)
@story
async def test_failures_of_a_few_seconds_do_not_end_the_leadership(api, clock, failure):
    first = await started(api, clock, seconds=4)

    def fail(verb: str, *_: str) -> None:
        if verb == "update":
            raise failure

    api.before = fail
    await clock.turn(9)
    assert first.leads
    await leads_with_answers(first, api, clock, seconds=30)


@story
async def test_a_renewal_with_a_lost_response_does_not_count_and_causes_no_error(api, clock):
    first = await started(api, clock, seconds=1)
    lost = lose_answers(api, count=3)
    await clock.turn(60)
    assert len(lost) == 3
    assert first.leads


@story
async def test_a_takeover_with_a_lost_response_is_fenced(api, clock):
    api.put(
        LEASES,
        {
            "metadata": {"name": "kquota", "namespace": "kafka"},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "x"},
        },
    )
    lost = lose_answers(api, count=1)
    first = await started(api, clock, seconds=25)
    assert len(lost) == 1
    assert first.leads
    assert first.leader.fence_seconds


@story
async def test_a_foreign_holder_of_the_lease_ends_the_leadership_immediately(api, clock):
    first = await started(api, clock, seconds=4)
    stolen = dict(lease(api))
    stolen["spec"] = {**stolen["spec"], "holderIdentity": "thief"}
    api.put(LEASES, stolen)
    await clock.turn(2.1)
    assert first.leader.leadership_lost.is_set()
    assert not first.leads
    with pytest.raises(LeaseLost, match="taken by thief"):
        await first.task


@story
async def test_a_deleted_lease_is_created_again(api, clock):
    first = await started(api, clock, seconds=4)
    api.objects.clear()
    await clock.turn(2.1)
    assert first.leads
    assert lease(api)["spec"]["holderIdentity"].startswith("pod-1_")


@story
async def test_changes_of_wall_clocks_have_no_effect(api, clock):
    first = await started(api, clock, seconds=0)
    second = Candidate(api, clock, "pod-2")
    for jump in (3600.0, -7200.0, 10 * 365 * 86400.0, -86400.0):
        clock.jump(jump)
        for _ in range(20):
            await clock.turn(1)
            assert (first.leads, second.leads) == (True, False)


@story
async def test_a_stopped_process_does_not_lead_when_it_continues(api, clock):
    first = await started(api, clock, seconds=4)
    assert first.leads
    clock.freeze(11)
    assert not first.leads  # before any task ran
    await clock.turn(0.1)
    assert first.leader.leadership_lost.is_set()


@story
async def test_a_candidate_without_access_to_the_api_server_is_standby_until_it_has_access(
    api, clock
):
    api.before = away
    first = await started(api, clock, seconds=60)
    assert not first.leads
    await leads_with_answers(first, api, clock, seconds=2)


@story
async def test_a_lease_observed_before_an_outage_does_not_count_as_expired(api, clock):
    first = await started(api, clock, seconds=0)
    second = await started(api, clock, "pod-2", seconds=3)

    blind = True

    def before(verb: str, *_: str) -> None:
        if blind and asyncio.current_task() is not None and verb == "get":
            raise KubernetesUnavailable("only the one who stands by reads")

    api.before = before
    await clock.turn(120)
    blind = False
    await clock.turn(30)
    assert (first.leads, second.leads) == (True, False)


@pytest.mark.parametrize("duration", [None, 0, -5, 10**9, "15"])
@story
async def test_an_invalid_duration_in_the_lease_of_another_holder_does_not_block_forever(
    api, clock, duration
):
    spec = {"holderIdentity": "other", "leaseDurationSeconds": duration}
    api.put(LEASES, {"metadata": {"name": "kquota", "namespace": "kafka"}, "spec": spec})
    first = await started(api, clock, seconds=14)
    assert not first.leads
    await clock.turn(4)
    assert first.leads


@story
async def test_a_lease_without_a_holder_is_free(api, clock):
    api.put(LEASES, {"metadata": {"name": "kquota", "namespace": "kafka"}})
    first = await started(api, clock, seconds=0)
    assert first.leads


@story
async def test_a_candidate_that_resigns_before_its_election_ends_without_changes(api, clock):
    first = await started(api, clock, seconds=0)
    second = await started(api, clock, "pod-2", seconds=3)
    second.resign.set()
    await settle()
    assert second.task.done()
    await second.task
    assert second.changes == []
    assert first.leads


@story
async def test_a_hung_release_of_the_lease_does_not_delay_the_end(api, clock):
    first = await started(api, clock, seconds=4)
    api.before = hang
    first.resign.set()
    await clock.turn(3.1)
    assert first.task.done()
    await first.task


@story
async def test_a_candidate_that_loses_the_race_for_a_free_lease_is_standby(api, clock):
    both = [Candidate(api, clock, "pod-1"), Candidate(api, clock, "pod-2")]
    await clock.turn(0)
    assert sum(candidate.leads for candidate in both) == 1
    with pytest.raises(NotFound):
        api._found(LEASES, "kafka", "other")


@pytest.mark.parametrize(
    "times", [{"renew": 11.0}, {"deadline": 15.0}, {"renew": 0.0}, {"duration": 9.0}]
)
def test_inconsistent_durations_are_rejected(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="renew < deadline < duration"):
        election(**times)
