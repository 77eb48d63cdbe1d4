"""Statuses that another writer changes before they are written."""

import asyncio
from typing import Any

import pytest

from reconciler.kube.api.resource_paths import CLIENT_QUOTAS
from reconciler.kube.status.events import ResourceEvent
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from tests.fakes.clock import FakeClock
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.worlds import quota_cluster, resource, seen

ALICE = resource("alice", entity(user="alice"), {Key.PRODUCER_BYTE_RATE: 2048})
SELECTING = {
    **ALICE,
    "spec": {
        **{name: value for name, value in ALICE["spec"].items() if name != "clusterRef"},
        "clusterSelector": {},
    },
}


class WriterWorld:
    """A writer, and a next leader that writes between the reading of a document and the writer's request."""

    def __init__(self, document: dict[str, Any], *, ends: str) -> None:
        self.api, self.cache = FakeKubeApi(), ResourceCache()
        self.leads = True
        self._ends = ends
        _ = self.cache.cluster_seen(seen(quota_cluster()))
        _ = self.cache.observe(seen(self.api.put(CLIENT_QUOTAS, document)))
        self.api.before = self._before
        self.writer = ResourceWriter(
            self.api, cache=self.cache, clock=FakeClock(), identity="op", leads=lambda: self.leads
        )

    def _before(self, verb: str, *_: str) -> None:
        if verb == self._ends:
            self.leads = False
        if verb == "apply" and self.next_status() is None:
            self.api.put(CLIENT_QUOTAS, {**self.stored(), "status": {"entity": "of the next"}})

    def stored(self) -> dict[str, Any]:
        return self.api.find(CLIENT_QUOTAS, "team", "alice")

    def next_status(self) -> Any:
        return self.stored().get("status")

    def write(self) -> set[str]:
        """Write a status; return the documents whose status was not written."""
        view = self.cache.of("prod")["team/alice"]
        status = {"observedGeneration": 1, "clusterId": "mine"}
        return asyncio.run(self.writer.statuses([(view, status)]))


@pytest.mark.parametrize("document", [ALICE, SELECTING])
@pytest.mark.parametrize("ends", ["apply", "get"])
def test_a_process_that_no_longer_leads_does_not_replace_the_status_of_the_next_leader(
    document: dict[str, Any], ends: str
) -> None:
    world = WriterWorld(document, ends=ends)
    assert world.write() == {"team/alice"}
    assert world.next_status() == {"entity": "of the next"}


@pytest.mark.parametrize("document", [ALICE, SELECTING])
def test_a_leader_writes_a_status_again_that_another_writer_changed(
    document: dict[str, Any],
) -> None:
    world = WriterWorld(document, ends="never")
    assert world.write() == set()
    status = world.next_status()
    view = world.cache.of("prod")["team/alice"]
    part = status["clusters"][0] if view.projection else status
    assert part["clusterId"] == "mine"


@pytest.mark.parametrize(("obj", "namespace"), [(quota_cluster(), "default"), (ALICE, "team")])
def test_an_event_is_in_the_namespace_of_its_object_or_in_the_default_one(
    obj: dict[str, Any], namespace: str
) -> None:
    api = FakeKubeApi()
    writer = ResourceWriter(api, cache=ResourceCache(), clock=FakeClock(), identity="pod-1")
    event = ResourceEvent(kind="Warning", reason="Released", note="ü limits stay")
    asyncio.run(writer.events([(seen(obj), event)], otherwise=None))
    (posted,) = api.events
    assert posted["metadata"]["namespace"] == namespace
    assert posted["regarding"]["uid"] == obj["metadata"]["uid"]
    assert posted["regarding"].get("namespace", "default") == namespace
    assert (posted["type"], posted["note"]) == ("Warning", "ü limits stay")
