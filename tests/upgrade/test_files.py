"""Files of the previous version, written by its own program: what each reader accepts and refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.codecs.audit_log import history_of
from reconciler.codecs.loop_memory import read_watch_state, watch_state_text
from reconciler.codecs.outcome import read_undo
from reconciler.codecs.plan import read_plan
from reconciler.codecs.state import read_state
from reconciler.errors import ConfigError, InventoryError, KquotaError, StalePlan
from reconciler.inventory import format as records
from reconciler.inventory.audit_log import FileAuditLog, read_entries
from reconciler.inventory.cluster_records import ClusterRecords
from reconciler.kube.records.config_map_reader import read
from reconciler.kube.records.status_migration import records_of_statuses
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.keys import Key
from reconciler.quota.planner.removal_budgets import RemovalCount
from reconciler.quota.policy import DeletionPolicy
from reconciler.sandbox import cluster
from tests.upgrade.previous_objects import CLUSTER_ID, OBJECTS, PREVIOUS, TEAM

ALICE, ADDRESS, EVERYONE = entity(user="alice"), entity(ip="10.0.0.1"), entity(user=DEFAULT)
BOB = entity(user="bob", client_id=DEFAULT)
MIB = 1048576.0


def text(name: str) -> str:
    return (PREVIOUS / name).read_text(encoding="utf-8")


def decoded(name: str) -> ClusterRecords:
    return records.decode(text(name).encode(), location=name)[CLUSTER_ID]


def test_records_keep_values_owners_policies_drift_and_overrides() -> None:
    owned = decoded("inventory.json").owned
    assert {subject: record.applied for subject, record in owned.records.items()} == {
        BOB: (None, 5 * MIB, None, None, None),
        ALICE: (20 * MIB, None, 50.0, None, None),
        EVERYONE: (MIB, None, None, None, None),
        ADDRESS: (None, None, None, None, 20.0),
    }
    policies = {
        owner.document: owner.deletion_policy
        for record in owned.records.values()
        for _, owner in record.pairs()
    }
    assert policies == {
        "payments/bob": DeletionPolicy.RETAIN,
        "payments/alice": DeletionPolicy.DELETE,
        "payments/everyone": DeletionPolicy.DELETE,
        "payments/address": DeletionPolicy.DELETE,
    }
    assert set(owned.drift_since) == {(BOB, Key.CONSUMER_BYTE_RATE)}
    override = owned.overrides[ALICE, Key.PRODUCER_BYTE_RATE]
    assert (override.value, override.before, override.declared) == (20 * MIB, 10 * MIB, 10 * MIB)
    assert override.reason == "INC-1"
    assert owned.is_known


def test_writes_of_a_killed_run_remain_open() -> None:
    intents = decoded("interrupted-inventory.json").owned.intents
    assert {(pair[0][0], intent.value, intent.backing) for pair, intent in intents.items()} == {
        ("killed-0", 10_000.0, None),
        ("killed-0", 20_000.0, None),
        ("killed-1", 10_001.0, None),
        ("killed-1", 20_001.0, None),
    }


@pytest.mark.parametrize("name", ["inventory.json", "interrupted-inventory.json"])
def test_records_are_written_unchanged(name: str) -> None:
    assert records.encode({CLUSTER_ID: decoded(name)}) == text(name).encode()


def test_the_audit_log_is_read_and_continued(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    _ = path.write_text(text("audit.jsonl"), encoding="utf-8")
    log = FileAuditLog(path)
    pairs = {(subject, key) for subject in (ALICE, BOB) for key in Key}
    assert log.open_intents(CLUSTER_ID, pairs) == {}
    earlier = list(read_entries(path))
    log.append([{**earlier[0], "outcome": "INTENDED"}])
    assert len(log.open_intents(CLUSTER_ID, pairs)) == 1
    history = history_of(read_entries(path), cluster_id=CLUSTER_ID, location="audit.jsonl")
    assert [change.outcome for change in history.entries] == ["INTENDED"] + ["APPLIED"] * 6
    override = history.entries[1]
    assert (override.entity, override.before, override.after) == (ALICE, 10 * MIB, 20 * MIB)
    assert (override.author, override.cause) == ("ci@example", "Override")


def test_an_outcome_can_be_rolled_back() -> None:
    undo = read_undo(text("outcome.json"), location="outcome.json")
    assert undo.cluster_id == CLUSTER_ID
    assert undo.cluster == "", "the first outcomes do not name the cluster"
    assert set(undo.before) == {
        (BOB, Key.CONSUMER_BYTE_RATE, None),
        (ALICE, Key.PRODUCER_BYTE_RATE, None),
        (ALICE, Key.REQUEST_PERCENTAGE, None),
        (EVERYONE, Key.PRODUCER_BYTE_RATE, None),
        (ADDRESS, Key.CONNECTION_CREATION_RATE, None),
    }


def test_a_plan_without_a_protected_time_must_be_created_again() -> None:
    with pytest.raises(StalePlan, match=r"plan\.json: .* an earlier version of kquota") as error:
        _ = read_plan(text("plan.json"), location="plan.json")
    assert error.value.hint == "plan again"


def test_a_snapshot_gives_the_same_state() -> None:
    cluster_id, taken_at, state = read_state(text("state.json"), location="state.json")
    assert (cluster_id, taken_at[:10]) == (CLUSTER_ID, "2026-11-23")
    assert state.limits[BOB] == (None, 777_777.0, None, None, None)
    assert len(state.limits) == 4


def test_watch_keeps_its_revisions_and_counts_earlier_removals_for_all_tenants_together() -> None:
    state = read_watch_state(text("watch.json"), location="watch.json")
    assert state.commit.startswith("5af1e31")
    assert state.refused_commit.startswith("802fefb")
    count = RemovalCount(at=1795438912.9672482, tenant="", count=1, owned=0, owned_by_all=0)
    assert state.removals == {"prod": (count,)}
    assert read_watch_state(watch_state_text(state), location="watch.json") == state


def test_a_sandbox_continues_with_its_quotas(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.json"
    _ = path.write_text(text("sandbox.json"), encoding="utf-8")
    loaded = cluster.load_state(path)
    assert loaded is not None
    cluster_id, image = loaded
    assert cluster_id == CLUSTER_ID
    assert len(image.values) == 4
    cluster.save_state(path, cluster_id, image)
    assert cluster.load_state(path) == loaded


def test_config_maps_of_the_previous_operator_keep_overrides_orphans_and_removals() -> None:
    stored = read(CLUSTER_ID, OBJECTS["configmaps"])
    assert stored.is_old_form
    assert stored.takes_statuses
    carol, dave = entity(user="carol"), entity(user="dave")
    assert stored.owned.orphaned == {(carol, Key.PRODUCER_BYTE_RATE)}
    assert stored.owned.records[carol].applied[0] == 2 * MIB
    override = stored.owned.overrides[dave, Key.PRODUCER_BYTE_RATE]
    assert (override.value, override.declared) == (8 * MIB, 3 * MIB)
    assert [(count.count, count.tenant) for count in stored.removals] == [(1, "")]


def test_statuses_of_the_previous_operator_define_what_each_document_owns() -> None:
    stored = read(CLUSTER_ID, OBJECTS["configmaps"])
    objects = [
        {**obj, "metadata": {**obj["metadata"], "namespace": TEAM, "uid": obj["metadata"]["name"]}}
        for obj in OBJECTS["clientquotas"]
    ]
    records, uids = records_of_statuses(
        CLUSTER_ID, objects, before=stored.owned.records, has_grant=lambda _: True
    )
    documents = {
        (subject[0], owner.document, owner.deletion_policy)
        for subject, record in records.items()
        for _, owner in record.pairs()
    }
    assert documents == {
        ("alice", f"{TEAM}/alice", DeletionPolicy.DELETE),
        ("bob", f"{TEAM}/bob", DeletionPolicy.RETAIN),
        ("carol", f"{TEAM}/carol", None),
        ("dave", f"{TEAM}/dave", DeletionPolicy.DELETE),
        ("erin", f"{TEAM}/erin", DeletionPolicy.DELETE),
        ("frank", f"{TEAM}/frank", DeletionPolicy.DELETE),
    }
    assert records[entity(user="erin")].applied[0] == 4 * MIB, "the applied value, not the drift"
    assert uids == {f"{TEAM}/{name}": name for name in ("alice", "bob", "dave", "erin", "frank")}


def with_format(name: str, number: int) -> str:
    document: dict[str, Any] = json.loads(text(name))
    return json.dumps(document | {"format": number})


READERS: dict[str, tuple[Callable[[str], object], type[KquotaError]]] = {
    "inventory.json": (
        lambda content: records.decode(content.encode(), location="FILE"),
        InventoryError,
    ),
    "outcome.json": (lambda content: read_undo(content, location="FILE"), ConfigError),
    "plan.json": (lambda content: read_plan(content, location="FILE"), StalePlan),
    "state.json": (lambda content: read_state(content, location="FILE"), ConfigError),
    "watch.json": (lambda content: read_watch_state(content, location="FILE"), ConfigError),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("number", [0, 2])
def test_an_unknown_format_is_refused_with_its_number_and_the_next_step(
    name: str, number: int
) -> None:
    read, error = READERS[name]
    with pytest.raises(error, match=rf"FILE.*format (is )?{number}") as refusal:
        _ = read(with_format(name, number))
    assert "kquota" in refusal.value.hint


def test_an_audit_entry_of_an_unknown_version_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    _ = path.write_text(text("audit.jsonl").replace('"v":1', '"v":2', 1), encoding="utf-8")
    with pytest.raises(InventoryError, match=r"audit\.jsonl:1: not an audit entry of version 1"):
        _ = list(read_entries(path))
