"""Assumptions about Kopf, checked with the installed release: the pinned one, and the newest in a weekly run."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from reconciler.kube.watch import kopf_watcher
from reconciler.kube.watch.kopf_seam import (
    WATCHER,
    NoDifferences,
    NoMemories,
    NoProgress,
    kopf,
    watch_end,
)
from reconciler.kube.watch.kopf_watcher import settings
from tests.servers.processes import HANG_SECONDS

BODY = kopf.Body({"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": {"z": 1}})


def test_the_diff_store_stores_and_returns_nothing():
    store, patch = NoDifferences(), kopf.Patch()
    essence = store.build(body=BODY)
    store.store(body=BODY, patch=patch, essence=essence)
    assert essence == {}
    assert store.fetch(body=BODY) is None
    assert patch == {}


def test_the_progress_store_stores_and_returns_nothing():
    store, patch = NoProgress(), kopf.Patch()
    store.store(key="k", record={"started": "now"}, body=BODY, patch=patch)
    store.touch(body=BODY, patch=patch, value="now")
    store.purge(key="k", body=BODY, patch=patch)
    assert patch == {}
    assert store.fetch(key="k", body=BODY) is None
    essence = {"spec": {"z": 1}}
    assert store.clear(essence=essence) is essence


def test_the_watcher_uses_these_stores():
    stores = settings().persistence
    assert isinstance(stores.diffbase_storage, NoDifferences)
    assert isinstance(stores.progress_storage, NoProgress)


CODE = """
import importlib.util, sys
import reconciler.kube.run.operator
print("kopf" in sys.modules, "kubernetes" in sys.modules)
print(importlib.util.find_spec("kubernetes").name)
"""


def test_the_official_client_is_not_imported_and_remains_importable() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    assert done.stdout.splitlines() == ["True False", "kubernetes"]


# ---- watches that end --------------------------------------------------------------------------

KINDS = {"clientquotas": "ClientQuota"}
PATH = "/apis/kafka-quotas.io/v1alpha1"


@asynccontextmanager
async def api_server(*, served: bool) -> AsyncIterator[str]:
    """The part of an API server that Kopf uses."""

    async def core_versions(_: web.Request) -> web.Response:
        return web.json_response({"versions": ["v1"]})

    async def core(_: web.Request) -> web.Response:
        kind = {
            "name": "namespaces",
            "singularName": "namespace",
            "kind": "Namespace",
            "namespaced": False,
            "verbs": ["get", "list", "watch"],
        }
        return web.json_response({"resources": [kind]})

    async def groups(_: web.Request) -> web.Response:
        version = {"version": "v1alpha1", "groupVersion": "kafka-quotas.io/v1alpha1"}
        group = {"name": "kafka-quotas.io", "versions": [version], "preferredVersion": version}
        return web.json_response({"groups": [group] if served else []})

    async def resources(_: web.Request) -> web.Response:
        kind = {
            "name": "clientquotas",
            "singularName": "clientquota",
            "kind": "ClientQuota",
            "namespaced": True,
            "verbs": ["get", "list", "watch", "patch"],
        }
        return web.json_response({"resources": [kind]})

    async def quotas(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [QUOTA]})
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(asyncio.CancelledError, ConnectionResetError):
            await asyncio.Event().wait()
        return response

    app = web.Application()
    app.router.add_get("/api", core_versions)
    app.router.add_get("/api/v1", core)
    app.router.add_get("/apis", groups)
    app.router.add_get(PATH, resources)
    app.router.add_get(f"{PATH}/clientquotas", quotas)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


QUOTA = {
    "apiVersion": "kafka-quotas.io/v1alpha1",
    "kind": "ClientQuota",
    "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "1"},
    "spec": {},
}


@pytest.fixture
def connected(monkeypatch, tmp_path):
    """A kubeconfig for an API server whose address is known later."""

    def configure(url: str) -> None:
        path = tmp_path / "kubeconfig"
        path.write_text(
            "{apiVersion: v1, kind: Config, current-context: c,"
            f" clusters: [{{name: c, cluster: {{server: '{url}'}}}}],"
            " contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}"
        )
        monkeypatch.setenv("KUBECONFIG", str(path))

    return configure


async def events_until(configure, *, served: bool = True) -> tuple[str, list[str]]:
    """Why Kopf's watch ended, or "" after an event."""
    events: list[str] = []
    over, memories = asyncio.Event(), NoMemories()

    def deliver(kind: str, obj) -> None:
        events.append(obj["metadata"]["name"])
        names = (task.get_name() for task in asyncio.all_tasks())
        events.extend(name for name in names if name.startswith(WATCHER))
        over.set()

    async with api_server(served=served) as url:
        configure(url)
        registry = kopf_watcher.registry({("kafka-quotas.io", "v1alpha1", "clientquotas"): deliver})

        async def until_end() -> str:
            reason = await watch_end(KINDS, over)
            over.set()
            return reason

        ending = asyncio.ensure_future(until_end())
        await kopf.operator(
            registry=registry,
            settings=settings(),
            memories=memories,
            standalone=True,
            clusterwide=True,
            stop_flag=over,
        )
        assert list(memories.iter_all_memories()) == []
        return await ending, events


def test_a_watch_delivers_its_events_from_a_task_with_a_known_name(connected) -> None:
    reason, events = asyncio.run(events_until(connected))
    assert reason == ""
    assert events == ["a", "watcher for clientquotas.v1alpha1.kafka-quotas.io@None"]


def test_a_watch_that_ended_is_detected_by_its_task_and_named() -> None:
    async def story() -> str:
        async def refused() -> None:
            await asyncio.sleep(0)
            raise PermissionError("clientquotas is forbidden", {"the": "complete answer"})

        ended = asyncio.create_task(refused(), name="watcher for clientquotas.v1alpha1@team")
        second = asyncio.create_task(asyncio.Event().wait(), name="watcher for secrets.v1@ops")
        reason = await watch_end(["clientquotas", "secrets"], asyncio.Event())
        assert ended.done()
        _ = second.cancel()
        return reason

    assert asyncio.run(story()) == (
        "the watcher for clientquotas.v1alpha1@team ended: clientquotas is forbidden"
    )


def test_an_unserved_kind_is_named(connected, monkeypatch) -> None:
    monkeypatch.setattr("reconciler.kube.watch.kopf_seam.START_SECONDS", 0.5)
    reason, _ = asyncio.run(events_until(connected, served=False))
    assert reason == "the API server does not serve clientquotas"
