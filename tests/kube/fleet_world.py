"""Several QuotaClusters of one API server, each with a separate Kafka cluster in memory and the real reconciler."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.kube.api.resource_paths import (
    CLIENT_QUOTA_DEFINITION,
    CLIENT_QUOTAS,
    DEFINITIONS,
    QUOTA_CLUSTERS,
)
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.records import record_store
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.run.cluster_reconciler import ClusterReconciler, OperatorContext
from reconciler.kube.run.definition_guard import DefinitionGuard
from reconciler.kube.run.missing_clusters import MissingClusterReconciler
from reconciler.kube.status.status_queue import StatusQueue
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.kube.watch.resource_listing import FullListing
from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.quota.state import Limits
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.memory_audit_log import MemoryAuditLog
from tests.kube.worlds import (
    DELETED,
    NoRetries,
    Sessions,
    quota_cluster,
    resource,
    with_statuses,
)


def selecting(
    name: str, subject: Entity, limits: dict[Key, Any], selector: Mapping[str, Any], **spec: Any
) -> dict[str, Any]:
    """A ClientQuota that selects clusters, as the API server gives it."""
    obj = resource(name, subject, limits, clusterSelector=dict(selector), **spec)
    del obj["spec"]["clusterRef"]
    return obj


class FleetWorld:
    """QuotaClusters with labels, and several operators, one after the other.

    Args:
        labels: Labels of each QuotaCluster, by its name.
        specs: Additional fields of their specs, by name.
    """

    def __init__(
        self,
        labels: Mapping[str, Mapping[str, str]],
        specs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.api = FakeKubeApi(namespace="ops")
        self.api.put(DEFINITIONS, {"metadata": {"name": CLIENT_QUOTA_DEFINITION}})
        self.kafka: dict[str, FakeCluster] = {}
        self.sessions: dict[str, Sessions] = {}
        for name, own in labels.items():
            self.add(name, own, **(specs or {}).get(name, {}))
        self.begin()

    def add(self, name: str, labels: Mapping[str, str], **spec: Any) -> None:
        """Add a QuotaCluster; its Kafka cluster stays when it is deleted and recreated."""
        obj = quota_cluster(name, **spec)
        obj["metadata"]["labels"] = dict(labels)
        self.api.put(QUOTA_CLUSTERS, obj)
        if name not in self.kafka:
            self.kafka[name] = FakeCluster(clock=self.clock, cluster_id=f"id-{name}")
            self.sessions[name] = Sessions(self.kafka[name])

    def begin(self) -> None:
        """Start a new operator process without memory."""
        self.cache = ResourceCache()
        self.statuses = StatusQueue(clock=NoRetries())
        self.writer = ResourceWriter(self.api, cache=self.cache, clock=self.clock, identity="op")
        self.list_everything = FullListing(
            self.api,
            self.cache,
            namespaces=(),
            from_file=None,
            enqueue=lambda names, key: None,
            on_listed=lambda: None,
        )
        self._reconcilers: dict[str, ClusterReconciler] = {}

    def _reconciler(self, name: str) -> ClusterReconciler:
        if name not in self._reconcilers:
            inventory = KubeInventory(
                self.api, self.cache, name=name, namespace="ops", new_salt=lambda: "salt"
            )
            context = OperatorContext(
                settings=OperatorSettings(
                    identity="op", operator_namespace="ops", deletion_timeout=600.0
                ),
                cache=self.cache,
                list_everything=lambda _: self.list_everything(),
                list_declaring=self.list_everything.declaring,
                store_of=self.sessions[name].for_,
                writes=self.writer,
                statuses=self.statuses,
                clock=self.clock,
                audit=MemoryAuditLog(),
                refuses_removals=DefinitionGuard(self.api, self.cache).refusal,
                fence_seconds=lambda: 0.0,
                secret_of=lambda own: SecretState(),
                record_metrics=lambda report, conflicts: None,
            )
            self._reconcilers[name] = ClusterReconciler(
                name,
                context,
                inventory=inventory,
                runner=ReconcileRunner(
                    name,
                    clock=self.clock,
                    removals=inventory.removals,
                    corrections=inventory.corrections,
                ),
            )
        return self._reconcilers[name]

    # ---- doing -------------------------------------------------------------------------------

    def put(self, obj: dict[str, Any]) -> None:
        self.api.put(CLIENT_QUOTAS, obj)

    def change(self, name: str, **spec: Any) -> None:
        """Replace fields of a spec; the generation increases."""
        obj = self.obj(name)
        obj["spec"] |= spec
        obj["metadata"]["generation"] += 1
        obj["metadata"]["resourceVersion"] = self.api.next_version()

    def label(self, name: str, **labels: str) -> None:
        """Change the labels of a QuotaCluster."""
        obj = self.api.find(QUOTA_CLUSTERS, None, name)
        obj["metadata"]["labels"] = labels
        obj["metadata"]["resourceVersion"] = self.api.next_version()

    def remove_cluster(self, name: str) -> None:
        del self.api.objects[QUOTA_CLUSTERS.plural, "", name]

    def delete(self, name: str) -> None:
        obj = self.obj(name)
        if obj["metadata"].get("finalizers"):
            obj["metadata"]["deletionTimestamp"] = DELETED
            obj["metadata"]["resourceVersion"] = self.api.next_version()
        else:
            del self.api.objects[CLIENT_QUOTAS.plural, "team", name]

    def turn(self, *names: str) -> dict[str, LoopOutcome]:
        """Report watch events, then reconcile all clusters at the same time."""

        async def run() -> dict[str, LoopOutcome]:
            _ = await self.list_everything()
            clusters = names or tuple(self.cache.clusters)
            outcomes = await asyncio.gather(
                *(self._reconciler(name)(LoopTrigger(resync=True)) for name in clusters)
            )
            return dict(zip(clusters, outcomes, strict=True))

        return asyncio.run(with_statuses(self.statuses, run()))

    def turn_without_cluster(self) -> LoopOutcome:
        """Reconcile the documents without a cluster."""
        work = MissingClusterReconciler(
            self.cache,
            writes=self.writer,
            clock=self.clock,
            orphan=partial(record_store.orphan_everywhere, self.api, "ops"),
        )

        async def run() -> LoopOutcome:
            _ = await self.list_everything()
            return await work(LoopTrigger())

        return asyncio.run(run())

    # ---- looking -----------------------------------------------------------------------------

    def obj(self, name: str) -> dict[str, Any]:
        return self.api.find(CLIENT_QUOTAS, "team", name)

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.obj(name).get("status", {})
        return status

    def ready(self, name: str) -> tuple[str, str, str]:
        """Status, reason and message of the Ready condition."""
        (ready,) = [
            condition
            for condition in self.status(name)["conditions"]
            if condition["type"] == "Ready"
        ]
        return ready["status"], ready["reason"], ready["message"]

    def part(self, name: str, cluster: str) -> dict[str, Any]:
        """The part of one cluster in the status."""
        parts = [part for part in self.status(name)["clusters"] if part["name"] == cluster]
        return dict(parts[0]) if parts else {}

    def part_reason(self, name: str, cluster: str) -> str:
        conditions = self.part(name, cluster)["conditions"]
        return str(
            next(condition["reason"] for condition in conditions if condition["type"] == "Ready")
        )

    def exists(self, name: str) -> bool:
        return (CLIENT_QUOTAS.plural, "team", name) in self.api.objects

    def live(self, cluster: str) -> dict[Entity, Limits]:
        return dict(self.kafka[cluster].truth.limits)
