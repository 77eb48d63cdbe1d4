"""Documents that select clusters: each cluster reconciles its part; there is one status and one finalizer for all."""

from typing import Any

import pytest

from reconciler.errors import ConnectError
from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.state import limits_of
from tests.kube.fleet_world import FleetWorld, selecting

RATE = Key.PRODUCER_BYTE_RATE
ALICE = entity(user="alice")
EUROPE = {"matchLabels": {"region": "eu"}}
LABELS = {
    "eu-1": {"region": "eu", "size": "large"},
    "eu-2": {"region": "eu"},
    "us-1": {"region": "us"},
}


def applied(value: float | None) -> dict[Any, Any]:
    return {} if value is None else {ALICE: limits_of({RATE: value})}


def fleet(**spec: Any) -> FleetWorld:
    """A fleet in which a document for the clusters of Europe was applied."""
    world = FleetWorld(LABELS)
    fields: dict[str, Any] = {"deletionPolicy": "Delete", **spec}
    world.put(selecting("alice", ALICE, {RATE: 2048}, EUROPE, **fields))
    world.turn()
    return world


def lives(world: FleetWorld) -> list[float | None]:
    """The rate of alice in each cluster."""
    return [world.live(name).get(ALICE, (None,))[0] for name in LABELS]


def test_every_selected_cluster_gets_the_limits_and_one_status_covers_all() -> None:
    world = fleet()
    assert lives(world) == [2048.0, 2048.0, None]
    status = world.status("alice")
    assert world.ready("alice")[:2] == ("True", "Synced")
    assert status["clustersReady"] == "2/2"
    assert [part["name"] for part in status["clusters"]] == ["eu-1", "eu-2"]
    assert "keys" not in status, "applied values are reported for each cluster"
    (key,) = world.part("alice", "eu-1")["keys"]
    assert (key["desired"], key["live"], key["applied"]) == (2048, 2048, 2048)
    assert key["selectedBy"] == "region=eu"
    assert world.part("alice", "eu-2")["clusterId"] == "id-eu-2"
    assert world.obj("alice")["metadata"]["finalizers"] == [FINALIZER]


def test_limits_of_some_clusters_are_applied_there_and_named_in_the_status() -> None:
    world = fleet(
        clusterLimits=[
            {
                "clusterSelector": {"matchLabels": {"size": "large"}},
                "limits": {"producerByteRate": 8192},
            },
            {"clusterRef": {"name": "us-1"}, "limits": {"producerByteRate": 1}},
        ]
    )
    assert lives(world) == [8192.0, 2048.0, None]
    (key,) = world.part("alice", "eu-1")["keys"]
    assert key["selectedBy"] == "region=eu; clusterLimits[0] size=large"


def test_a_label_moves_ownership_by_the_deletion_policy() -> None:
    world = fleet()
    world.label("us-1", region="eu")
    world.label("eu-2", region="us")
    world.turn()
    assert lives(world) == [2048.0, None, 2048.0]
    assert [part["name"] for part in world.status("alice")["clusters"]] == ["eu-1", "us-1"]
    assert world.ready("alice")[:2] == ("True", "Synced")


def test_a_removal_is_continued_if_the_brokers_were_unreachable_when_the_label_changed() -> None:
    world = fleet()
    world.label("eu-2", region="us")
    world.sessions["eu-2"].error = ConnectError("away")
    world.turn()
    assert lives(world) == [2048.0, 2048.0, None]
    world.begin()
    world.sessions["eu-2"].error = None
    world.turn()
    assert lives(world) == [2048.0, None, None]


def test_a_cluster_that_is_selected_again_keeps_the_limit() -> None:
    world = fleet()
    world.label("eu-2", region="us")
    world.sessions["eu-2"].error = ConnectError("away")
    world.turn()
    world.label("eu-2", region="eu")
    world.sessions["eu-2"].error = None
    for _ in range(2):
        world.turn()
    assert lives(world) == [2048.0, 2048.0, None]
    assert world.ready("alice")[:2] == ("True", "Synced")
    world.delete("alice")
    world.turn()
    assert lives(world) == [None, None, None]
    assert not world.exists("alice")


def test_an_unreachable_cluster_makes_the_document_unready_and_does_not_delay_others() -> None:
    world = FleetWorld(LABELS)
    world.sessions["eu-2"].error = ConnectError("away")
    world.put(selecting("alice", ALICE, {RATE: 2048}, EUROPE))
    world.turn()
    status, reason, message = world.ready("alice")
    assert (status, reason) == ("False", "BrokerUnavailable")
    assert message.startswith("eu-2: ")
    assert world.part_reason("alice", "eu-1") == "Synced"
    assert world.status("alice")["clustersReady"] == "1/2"
    assert lives(world) == [2048.0, None, None]


def test_a_document_is_deleted_only_when_every_cluster_has_released_it() -> None:
    world = fleet()
    world.sessions["eu-2"].error = ConnectError("away")
    world.delete("alice")
    world.turn()
    assert lives(world) == [None, 2048.0, None]
    assert world.exists("alice"), "eu-2 still retains it"
    assert world.part("alice", "eu-1")["released"]
    world.begin()
    world.sessions["eu-2"].error = None
    world.turn("eu-2")
    assert lives(world) == [None, None, None]
    assert not world.exists("alice")


def test_a_cluster_deleted_while_it_keeps_a_document_releases_it() -> None:
    world = fleet()
    world.sessions["eu-2"].error = ConnectError("away")
    world.delete("alice")
    world.turn()
    world.remove_cluster("eu-2")
    world.turn()
    assert not world.exists("alice")
    world.add("eu-2", {"region": "eu"})
    world.begin()
    world.sessions["eu-2"].error = None
    for _ in range(2):
        world.turn()
    assert lives(world)[1] == 2048.0, "an unobserved deletion removes nothing"


def test_a_document_that_selects_no_cluster_reports_this_and_can_be_deleted() -> None:
    world = FleetWorld(LABELS)
    world.put(selecting("alice", ALICE, {RATE: 2048}, {"matchLabels": {"region": "asia"}}))
    world.turn()
    world.turn_without_cluster()
    assert world.ready("alice") == (
        "False",
        "NoClusterSelected",
        "clusterSelector region=asia selects no QuotaCluster",
    )
    world.label("eu-1", region="asia")
    world.turn()
    assert world.ready("alice")[:2] == ("True", "Synced")


def test_a_deleted_document_without_existing_clusters_is_released_and_its_limits_remain() -> None:
    world = fleet()
    for name in ("eu-1", "eu-2"):
        world.remove_cluster(name)
    world.delete("alice")
    world.turn_without_cluster()
    assert not world.exists("alice")
    assert lives(world) == [2048.0, 2048.0, None]


def test_grants_apply_in_each_cluster() -> None:
    tenants = {
        "tenants": [
            {
                "namespaces": ["team"],
                "entities": [{"user": {"prefix": "alice"}}],
                "bounds": {"producerByteRate": {"max": 1024}},
            }
        ]
    }
    world = FleetWorld(LABELS, {"eu-2": tenants})
    world.put(selecting("alice", ALICE, {RATE: 2048}, EUROPE, deletionPolicy="Delete"))
    world.turn()
    assert lives(world) == [2048.0, None, None]
    assert world.part_reason("alice", "eu-1") == "Synced"
    assert world.part_reason("alice", "eu-2") == "NotGranted"
    assert world.ready("alice")[:2] == ("False", "NotGranted")


@pytest.mark.parametrize("policies", [("Upsert", "Sync"), ("Sync", "Upsert")])
def test_clusters_with_different_policies_do_not_overwrite_each_others_finalizer(
    policies: tuple[str, str],
) -> None:
    specs: dict[str, dict[str, Any]] = {}
    for name, policy in zip(("eu-1", "eu-2"), policies, strict=True):
        specs[name] = {
            "policy": policy,
            "expectedClusterId": f"id-{name}",
            "confirmSync": f"id-{name}",
        }
    world = FleetWorld(LABELS, specs)
    world.put(selecting("alice", ALICE, {RATE: 2048}, EUROPE))
    for _ in range(3):
        world.turn()
    world.api.calls.clear()
    world.turn()
    assert [call[:2] for call in world.api.calls if call[0] == "patch"] == []
    assert world.obj("alice")["metadata"]["finalizers"] == [FINALIZER]
