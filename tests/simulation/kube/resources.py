"""Custom resources of the simulation, written and parsed without the product's code."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.quota.entity import ABSENT, DEFAULT, Entity
from reconciler.quota.keys import Key
from reconciler.quota.patterns import EntityPattern
from reconciler.quota.planner.desired_state import Declaration
from reconciler.quota.planner.guards import Guards
from reconciler.quota.policy import DeletionPolicy, Rules
from reconciler.quota.state import limits_of
from tests.simulation.brokers import CLUSTER_ID, NODES
from tests.simulation.kube.api_server import Obj
from tests.simulation.scenario import ADDRESSES, IN_SCOPE, Settings

TEAM, CLUSTER = "team", "prod"
FINALIZER = "kafka-quotas.io/release"
API_VERSION = "kafka-quotas.io/v1alpha1"
FIELDS: Mapping[Key, str] = {
    Key.PRODUCER_BYTE_RATE: "producerByteRate",
    Key.CONSUMER_BYTE_RATE: "consumerByteRate",
    Key.CONNECTION_CREATION_RATE: "connectionCreationRate",
}
SLOTS = ("user", "clientId", "ip")
ENTITIES: tuple[Entity, ...] = (*IN_SCOPE, *ADDRESSES)
NAME_OF: Mapping[Entity, str] = {entity: f"quota-{at}" for at, entity in enumerate(ENTITIES)}


def client_quota(
    entity: Entity, values: Mapping[Key, float], *, policy: DeletionPolicy | None, suspended: bool
) -> Obj:
    """Return a ClientQuota."""
    spec: Obj = {
        "clusterRef": {"name": CLUSTER},
        "entity": {
            slot: {"default": True} if part is DEFAULT else {"name": part}
            for slot, part in zip(SLOTS, entity, strict=True)
            if part is not ABSENT
        },
        "limits": {FIELDS[key]: int(value) for key, value in values.items()},
    }
    if policy is not None:
        spec["deletionPolicy"] = policy.value
    if suspended:
        spec["suspend"] = True
    return {
        "apiVersion": API_VERSION,
        "kind": "ClientQuota",
        "metadata": {"name": NAME_OF[entity], "namespace": TEAM},
        "spec": spec,
    }


LARGEST_FACTOR = 1e9
"""Largest bound on a factor in the QuotaCluster."""


def quota_cluster(settings: Settings, guards: Guards) -> Obj:
    """Return the QuotaCluster of a simulation."""
    rules = settings.rules
    spec: Obj = {
        "bootstrapServers": ",".join(f"kafka:{9092 + node}" for node in NODES),
        "policy": rules.policy.value,
        "expectedClusterId": CLUSTER_ID,
        "driftDetection": rules.drift.value,
        "interval": f"{settings.interval:.0f}s",
        "guards": {
            "maxRemovals": guards.max_removals,
            "maxRemovedPercent": guards.max_removed_percent,
            "maxChangeFactor": min(guards.max_change_factor, LARGEST_FACTOR),
            "newlyUnlimited": guards.newly_unlimited.value,
            "protectDefaults": guards.protect_defaults,
        },
    }
    if rules.sync_confirmed:
        spec["confirmSync"] = CLUSTER_ID
    if rules.scope:
        spec["scope"] = [_pattern(pattern) for pattern in rules.scope]
    return {
        "apiVersion": API_VERSION,
        "kind": "QuotaCluster",
        "metadata": {"name": CLUSTER},
        "spec": spec,
    }


def _pattern(pattern: EntityPattern) -> Obj:
    if pattern.user is not None:
        return {"user": {"exact": pattern.user.exact}}
    return {"forms": sorted(form.value for form in pattern.forms)}


def entity_of(obj: Obj) -> Entity:
    """Return the entity of a document."""
    slots: Mapping[str, Any] = obj["spec"]["entity"]
    parts = [ABSENT if slot not in slots else slots[slot].get("name", DEFAULT) for slot in SLOTS]
    return Entity(tuple(parts))  # type: ignore[arg-type]


def document_of(obj: Obj) -> str:
    """Return ``namespace/name``."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def values_of(obj: Obj) -> Mapping[Key, float]:
    """Return the declared values of a document."""
    limits = obj["spec"]["limits"]
    return {key: float(limits[field]) for key, field in FIELDS.items() if field in limits}


def is_terminating(obj: Obj) -> bool:
    """Whether the object has a deletion timestamp."""
    return "deletionTimestamp" in obj["metadata"]


def declarations(objects: Iterable[Obj]) -> dict[str, Declaration]:
    """Return the declarations of documents that are not being deleted, by name."""
    declared: dict[str, Declaration] = {}
    for obj in objects:
        if is_terminating(obj):
            continue
        policy = obj["spec"].get("deletionPolicy")
        declared[document_of(obj)] = Declaration(
            document=document_of(obj),
            entity=entity_of(obj),
            limits=limits_of(dict(values_of(obj))),
            path=document_of(obj),
            line=1,
            deletion_policy=None if policy is None else DeletionPolicy(policy),
            suspended=obj["spec"].get("suspend", False),
        )
    return declared


def effective_policy(policy: DeletionPolicy | None, rules: Rules) -> DeletionPolicy:
    """Return the effective deletion policy."""
    if policy is not None:
        return policy
    return DeletionPolicy.DELETE if rules.in_force.value == "Sync" else DeletionPolicy.RETAIN
