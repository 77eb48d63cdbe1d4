"""Releasing without an operator: records kept as orphaned, finalizers gone, quotas untouched; again does nothing."""

import asyncio
from typing import Any

import pytest

from reconciler.errors import Forbidden, KubernetesError
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, CONFIG_MAPS
from reconciler.kube.records import record_store
from reconciler.kube.records.release import ReleaseResult, release
from reconciler.kube.records.status_records import owned_from
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import OwnershipRecords
from tests.fakes.kube_api import FakeKubeApi
from tests.kube.reviews import quota

ID = "cluster-1"
OTHER = "another.finalizer/x"


def held(
    name: str, *, cluster_id: str = ID, finalizers: Any = (FINALIZER,), **metadata: Any
) -> Any:
    """A ClientQuota that applied one limit."""
    obj = quota(name)
    obj["metadata"] |= {"finalizers": list(finalizers), **metadata}
    obj["metadata"].pop("uid")
    obj["status"] = {
        "clusterId": cluster_id,
        "entity": f"user={name}",
        "keys": [
            {
                "key": "producer_byte_rate",
                "applied": 1048576,
                "since": "2026-01-01T00:00:00Z",
                "appliedAt": "2026-01-01T00:00:00Z",
                "deletionPolicy": "Delete",
            }
        ],
    }
    return obj


def released(
    api: FakeKubeApi, *namespaces: str
) -> tuple[ReleaseResult, list[tuple[str, int, int]]]:
    steps: list[tuple[str, int, int]] = []
    found = asyncio.run(
        release(
            api,  # type: ignore[arg-type]
            namespaces=namespaces,
            operator_namespace="kafka",
            progress=lambda *step: steps.append(step),
        )
    )
    return found, steps


def records(api: FakeKubeApi, cluster_id: str = ID) -> OwnershipRecords:
    return asyncio.run(record_store.read(api, "kafka", cluster_id)).remainder


def pair(name: str) -> Any:
    return entity(user=name), Key.PRODUCER_BYTE_RATE


def writes(api: FakeKubeApi) -> list[Any]:
    return [call for call in api.calls if call[0] not in {"list", "get"}]


def test_documents_are_free_and_their_records_orphaned() -> None:
    api = FakeKubeApi()
    for name in ("alice", "bob"):
        api.put(CLIENT_QUOTAS, held(name, finalizers=[OTHER, FINALIZER]))
    found, steps = released(api)
    assert found == ReleaseResult(documents=("payments/alice", "payments/bob"), pairs=2)
    assert api.find(CLIENT_QUOTAS, "payments", "alice")["metadata"]["finalizers"] == [OTHER]
    kept = records(api)
    assert kept.orphaned == {pair("alice"), pair("bob")}
    assert kept.records[entity(user="alice")].applied[0] == 1048576.0
    assert ("finalizers", 2, 2) in steps


def test_again_does_nothing() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, held("alice", deletionTimestamp="2026-01-01T00:00:00Z"))
    released(api)
    assert (CLIENT_QUOTAS.plural, "payments", "alice") not in api.objects
    api.calls.clear()
    found, _ = released(api)
    assert found == ReleaseResult()
    assert writes(api) == []


def test_a_broken_off_release_is_taken_up_where_it_was() -> None:
    api = FakeKubeApi()
    for name in ("alice", "bob"):
        api.put(CLIENT_QUOTAS, held(name))

    def forbidden(verb: str, *rest: str) -> None:
        if verb == "patch" and rest[-1] == "bob":
            raise Forbidden("the policy says no", status=403)

    api.before = forbidden
    found, _ = released(api)
    assert found.documents == ("payments/alice",)
    assert found.failed == {"payments/bob": "the policy says no"}
    api.before = None
    found, _ = released(api)
    assert found.documents == ("payments/bob",)
    assert found.failed == {}
    assert records(api).orphaned == {pair("alice"), pair("bob")}


def test_a_document_that_stays_takes_its_record_back_and_one_that_went_leaves_an_orphan() -> None:
    api = FakeKubeApi()
    for name in ("alice", "bob"):
        api.put(CLIENT_QUOTAS, held(name))
    released(api)
    staying = api.find(CLIENT_QUOTAS, "payments", "alice")
    owned = owned_from(ID, [staying], records(api))
    assert owned.records[entity(user="alice")].owners[0].document == "payments/alice"  # type: ignore[union-attr]
    assert pair("bob") in owned.orphaned


def test_each_kafka_cluster_keeps_its_own() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, held("alice"))
    api.put(CLIENT_QUOTAS, held("bob", cluster_id="cluster-2"))
    assert released(api)[0].pairs == 2
    assert records(api).orphaned == {pair("alice")}
    assert records(api, "cluster-2").orphaned == {pair("bob")}


def test_only_the_named_namespaces_are_touched() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, held("alice"))
    api.put(CLIENT_QUOTAS, held("bob", namespace="others"))
    assert released(api, "payments")[0].documents == ("payments/alice",)
    assert api.find(CLIENT_QUOTAS, "others", "bob")["metadata"]["finalizers"] == [FINALIZER]


def test_records_that_cannot_be_kept_hold_nobody_back_and_are_named() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, held("alice"))
    damaged = held("bob")
    damaged["status"]["keys"][0]["applied"] = "much"
    api.put(CLIENT_QUOTAS, damaged)
    homeless = held("carol")
    del homeless["status"]["clusterId"]
    api.put(CLIENT_QUOTAS, homeless)

    def forbidden(verb: str, plural: str, *_: str) -> None:
        if plural == CONFIG_MAPS.plural:
            raise Forbidden("no right to ConfigMaps", status=403)

    api.before = forbidden
    found, _ = released(api)
    assert found.documents == ("payments/alice", "payments/bob", "payments/carol")
    assert found.pairs == 0
    assert found.unkept["payments/alice"] == "no right to ConfigMaps"
    assert "damaged" in found.unkept["payments/bob"]
    assert "which Kafka cluster" in found.unkept["payments/carol"]


def test_a_document_without_any_status_is_simply_free() -> None:
    api = FakeKubeApi()
    obj = held("alice")
    del obj["status"]
    api.put(CLIENT_QUOTAS, obj)
    assert released(api)[0] == ReleaseResult(documents=("payments/alice",))


def test_finalizers_that_moved_meanwhile_are_found_again() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, held("alice", finalizers=[FINALIZER]))
    moved = False

    def somebody_else(verb: str, *_: str) -> None:
        nonlocal moved
        if verb == "patch" and not moved:
            moved = True
            api.put(CLIENT_QUOTAS, held("alice", finalizers=[OTHER, FINALIZER]))

    api.before = somebody_else
    assert released(api)[0].documents == ("payments/alice",)
    assert api.find(CLIENT_QUOTAS, "payments", "alice")["metadata"]["finalizers"] == [OTHER]


def test_a_document_that_goes_meanwhile_is_free() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, held("alice"))

    def gone(verb: str, *_: str) -> None:
        if verb == "patch":
            api.objects.pop((CLIENT_QUOTAS.plural, "payments", "alice"), None)

    api.before = gone
    assert released(api)[0].documents == ("payments/alice",)


def test_an_operator_that_still_runs_is_noticed() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, held("alice"))
    patched = 0

    def operator(verb: str, *_: str) -> None:
        nonlocal patched
        patched += verb == "patch"
        if verb == "list" and patched:
            api.put(CLIENT_QUOTAS, held("alice"))

    api.before = operator
    found, _ = released(api)
    assert found.documents == ()
    assert "an operator is running" in found.failed["payments/alice"]


def test_what_cannot_be_listed_is_an_error_and_changes_nothing() -> None:
    api = FakeKubeApi()
    api.put(CLIENT_QUOTAS, held("alice"))

    def forbidden(*_: str) -> None:
        raise Forbidden("no", status=403)

    api.before = forbidden
    with pytest.raises(KubernetesError):
        released(api)
    assert writes(api) == []


def test_two_thousand_documents_are_released_in_one_config_map_write_per_part() -> None:
    api = FakeKubeApi()
    for number in range(2000):
        api.put(CLIENT_QUOTAS, held(f"user-{number}"))
    found, _ = released(api)
    assert len(found.documents) == 2000
    assert found.pairs == 2000
    assert len([call for call in api.calls if call[0] == "patch"]) == 2000
    assert len([call for call in api.calls if call[0] == "create"]) <= 4
