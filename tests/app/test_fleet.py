"""Reconciliation of many clusters: bounded concurrency, results in the order of the project, independent failures."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.fleet import FleetProgress, run_fleet
from reconciler.app.notices import Notice, Notices
from reconciler.app.requests import TargetRequest
from reconciler.errors import ConnectError, Interrupted, PlanRefused
from reconciler.manifest.project.cluster import from_spec
from reconciler.manifest.project.file import InventoryLocation, ProjectCluster


def target(name: str) -> ClusterTarget:
    return ClusterTarget(
        project_cluster=ProjectCluster(
            cluster=from_spec(name, {"bootstrapServers": "127.0.0.1:1"}),
            manifests=(),
            own_manifests=False,
            inventory=InventoryLocation(file="records.json"),
            project=name,
            audit_log="audit.jsonl",
            line=0,
        ),
        root=Path(),
        project=None,
        options=TargetRequest(),
    )


def named(*names: str) -> list[ClusterTarget]:
    return [target(name) for name in names]


@given(turns=st.lists(st.integers(0, 5), min_size=1, max_size=20), concurrency=st.integers(1, 6))
def test_results_have_the_order_of_the_targets_and_concurrency_stays_within_the_bound(
    turns: list[int], concurrency: int
) -> None:
    active = most = 0

    async def work(_: Notices, cluster: ClusterTarget) -> int:
        nonlocal active, most
        active += 1
        most = max(most, active)
        for _turn in range(turns[int(cluster.name)]):
            await asyncio.sleep(0)
        active -= 1
        return int(cluster.name)

    targets = named(*map(str, range(len(turns))))
    results = asyncio.run(run_fleet(targets, work, concurrency=concurrency))
    assert [result.value for result in results] == list(range(len(turns)))
    assert most <= concurrency


def test_a_failed_cluster_keeps_its_notices_and_does_not_stop_the_others() -> None:
    async def work(notices: Notices, cluster: ClusterTarget) -> str:
        notices.warning(f"warned of {cluster.name}")
        if cluster.name == "b":
            raise ConnectError("refused", node="b:9092")
        return cluster.name

    results = asyncio.run(run_fleet(named("a", "b", "c"), work))
    assert [result.value for result in results] == ["a", None, "c"]
    assert [result.is_unreachable for result in results] == [False, True, False]
    assert results[1].notices == (Notice(kind="warning", text="warned of b"),)


def test_an_error_of_kquota_does_not_count_as_an_unreachable_cluster() -> None:
    async def work(_: Notices, __: ClusterTarget) -> None:
        raise PlanRefused("no")

    (result,) = asyncio.run(run_fleet(named("a"), work))
    assert not result.is_unreachable


def test_a_hung_cluster_occupies_one_place_only() -> None:
    async def story() -> list[str]:
        gate, ended = asyncio.Event(), []

        async def work(_: Notices, cluster: ClusterTarget) -> None:
            if cluster.name == "hung":
                await gate.wait()
            ended.append(cluster.name)
            if len(ended) == 4:
                gate.set()

        await run_fleet(named("hung", "a", "b", "c", "d"), work, concurrency=2)
        return ended

    assert asyncio.run(story()) == ["a", "b", "c", "d", "hung"]


def test_after_a_result_that_stops_the_run_no_further_cluster_starts() -> None:
    begun = []

    async def work(_: Notices, cluster: ClusterTarget) -> None:
        begun.append(cluster.name)
        raise PlanRefused("no")

    results = asyncio.run(
        run_fleet(named("a", "b", "c"), work, concurrency=1, stops_on_failure=True)
    )
    assert begun == ["a"]
    assert [str(result.error) for result in results[1:]] == ["not started: the run was stopped"] * 2


def cancelled_after_first(work: Callable[[Notices, ClusterTarget], Awaitable[None]]) -> "list[str]":
    """The errors of a run that is cancelled while it waits."""

    async def story() -> list[str]:
        task = asyncio.create_task(run_fleet(named("a", "b", "c"), work, concurrency=2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        return [type(result.error).__name__ for result in await task]

    return asyncio.run(story())


def test_a_cancelled_run_returns_the_interruption_of_each_cluster() -> None:
    async def work(_: Notices, __: ClusterTarget) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Interrupted("stopped") from None

    assert cancelled_after_first(work) == ["Interrupted", "Interrupted", "KquotaError"]


def test_a_cancelled_run_without_results_raises_the_cancellation() -> None:
    async def work(_: Notices, __: ClusterTarget) -> None:
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        cancelled_after_first(work)


def test_a_fault_of_the_program_ends_the_run() -> None:
    async def work(_: Notices, cluster: ClusterTarget) -> None:
        if cluster.name == "a":
            raise ZeroDivisionError
        await asyncio.Event().wait()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_fleet(named("a", "b"), work))


def test_a_value_may_count_as_a_failure() -> None:
    progress: list[FleetProgress] = []

    async def work(_: Notices, cluster: ClusterTarget) -> str:
        return cluster.name

    results = asyncio.run(
        run_fleet(
            named("a", "b", "c"),
            work,
            concurrency=1,
            report=progress.append,
            is_failed=lambda result: result.value == "b",
            stops_on_failure=True,
        )
    )
    assert [result.value for result in results] == ["a", "b", None]
    assert progress[-1] == FleetProgress(total=3, done=2, active=0, failed=1)
