"""A status is not a source of ownership: a value that the operator did not record removes nothing."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.kube.api.custom_resources import FINALIZER
from reconciler.kube.api.resource_paths import CONFIG_MAPS, QUOTA_CLUSTERS
from reconciler.kube.records import record_store
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key
from reconciler.quota.ownership import OwnershipRecords
from tests.hypothesis_profiles import count_examples
from tests.kube.run.test_cluster_reconciler import ALICE, RATE, World, limits
from tests.kube.worlds import resource

ADMIN, MINE = entity(user="admin"), entity(user="team-alice")
GRANT = {"namespaces": ["team"], "entities": [{"user": {"prefix": "team-"}}], "allow": ["Delete"]}
PLATFORM = {"namespaces": ["platform"], "entities": [{"user": {"exact": "admin"}}]}
TIME = "2023-11-14T22:13:20Z"
LATER = "2033-11-14T22:13:20Z"


def tenants_world(**spec: Any) -> World:
    """An operator that has reconciled once, with limits of user=admin that no document declares."""
    world = World(**{"tenants": [GRANT, PLATFORM], **spec})
    world.kafka.cluster_id = "fake"
    world.kafka.write(ADMIN, RATE, 1048576.0)
    world.turn(resync=True)
    return world


def record(key: Key = RATE, value: float = 1048576, **more: Any) -> dict[str, Any]:
    return {"key": key.value, "applied": value, "appliedAt": LATER} | more


def forge(world: World, name: str, *keys: dict[str, Any], **status: Any) -> None:
    """A user with the right to write statuses of the namespace writes this."""
    obj = world.obj(name)
    obj["status"] = {"clusterId": "fake", "keys": list(keys)} | status
    obj["metadata"]["resourceVersion"] = world.api.next_version()


def delete(world: World, name: str, *, finalizer: bool) -> None:
    obj = world.obj(name)
    obj["metadata"]["finalizers"] = [FINALIZER] if finalizer else []
    obj["metadata"]["resourceVersion"] = world.api.next_version()
    world.delete(name)


@pytest.mark.parametrize("finalizer", [True, False])
@pytest.mark.parametrize("passes_between", [0, 1])
def test_a_forged_record_of_another_partys_limit_removes_nothing(
    finalizer: bool, passes_between: int
) -> None:
    world = tenants_world()
    world.put(resource("evil", ADMIN, {RATE: 1048576}, deletionPolicy="Delete"))
    world.turn()
    assert world.reason("evil") == "NotGranted"
    forge(world, "evil", record(deletionPolicy="Delete"))
    for _ in range(passes_between):
        world.turn(resync=True)
        assert "applied" not in world.obj("evil")["status"].get("keys", [{}])[0]
    delete(world, "evil", finalizer=finalizer)
    for _ in range(3):
        world.turn(resync=True)
    assert world.live() == {ADMIN: limits(1048576.0)}
    assert not world.exists("evil")


@pytest.mark.parametrize("tenants", [[PLATFORM], [GRANT | {"allow": []}, PLATFORM]])
def test_a_revoked_right_to_delete_removes_nothing_when_its_document_is_deleted(
    tenants: list[dict[str, Any]],
) -> None:
    world = tenants_world()
    world.put(resource("alice", MINE, {RATE: 2048}, deletionPolicy="Delete"))
    world.turn(resync=True)
    assert world.obj("alice")["metadata"]["finalizers"] == [FINALIZER]
    cluster = world.api.find(QUOTA_CLUSTERS, None, "prod")
    cluster["spec"]["tenants"] = tenants
    cluster["metadata"]["generation"] += 1
    world.delete("alice")
    for _ in range(3):
        world.turn(resync=True)
    assert world.live()[MINE] == limits(2048.0)
    assert not world.exists("alice")
    status = world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]
    assert status["counts"]["orphaned"] == 1


def test_a_forged_cluster_id_puts_nothing_into_another_clusters_records() -> None:
    world = tenants_world()
    forged = resource("evil", ADMIN, {RATE: 1})
    for name, cluster_id in (("evil", "other"), ("more", "never-seen")):
        world.put({**forged, "metadata": {**forged["metadata"], "name": name, "uid": name}})
        forge(world, name, record(), clusterId=cluster_id)
    stored_records = StoredRecords(owned=OwnershipRecords(cluster_id="other"))
    _ = asyncio.run(record_store.change(world.api, "ops", "other", lambda _: stored_records))
    world.turn(resync=True)
    for name in ("evil", "more"):
        delete(world, name, finalizer=True)
    world.turn(resync=True)
    stored = asyncio.run(record_store.read(world.api, "ops", "other"))
    assert (stored.owned.records, stored.owned.orphaned) == ({}, frozenset())
    assert not asyncio.run(record_store.read(world.api, "ops", "never-seen")).owned.is_known


def forget_config_maps(world: World) -> None:
    """A restore of custom resources with their statuses only."""
    for key in [key for key in world.api.objects if key[0] == CONFIG_MAPS.plural]:
        del world.api.objects[key]


# ---- the law -------------------------------------------------------------------------------------

_NUMBERS = st.sampled_from([1048576, 2048, 1, 0, 1e300])
_ITEMS = st.fixed_dictionaries(
    {"key": st.sampled_from([key.value for key in Key])},
    optional={
        "applied": _NUMBERS,
        "appliedAt": st.sampled_from([TIME, LATER]),
        "cause": st.just("InSync"),
        "result": st.just("Applied"),
    },
)
_STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "clusterId": st.sampled_from(["fake", "other"]),
        "entity": st.sampled_from(["user=admin", "user=team-alice", "?"]),
        "keys": st.lists(_ITEMS, max_size=3, unique_by=lambda item: item["key"]),
        "conditions": st.just([]),
    },
)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("forge"), _STATUSES),
        st.tuples(st.sampled_from(["pass", "restart", "delete", "vanish", "create", "lose"])),
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=count_examples(60))
@given(_STEPS, st.sampled_from(["Upsert", "Sync"]))
def test_a_document_without_a_grant_never_removes_anything(
    steps: list[tuple[Any, ...]], policy: str
) -> None:
    world = tenants_world(policy=policy, expectedClusterId="fake", confirmSync="fake")
    for index, step in enumerate((*steps, ("delete",), ("pass",), ("pass",))):
        exists = world.exists("evil")
        match step:
            case ("forge", status) if exists:
                world.obj("evil")["status"] = status
                world.obj("evil")["metadata"]["resourceVersion"] = world.api.next_version()
            case ("pass",):
                world.turn(resync=True)
            case ("restart",):
                world.begin()
            case ("delete",) if exists:
                delete(world, "evil", finalizer=index % 2 == 0)
            case ("vanish",) if exists:
                del world.api.objects["clientquotas", "team", "evil"]
            case ("create",) if not exists:
                document = resource("evil", ADMIN, {RATE: 1048576}, deletionPolicy="Delete")
                document["metadata"]["uid"] = f"uid-{index}"
                world.put(document)
            case ("lose",):
                forget_config_maps(world)
            case _:
                pass
    assert world.live() == {ADMIN: limits(1048576.0)}


def test_the_cluster_that_has_to_answer_is_that_of_the_records_whatever_a_status_says() -> None:
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn()
    cluster = world.api.find(QUOTA_CLUSTERS, None, "prod")
    for status in ({}, {"clusterId": "another"}):
        cluster["status"] = status
        world.begin()
        world.turn(resync=True)
        assert world.reason("alice") == "Synced"
    world.kafka.cluster_id = "another"
    world.begin()
    sent = len(world.kafka.sent)
    world.change("alice", limits={"producerByteRate": 4096})
    world.turn(resync=True)
    assert world.reason("alice") == "WrongCluster"
    assert len(world.kafka.sent) == sent


def test_the_records_alone_say_which_quota_cluster_manages_a_kafka_cluster() -> None:
    world = World()
    world.put(resource("alice", ALICE, {RATE: 2048}))
    world.turn(resync=True)
    sent = len(world.kafka.sent)
    prod = world.api.find(QUOTA_CLUSTERS, None, "prod")
    older = {**prod["metadata"], "name": "older", "uid": "older", "creationTimestamp": TIME}
    another = {**prod, "metadata": older, "status": {"clusterId": world.kafka.cluster_id}}
    world.api.put(QUOTA_CLUSTERS, another)
    world.begin()
    world.change("alice", limits={"producerByteRate": 4096})
    world.turn(resync=True)
    assert (world.reason("alice"), len(world.kafka.sent)) == ("Synced", sent + 1)

    def by_another(stored: StoredRecords) -> StoredRecords:
        return replace(stored, memory=replace(stored.memory, manager="older"))

    _ = asyncio.run(record_store.change(world.api, "ops", world.kafka.cluster_id, by_another))
    another = world.api.find(QUOTA_CLUSTERS, None, "older")
    another["status"] = prod["status"] = {}
    world.begin()
    world.change("alice", limits={"producerByteRate": 8192})
    world.turn(resync=True)
    assert world.reason("alice") == "OtherQuotaCluster"
    assert "already managed by another QuotaCluster" in str(prod_status(world))
    assert len(world.kafka.sent) == sent + 1
    another = world.api.find(QUOTA_CLUSTERS, None, "older")
    another["spec"]["expectedClusterId"] = "elsewhere"
    another["metadata"]["generation"] += 1
    world.turn(resync=True)
    assert (world.reason("alice"), len(world.kafka.sent)) == ("Synced", sent + 2)


def prod_status(world: World) -> Any:
    return world.api.find(QUOTA_CLUSTERS, None, "prod")["status"]["conditions"]
