"""The effect of each policy and deletionPolicy on create, change and delete: in broker, statuses and records."""

from dataclasses import dataclass, field

import pytest

from tests.kube.e2e.seeing import has_finalizer, orphans
from tests.kube.e2e.world import World, eventually
from tests.servers import raw_quotas

pytestmark = pytest.mark.integration

MIB = 1048576.0
DELETIONS: dict[str, dict[str, object]] = {
    "unset": {},
    "retain": {"deletionPolicy": "Retain"},
    "delete": {"deletionPolicy": "Delete"},
}
CREATED = {"producer_byte_rate": MIB, "request_percentage": 50.0}
CHANGED = {"producer_byte_rate": 2 * MIB}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One policy.

    Attributes:
        spec: Spec of the QuotaCluster.
        cluster: Reason of the QuotaCluster.
        created: Reason of a document for a new quota, and the live value.
        replacement: Reason of a document for a quota with another live value, and whether that is replaced.
        changed: Reason of a document that was changed, and the live value.
        finalizers: Documents with the finalizer.
        removed: Documents whose deletion removes their quotas.
        pending: Documents whose quotas a policy with removals would remove: they are not orphans.
    """

    spec: dict[str, object]
    cluster: str = "Synced"
    created: tuple[str, dict[str, float]] = ("Synced", CREATED)
    replacement: tuple[str, float] = ("Synced", 2 * MIB)
    changed: tuple[str, dict[str, float]] = ("Synced", CHANGED)
    finalizers: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)


TABLE = {
    "Observe": Row(
        spec={"policy": "Observe"},
        cluster="ObserveOnly",
        created=("ObserveOnly", {}),
        replacement=("ObserveOnly", MIB),
        changed=("ObserveOnly", {}),
    ),
    "CreateOnly": Row(
        spec={"policy": "CreateOnly"},
        replacement=("PolicyRestricted", MIB),
        changed=("PolicyRestricted", CREATED),
        pending={"delete"},
    ),
    "Upsert": Row(spec={}, finalizers={"delete"}, removed={"delete"}),
    "Sync unconfirmed": Row(
        spec={"policy": "Sync", "expectedClusterId": "ID"},
        cluster="SyncNotConfirmed",
        finalizers={"delete"},
        removed={"delete"},
    ),
    "Sync": Row(
        spec={"policy": "Sync", "confirmSync": "ID", "expectedClusterId": "ID"},
        finalizers={"unset", "delete"},
        removed={"unset", "delete"},
    ),
}


@pytest.mark.parametrize("policy", TABLE)
def test_create_update_and_delete_under_each_policy(world: World, policy: str) -> None:
    row = TABLE[policy]
    spec = {
        key: world.kafka.cluster_id if value == "ID" else value for key, value in row.spec.items()
    }
    raw_quotas.set_quotas(
        world.kafka.port(),
        {raw_quotas.entity(user=user): {"producer_byte_rate": MIB} for user in ("taken", "same")},
    )
    world.cluster(**spec)
    world.start()
    _creating(world, row)
    _changing(world, row)
    _deleting(world, row)
    assert world.reason("prod", kind="quotacluster") == row.cluster


def _creating(world: World, row: Row) -> None:
    first = {"producerByteRate": "1Mi", "requestPercentage": 50}
    world.kube.apply(
        *(world.document(name, limits=first, **more) for name, more in DELETIONS.items()),
        world.document("taken", limits={"producerByteRate": "2Mi"}),
        world.document("same", limits={"producerByteRate": "1Mi"}),
        namespace=world.team,
    )
    reason, expected = row.created
    for name in DELETIONS:
        obj = world.becomes(name, reason)
        assert world.live().get(name, {}) == expected
        assert has_finalizer(obj) is (name in row.finalizers), name
    world.becomes("taken", row.replacement[0])
    world.becomes("same", "Synced")
    assert world.live()["taken"] == {"producer_byte_rate": row.replacement[1]}
    assert world.live()["same"] == {"producer_byte_rate": MIB}
    world.becomes("prod", row.cluster, kind="quotacluster")


def _changing(world: World, row: Row) -> None:
    second = {"producerByteRate": "2Mi"}
    world.kube.apply(
        *(world.document(name, limits=second, **more) for name, more in DELETIONS.items()),
        namespace=world.team,
    )
    reason, expected = row.changed
    for name in DELETIONS:
        world.becomes(name, reason)
        assert world.live().get(name, {}) == expected, name


def _deleting(world: World, row: Row) -> None:
    world.kube.kubectl(
        "delete", "clientquota", *DELETIONS, "-n", world.team, "--wait=true", "--timeout=240s"
    )
    last = row.changed[1]
    expected = {name: last for name in DELETIONS if last and name not in row.removed}

    orphaned_pairs = {
        f"user={name} {key}"
        for name, values in expected.items()
        for key in values
        if name not in row.pending
    }

    def is_in_status() -> bool:
        counts = world.get("prod", kind="quotacluster")["status"]["counts"]
        return orphans(world) == orphaned_pairs and counts["orphaned"] == len(orphaned_pairs)

    eventually(is_in_status, what=f"{orphaned_pairs} to be left as orphans; {orphans(world)}")
    live = {name: values for name, values in world.live().items() if name in DELETIONS}
    assert live == expected


def test_a_deleted_namespace_removes_limits_by_their_deletion_policy_and_is_not_blocked(
    world: World,
) -> None:
    namespace_to_go = world.kube.fresh_namespace()
    world.cluster()
    world.start()
    world.kube.apply(
        world.document("gone", deletionPolicy="Delete"),
        world.document("kept", deletionPolicy="Retain"),
        namespace=namespace_to_go,
    )
    world.quota("other", deletionPolicy="Delete")
    for name, namespace in (
        ("gone", namespace_to_go),
        ("kept", namespace_to_go),
        ("other", world.team),
    ):
        world.becomes(name, "Synced", namespace=namespace)
    world.kube.kubectl("delete", "namespace", namespace_to_go, "--wait=true", "--timeout=240s")
    eventually(lambda: set(world.live()) == {"kept", "other"}, what="the quota to be removed")
    eventually(lambda: orphans(world) == {"user=kept producer_byte_rate"})
    assert world.reason("other") == "Synced"
