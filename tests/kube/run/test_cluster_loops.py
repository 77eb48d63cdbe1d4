"""One loop for each QuotaCluster of this operator: started, ended and triggered as QuotaClusters change."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.app.loop.cluster_loop import LoopIntervals, LoopOutcome, LoopTrigger
from reconciler.errors import KubernetesUnavailable
from reconciler.kube.run.cluster_loops import LOST, ClusterLoops, reported
from reconciler.kube.watch.resource_cache import ResourceCache
from tests.fakes.clock import FakeClock
from tests.kube.worlds import quota_cluster, seen


def cluster(generation: int = 1, **spec: Any) -> dict[str, Any]:
    obj = quota_cluster(**spec)
    obj["metadata"]["generation"] = generation
    return obj


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


def test_a_cluster_that_is_assigned_to_another_operator_is_no_longer_reconciled():
    cache = ResourceCache()
    passes: list[str] = []
    ended: list[str] = []

    def work_of(name: str) -> Any:
        async def work(wake: LoopTrigger) -> LoopOutcome:
            del wake
            passes.append(name)
            return LoopOutcome()

        return work

    async def run() -> None:
        loops = ClusterLoops(
            cache,
            work_of=work_of,
            pace_of=lambda name: LoopIntervals(),
            clock=FakeClock(),
            on_end=ended.append,
        )
        stop = asyncio.Event()
        running = asyncio.ensure_future(loops.run(stop))
        loops.enqueue(cache.cluster_seen(seen(cluster())), "prod")
        await until(lambda: "prod" in passes)
        loops.enqueue(cache.cluster_seen(seen(cluster(2, operatorClass="theirs"))), "prod")
        await until(lambda: bool(ended))
        assert ended == ["prod"]
        assert list(loops.loops) == []
        loops.enqueue(cache.cluster_seen(seen(cluster(3))), "prod")
        passes.clear()
        await until(lambda: "prod" in passes)
        stop.set()
        await running

    asyncio.run(run())
    assert set(passes) <= {"prod", LOST}


def test_a_reconciliation_reports_its_start_while_it_runs_and_zero_afterwards() -> None:
    clock = FakeClock()
    reports: list[float] = []

    async def work(_: LoopTrigger) -> LoopOutcome:
        assert reports == [clock.now()]
        return LoopOutcome(note="done")

    outcome = asyncio.run(reported(work, reports.append, clock=clock)(LoopTrigger()))
    assert outcome == LoopOutcome(note="done")
    assert reports == [clock.now(), 0.0]


def test_a_reconciliation_that_fails_reports_its_end() -> None:
    reports: list[float] = []

    async def work(_: LoopTrigger) -> LoopOutcome:
        raise KubernetesUnavailable("no answer")

    with pytest.raises(KubernetesUnavailable):
        _ = asyncio.run(reported(work, reports.append, clock=FakeClock())(LoopTrigger()))
    assert reports[-1] == 0.0
