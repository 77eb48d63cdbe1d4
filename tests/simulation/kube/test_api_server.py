"""Tests that the simulated API server behaves like a real one where the operator depends on it."""

import json
from typing import Any

from reconciler.base.http.messages import HttpRequest, HttpResponse
from tests.simulation.kube.api_server import ApiServer

COLLECTION = "/apis/kafka-quotas.io/v1alpha1/namespaces/team/clientquotas"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class Client:
    """Sends requests as the product does."""

    def __init__(self) -> None:
        self.server = ApiServer(lambda: 1_700_000_000.0)

    def send(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> HttpResponse:
        request = HttpRequest(
            method=method,
            url=f"https://api{path}",
            headers={"Content-Type": kind},
            body=None if body is None else json.dumps(body).encode(),
            max_bytes=1 << 20,
        )
        return self.server.answer(request, "test")

    def create(self, name: str, **metadata: Any) -> Any:
        body = {"metadata": {"name": name, **metadata}, "spec": {"a": 1}}
        return json.loads(self.send("POST", COLLECTION, body).body)


def test_a_replacement_of_an_older_version_is_a_conflict() -> None:
    client = Client()
    first = client.create("x")
    changed = {**first, "spec": {"a": 2}}
    assert client.send("PUT", f"{COLLECTION}/x", changed).status == 200
    assert client.send("PUT", f"{COLLECTION}/x", changed).status == 409


def test_a_patch_with_a_failed_test_changes_nothing() -> None:
    client = Client()
    _ = client.create("x", finalizers=["a"])
    operations = [
        {"op": "test", "path": "/metadata/finalizers/0", "value": "b"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    assert client.send("PATCH", f"{COLLECTION}/x", operations, JSON_PATCH).status == 422
    operations[0]["value"] = "a"
    assert client.send("PATCH", f"{COLLECTION}/x", operations, JSON_PATCH).status == 200


def test_a_status_does_not_change_the_generation_and_a_spec_does() -> None:
    client = Client()
    obj = client.create("x")
    status = {"metadata": {"name": "x"}, "status": {"ready": True}}
    applied = json.loads(client.send("PATCH", f"{COLLECTION}/x/status", status, APPLY).body)
    assert applied["metadata"]["generation"] == obj["metadata"]["generation"]
    changed = client.server.put("user", "clientquotas", {**applied, "spec": {"a": 2}})
    assert changed["metadata"]["generation"] == obj["metadata"]["generation"] + 1
    assert changed["status"] == {"ready": True}


def test_a_write_without_changes_creates_no_new_version() -> None:
    client = Client()
    obj = client.create("x")
    again = json.loads(client.send("PUT", f"{COLLECTION}/x", obj).body)
    assert again["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]


def test_a_deleted_object_remains_until_its_last_finalizer_is_removed() -> None:
    client = Client()
    _ = client.create("x", finalizers=["a"])
    assert client.send("DELETE", f"{COLLECTION}/x").status == 200
    terminating = json.loads(client.send("GET", f"{COLLECTION}/x").body)
    assert terminating["metadata"]["deletionTimestamp"]
    operations = [{"op": "remove", "path": "/metadata/finalizers/0"}]
    assert client.send("PATCH", f"{COLLECTION}/x", operations, JSON_PATCH).status == 200
    assert client.send("GET", f"{COLLECTION}/x").status == 404


def test_a_deletion_of_another_uid_is_a_conflict() -> None:
    client = Client()
    _ = client.create("x")
    body = {"preconditions": {"uid": "another"}}
    assert client.send("DELETE", f"{COLLECTION}/x", body).status == 409


def test_a_listing_of_several_pages_shows_one_time_and_ends_with_the_history() -> None:
    client = Client()
    for name in ("a", "b", "c"):
        _ = client.create(name)
    first = json.loads(client.send("GET", f"{COLLECTION}?limit=1").body)
    client.server.remove("user", ("clientquotas", "team", "b"))
    token = first["metadata"]["continue"]
    second = json.loads(client.send("GET", f"{COLLECTION}?limit=1&continue={token}").body)
    assert [obj["metadata"]["name"] for obj in second["items"]] == ["b"]
    client.server.compact()
    token = second["metadata"]["continue"]
    assert client.send("GET", f"{COLLECTION}?limit=1&continue={token}").status == 410


def listed(client: Client, query: str) -> tuple[dict[str, int], int]:
    """Return the names and specs of a listing, and its resource version."""
    listing = json.loads(client.send("GET", f"{COLLECTION}{query}").body)
    assert "continue" not in listing["metadata"]
    specs = {obj["metadata"]["name"]: obj["spec"]["a"] for obj in listing["items"]}
    return specs, int(listing["metadata"]["resourceVersion"])


def test_an_outdated_watch_cache_is_listed_at_its_version_and_a_watch_reports_the_rest() -> None:
    client = Client()
    for name in ("changed", "deleted", "kept"):
        _ = client.create(name)
    client.server.cached_at = client.server.revision
    changed = client.server.objects["clientquotas", "team", "changed"]
    _ = client.server.put("user", "clientquotas", {**changed, "spec": {"a": 2}})
    client.server.remove("user", ("clientquotas", "team", "deleted"))
    _ = client.create("created")
    now = {"changed": 2, "created": 1, "kept": 1}
    specs, version = listed(client, "?resourceVersion=0")
    assert specs == {"changed": 1, "deleted": 1, "kept": 1}
    for event in client.server.since(version, "clientquotas") or ():
        name = event.obj["metadata"]["name"]
        if event.kind == "DELETED":
            del specs[name]
        else:
            specs[name] = event.obj["spec"]["a"]
    assert specs == now
    assert listed(client, "") == listed(client, "?limit=500") == (now, client.server.revision)
    client.server.cached_at = None
    assert listed(client, "?resourceVersion=0") == (now, client.server.revision)


def test_a_watch_cache_is_never_older_than_the_history() -> None:
    client = Client()
    _ = client.create("a")
    client.server.cached_at = client.server.revision
    _ = client.create("b")
    client.server.compact()
    specs, version = listed(client, "?resourceVersion=0")
    assert specs == {"a": 1, "b": 1}
    assert version == client.server.compacted


def test_a_watch_with_an_expired_version_is_refused() -> None:
    client = Client()
    obj = client.create("x")
    revision = int(obj["metadata"]["resourceVersion"])
    client.server.remove("user", ("clientquotas", "team", "x"))
    news = client.server.since(revision, "clientquotas")
    assert [event.kind for event in news or ()] == ["DELETED"]
    client.server.compact()
    assert client.server.since(revision, "clientquotas") is None
