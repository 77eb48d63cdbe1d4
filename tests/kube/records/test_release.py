"""A release without an operator: records are orphaned, finalizers removed, quotas unchanged; it is idempotent."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import Forbidden, KubernetesError
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, CONFIG_MAPS
from reconciler.kube.records import record_store
from reconciler.kube.records.release import ReleaseResult, release
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import Owner, OwnershipRecords, Recorded
from reconciler.quota.policy import DeletionPolicy
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.reviews import quota

ID = "cluster-1"
OTHER_FINALIZER = "another.finalizer/x"


def quota_with_finalizer(name: str, *, finalizers: Any = (FINALIZER,), **metadata: Any) -> Any:
    obj = quota(name)
    obj["metadata"] |= {"finalizers": list(finalizers), **metadata}
    obj["metadata"].pop("uid")
    return obj


def apply_limits(api: FakeKubeApi, *names: str, cluster_id: str = ID) -> None:
    """Record a limit for each of these documents, like the operator."""
    changes = [
        Recorded(
            entity=entity(user=name),
            key=Key.PRODUCER_BYTE_RATE,
            value=1048576.0,
            owner=Owner(document=f"payments/{name}", deletion_policy=DeletionPolicy.DELETE),
        )
        for name in names
    ]

    def record(stored: StoredRecords) -> StoredRecords:
        return replace(stored, owned=stored.owned.with_changes(changes))

    _ = asyncio.run(record_store.change(api, "kafka", cluster_id, record))
    api.calls.clear()


def released(
    api: FakeKubeApi, *namespaces: str
) -> tuple[ReleaseResult, list[tuple[str, int, int]]]:
    steps: list[tuple[str, int, int]] = []
    result = asyncio.run(
        release(
            api,
            namespaces=namespaces,
            operator_namespace="kafka",
            progress=lambda *step: steps.append(step),
        )
    )
    return result, steps


def records(api: FakeKubeApi, cluster_id: str = ID) -> OwnershipRecords:
    return asyncio.run(record_store.read(api, "kafka", cluster_id)).owned


def pair(name: str) -> Any:
    return entity(user=name), Key.PRODUCER_BYTE_RATE


def writes(api: FakeKubeApi) -> list[Any]:
    return [call for call in api.calls if call[0] not in {"list", "get"}]


def test_documents_are_released_and_their_records_orphaned() -> None:
    api = FakeKubeApi()
    for name in ("alice", "bob"):
        api.put(CLIENT_QUOTAS, quota_with_finalizer(name, finalizers=[OTHER_FINALIZER, FINALIZER]))
    apply_limits(api, "alice", "bob")
    result, steps = released(api)
    assert result == ReleaseResult(documents=("payments/alice", "payments/bob"), pairs=2)
    assert api.find(CLIENT_QUOTAS, "payments", "alice")["metadata"]["finalizers"] == [
        OTHER_FINALIZER
    ]
    owned = records(api)
    assert owned.orphaned == {pair("alice"), pair("bob")}
    assert owned.records[entity(user="alice")].applied[0] == 1048576.0
    assert ("finalizers", 2, 2) in steps


def test_an_interrupted_release_is_continued() -> None:
    api = FakeKubeApi()
    for name in ("alice", "bob"):
        api.put(CLIENT_QUOTAS, quota_with_finalizer(name))
    apply_limits(api, "alice", "bob")

    def forbidden(verb: str, *path: str) -> None:
        if verb == "patch" and path[-1] == "bob":
            raise Forbidden("the policy says no", status=403)

    api.before = forbidden
    result, _ = released(api)
    assert result.documents == ("payments/alice",)
    assert result.failed == {"payments/bob": "the policy says no"}
    api.before = None
    result, _ = released(api)
    assert result.documents == ("payments/bob",)
    assert result.failed == {}
    assert records(api).orphaned == {pair("alice"), pair("bob")}


def test_each_kafka_cluster_has_its_own_records() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, quota_with_finalizer("alice"))
    api.put(CLIENT_QUOTAS, quota_with_finalizer("bob"))
    apply_limits(api, "alice")
    apply_limits(api, "bob", cluster_id="cluster-2")
    assert released(api)[0].pairs == 2
    assert records(api).orphaned == {pair("alice")}
    assert records(api, "cluster-2").orphaned == {pair("bob")}


def test_records_that_cannot_be_orphaned_do_not_block_a_document_and_are_named() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, quota_with_finalizer("alice"))
    apply_limits(api, "alice")

    def forbidden(verb: str, plural: str, *_: str) -> None:
        if (verb, plural) == ("update", CONFIG_MAPS.plural):
            raise Forbidden("no right to ConfigMaps", status=403)

    api.before = forbidden
    result, _ = released(api)
    assert result.documents == ("payments/alice",)
    assert result.pairs == 0
    assert result.unrecorded == {f"records of cluster {ID}": "no right to ConfigMaps"}


def test_finalizers_that_moved_concurrently_are_removed() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, quota_with_finalizer("alice", finalizers=[FINALIZER]))
    moved = False

    def move_finalizers(verb: str, *_: str) -> None:
        nonlocal moved
        if verb == "patch" and not moved:
            moved = True
            api.put(
                CLIENT_QUOTAS,
                quota_with_finalizer("alice", finalizers=[OTHER_FINALIZER, FINALIZER]),
            )

    api.before = move_finalizers
    assert released(api)[0].documents == ("payments/alice",)
    assert api.find(CLIENT_QUOTAS, "payments", "alice")["metadata"]["finalizers"] == [
        OTHER_FINALIZER
    ]


def test_a_document_that_is_deleted_concurrently_counts_as_released() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, quota_with_finalizer("alice"))

    def gone(verb: str, *_: str) -> None:
        if verb == "patch":
            api.objects.pop((CLIENT_QUOTAS.plural, "payments", "alice"), None)

    api.before = gone
    assert released(api)[0].documents == ("payments/alice",)


def test_a_running_operator_is_detected() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, quota_with_finalizer("alice"))
    patched = 0

    def operator(verb: str, *_: str) -> None:
        nonlocal patched
        patched += verb == "patch"
        if verb == "list" and patched:
            api.put(CLIENT_QUOTAS, quota_with_finalizer("alice"))

    api.before = operator
    result, _ = released(api)
    assert result.documents == ()
    assert "an operator is running" in result.failed["payments/alice"]


def test_documents_that_cannot_be_listed_are_an_error_and_nothing_is_changed() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, quota_with_finalizer("alice"))

    def forbidden(*_: str) -> None:
        raise Forbidden("no", status=403)

    api.before = forbidden
    with pytest.raises(KubernetesError):
        released(api)
    assert writes(api) == []
