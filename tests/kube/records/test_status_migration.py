"""Records of statuses are migrated once: only with a grant, never over a ConfigMap, and never when damaged."""

from typing import Any

import pytest

from reconciler.kube.records.status_migration import records_of_statuses
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import NO_RECORD, Owner
from reconciler.quota.policy import DeletionPolicy
from tests.kube.worlds import resource

ALICE = entity(user="alice")
RATE = Key.PRODUCER_BYTE_RATE
TIME = "2023-11-14T22:13:20Z"


def quota(name: str = "alice", *, cluster_id: Any = "c", **item: Any) -> dict[str, Any]:
    obj = resource(name, ALICE, {RATE: 2048})
    entry = {"key": RATE.value, "applied": 2048, "since": TIME, "appliedAt": TIME} | item
    return obj | {"status": {"clusterId": cluster_id, "keys": [entry]}}


def records_and_uids(*objects: Any, before: Any = None, granted: bool = True) -> Any:
    return records_of_statuses("c", objects, before=before or {}, has_grant=lambda _: granted)


def test_a_record_of_a_status_is_migrated_with_its_owner_and_uid() -> None:
    records, uids = records_and_uids(quota(deletionPolicy="Delete"))
    assert records[ALICE].applied[0] == 2048.0
    owner = records[ALICE].owners[0]
    assert (owner.document, owner.deletion_policy) == ("team/alice", DeletionPolicy.DELETE)
    assert uids == {"team/alice": "uid-team-alice"}


def test_no_record_is_migrated_without_a_grant_or_from_another_cluster() -> None:
    assert records_and_uids(quota(), granted=False) == ({}, {})
    assert records_and_uids(quota(cluster_id="d")) == ({}, {})


def test_config_maps_take_precedence_over_statuses() -> None:
    owner = Owner(document="team/other")
    before = {ALICE: NO_RECORD.with_pair(RATE, 1.0, owner)}
    assert records_and_uids(quota(), before=before) == (before, {})


def test_of_two_documents_the_one_that_applied_later_owns_the_pair() -> None:
    later = quota("later", appliedAt="2024-11-14T22:13:20Z")
    for objects in ((quota(), later), (later, quota())):
        assert records_and_uids(*objects)[0][ALICE].owners[0].document == "team/later"


@pytest.mark.parametrize(
    "item",
    [
        {"key": "no such key"},
        {"applied": "much"},
        {"applied": True},
        {"since": 5},
        {"deletionPolicy": "Keep"},
    ],
)
def test_a_damaged_status_is_not_migrated(item) -> None:
    assert records_and_uids(quota(**item)) == ({}, {})


def test_an_open_write_is_not_migrated_as_a_record() -> None:
    obj = quota()
    obj["status"]["keys"] = [{"key": RATE.value, "intended": 5}]
    assert records_and_uids(obj) == ({}, {})
