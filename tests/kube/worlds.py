"""Small Kubernetes worlds: the real reconciler of one cluster with an API server and a Kafka cluster in memory."""

import asyncio
import copy
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from reconciler.app.loop.cluster_loop import LoopOutcome, LoopTrigger
from reconciler.app.loop.reconcile_runner import ReconcileRunner
from reconciler.errors import StalePlan
from reconciler.kube.api.custom_resources import FINALIZER, Resource, parsed
from reconciler.kube.api.resource_paths import (
    CLIENT_QUOTA_DEFINITION,
    CLIENT_QUOTAS,
    CONFIG_MAPS,
    DEFINITIONS,
    QUOTA_CLUSTERS,
)
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.configuration.namespace_limits import NamespaceLimits
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.records.config_maps import read
from reconciler.kube.records.inventory import KubeInventory
from reconciler.kube.records.stored_records import StoredRecords
from reconciler.kube.run.cluster_reconciler import ClusterReconciler
from reconciler.kube.run.definition_guard import DefinitionGuard
from reconciler.kube.run.operator_context import OperatorContext
from reconciler.kube.status.events import ResourceEvent
from reconciler.kube.status.status_queue import StatusQueue
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.kube.watch.resource_listing import FullListing
from reconciler.quota.drift_tracker import DriftTracker
from reconciler.quota.entity import Entity
from reconciler.quota.keys import RULES, Key
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.guards import Guards
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import ReconcileOptions
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.memory_audit_log import MemoryAuditLog
from tests.reconcile.scenarios import OPEN, state

DELETED = "2023-11-14T22:13:20Z"
"""The start of the fake clock."""

FENCE_SECONDS = 60.0
"""The error of a fenced world."""

FIELD = {key: rule.field for key, rule in RULES.items()}


def slots(subject: Entity) -> dict[str, Any]:
    """``spec.entity`` of an entity."""
    return {
        field: {"default": True} if name is None else {"name": name}
        for field, name in zip(("user", "clientId", "ip"), subject, strict=True)
        if name is not False
    }


def resource(
    name: str,
    subject: Entity,
    limits: dict[Key, Any],
    *,
    namespace: str = "team",
    cluster: str = "prod",
    created: str = "2024-01-01T00:00:00Z",
    **spec: Any,
) -> dict[str, Any]:
    """A ClientQuota in the API server's format."""
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "ClientQuota",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": created,
        },
        "spec": {
            "clusterRef": {"name": cluster},
            "entity": slots(subject),
            "limits": {FIELD[key]: value for key, value in limits.items()},
            **spec,
        },
    }


def quota_cluster(name: str = "prod", **spec: Any) -> dict[str, Any]:
    """A QuotaCluster in the API server's format."""
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "QuotaCluster",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {"bootstrapServers": "b1:9092", **spec},
    }


def seen(obj: Mapping[str, Any] | Resource) -> Resource:
    """Return an object as the operator sees it now; what a test changes later is not seen."""
    return obj if isinstance(obj, Resource) else parsed(copy.deepcopy(obj))


def observe_listing(
    cache: ResourceCache, items: Iterable[Mapping[str, Any]], **options: Any
) -> frozenset[str]:
    """Observe the objects of a complete listing, and its end."""
    resources = list(map(seen, items))
    affected = frozenset[str]().union(*map(cache.observe, resources))
    return affected | cache.end_listing({obj.document for obj in resources}, **options)


_Result = TypeVar("_Result")


class NoRetries(FakeClock):
    """A clock for a queue of statuses that tries nothing again."""

    async def sleep(self, _: float) -> None:
        _ = await asyncio.Event().wait()


async def with_statuses(queue: StatusQueue, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run some work, and try to write each status that waits afterwards once."""
    task = asyncio.ensure_future(queue.run())
    try:
        return await work
    finally:
        for _ in iter(lambda: not task.done() and bool(queue._waiting or queue._writing), False):
            await asyncio.sleep(0)
        _ = task.cancel()
        _ = await asyncio.wait({task})
        if not task.cancelled():
            task.result()


class Sessions:
    """Returns the cluster, or raises the error that the test set."""

    def __init__(self, store: FakeCluster) -> None:
        self.store, self.error = store, None

    async def for_(self, cluster: Any) -> Any:
        if self.error is not None:
            raise self.error
        return self.store


class World:
    """A QuotaCluster `prod`, its documents, and one or more operators."""

    def __init__(
        self,
        *,
        patience: float = 600.0,
        from_file: bool = False,
        limits: NamespaceLimits | None = None,
        kafka: FakeCluster | None = None,
        confirm_after: int = 2,
        **spec: Any,
    ) -> None:
        self.confirm_after = confirm_after
        self.reports: list[Reconciliation] = []
        self.patience, self.fenced, self.limits = patience, False, limits
        self.api = FakeKubeApi(namespace="ops")
        self.api.put(DEFINITIONS, {"metadata": {"name": CLIENT_QUOTA_DEFINITION}})
        self.kafka = FakeCluster() if kafka is None else kafka
        self.sessions = Sessions(self.kafka)
        self.file: tuple[Resource, ...] | None = None
        if from_file:
            self.file = (replace(seen(quota_cluster(**spec)), is_stored=False),)
        else:
            self.api.put(QUOTA_CLUSTERS, quota_cluster(**spec))
        self.begin()

    def begin(self) -> None:
        """Start a new operator process without memory."""
        self.cache, self.audit = ResourceCache(self.limits), MemoryAuditLog()
        clock = self.kafka.clock
        self.statuses = StatusQueue(clock=NoRetries())
        inventory = self.inventory = KubeInventory(
            self.api, self.cache, name="prod", namespace="ops", new_salt=lambda: "salt"
        )
        self.everything = FullListing(
            self.api,
            self.cache,
            namespaces=(),
            from_file=self.file,
            enqueue=lambda names, key: None,
            on_listed=lambda: None,
        )
        self.work = self.reconciler()(
            "prod",
            OperatorContext(
                settings=OperatorSettings(
                    identity="op", operator_namespace="ops", deletion_timeout=self.patience
                ),
                cache=self.cache,
                list_everything=self.list_everything,
                list_declaring=self.everything.declaring,
                store_of=self.sessions.for_,
                writes=ResourceWriter(self.api, cache=self.cache, clock=clock, identity="op"),
                statuses=self.statuses,
                clock=clock,
                audit=self.audit,
                refuses_removals=DefinitionGuard(self.api, self.cache).refusal,
                fence_seconds=lambda: FENCE_SECONDS if self.fenced else 0.0,
                secret_of=lambda name: SecretState(),
                record_metrics=lambda report, conflicts: self.reports.append(report),
            ),
            inventory=inventory,
            runner=ReconcileRunner(
                "prod",
                clock=clock,
                removals=inventory.removals,
                tracker=DriftTracker(confirm_after=self.confirm_after),
                corrections=inventory.corrections,
            ),
        )

    def reconciler(self) -> type[ClusterReconciler]:
        """The class under test."""
        return ClusterReconciler

    async def list_everything(self, _: object) -> bool:
        """A complete listing, as a reconciliation requests it."""
        return await self.everything()

    async def reconciled(self, trigger: LoopTrigger) -> LoopOutcome:
        """Reconcile once, without watch events before it, and write the statuses."""
        return await with_statuses(self.statuses, self.work(trigger))

    def put(self, obj: dict[str, Any]) -> None:
        self.api.put(CLIENT_QUOTAS, obj)

    def change(self, name: str, **spec: Any) -> None:
        obj = self.api.find(CLIENT_QUOTAS, "team", name)
        obj["spec"] |= spec
        obj["metadata"]["generation"] += 1

    def delete(self, name: str) -> None:
        obj = self.api.find(CLIENT_QUOTAS, "team", name)
        if obj["metadata"].get("finalizers"):
            obj["metadata"]["deletionTimestamp"] = DELETED
        else:
            del self.api.objects["clientquotas", "team", name]

    def turn(self, **wake: Any) -> LoopOutcome:
        """Report watch events, then reconcile once."""

        async def run() -> LoopOutcome:
            await self.everything()
            try:
                return await self.reconciled(LoopTrigger(**wake))
            except StalePlan:  # Another writer changed the records: the loop tries again.
                return await self.reconciled(LoopTrigger(**wake, retry=True))

        return asyncio.run(run())

    def obj(self, name: str) -> dict[str, Any]:
        return self.api.find(CLIENT_QUOTAS, "team", name)

    def reason(self, name: str) -> str:
        ready = [
            condition
            for condition in self.obj(name)["status"]["conditions"]
            if condition["type"] == "Ready"
        ]
        return ready[0]["reason"]

    def exists(self, name: str) -> bool:
        return ("clientquotas", "team", name) in self.api.objects

    def writes(self) -> list[tuple[str, str]]:
        """The writes since the last call."""
        calls = [call[:2] for call in self.api.calls if call[0] not in {"get", "list"}]
        self.api.calls.clear()
        return calls

    def live(self) -> dict[Any, Any]:
        return dict(self.kafka.truth.limits)


class KubeWorld(World):
    """A world with small steps: documents of several namespaces, and options for single reconciliations.

    Args:
        live: Quotas in Kafka at the start.
        guards: Guards instead of those of the spec.
        confirm_after: Number of observations that confirm drift.
        spec: Spec of the QuotaCluster.

    Attributes:
        writes: Writes: ``status NAMESPACE/NAME``, ``configmap``, ``cluster``.
        happened: The events, with their document or cluster.
    """

    def __init__(
        self,
        live: dict[Entity, dict[Key, float]] | None = None,
        *,
        guards: Guards | None = OPEN,
        confirm_after: int = 1,
        **spec: Any,
    ) -> None:
        self.guards = guards
        self.orders: dict[str, Any] = {}
        self.is_complete = True
        self._deleted_uids: set[str] = set()
        self.writes: list[str] = []
        self.happened: list[tuple[str, ResourceEvent]] = []
        super().__init__(
            patience=1e9, kafka=FakeCluster(state(live or {})), confirm_after=confirm_after, **spec
        )
        self.clock = self.kafka.clock

    def reconciler(self) -> type[ClusterReconciler]:
        world = self

        class OrderedReconciler(ClusterReconciler):
            """The real reconciler, with the options of the world."""

            def _options(self, *args: Any, **more: Any) -> ReconcileOptions:
                options = super()._options(*args, **more)
                guards = options.guards
                if world.guards is not None:
                    guards = replace(world.guards, allow_empty=guards.allow_empty)
                return replace(options, guards=guards, **world.orders)

        return OrderedReconciler

    async def list_everything(self, _: object) -> bool:
        return self.is_complete and await self.everything()

    def restart(self) -> None:
        """Restart the process: only the state in Kubernetes remains."""
        self.begin()

    @property
    def obj(self) -> dict[str, Any]:
        """The QuotaCluster."""
        return self.api.find(QUOTA_CLUSTERS, None, "prod")

    @property
    def objects(self) -> dict[str, dict[str, Any]]:
        """The documents, by ``namespace/name``."""
        return {
            seen(obj).document: obj
            for (plural, _, _), obj in self.api.objects.items()
            if plural == CLIENT_QUOTAS.plural
        }

    @property
    def owned(self) -> OwnershipRecords:
        """The records after the last reconciliation."""
        return self.inventory.owned

    def put(self, *objects: dict[str, Any]) -> None:
        """Create or replace resources; the existing status stays."""
        for obj in objects:
            before = self.objects.get(seen(obj).document)
            placed = copy.deepcopy(obj)
            if before is not None:
                placed["status"] = before.get("status", {})
                placed["metadata"]["finalizers"] = before["metadata"].get("finalizers", [])
                generation = before["metadata"]["generation"]
                changed = placed["spec"] != before["spec"]
                placed["metadata"]["generation"] = generation + 1 if changed else generation
            elif placed["metadata"]["uid"] in self._deleted_uids:
                placed["metadata"]["uid"] += f"-{len(self._deleted_uids)}"
            self.api.put(CLIENT_QUOTAS, placed)

    def delete(self, document: str, *, finalizer: bool) -> None:
        """Delete a resource, or mark it for deletion if it has a finalizer."""
        obj = self.objects[document]
        if finalizer:
            obj["metadata"] |= {
                "deletionTimestamp": "2024-01-02T00:00:00Z",
                "finalizers": [FINALIZER],
                "resourceVersion": self.api.next_version(),
            }
        else:
            namespace, _, name = document.partition("/")
            self._deleted_uids.add(obj["metadata"]["uid"])
            del self.api.objects[CLIENT_QUOTAS.plural, namespace, name]

    def status(self, document: str) -> dict[str, Any]:
        return self.objects[document].get("status", {})

    def condition(self, document: str, kind: str = "Ready") -> dict[str, Any]:
        conditions = [
            condition
            for condition in self.status(document)["conditions"]
            if condition["type"] == kind
        ]
        return conditions[0] if conditions else {}

    def reason(self, document: str) -> str:
        return self.condition(document)["reason"]

    def key(self, document: str, key: Key) -> dict[str, Any]:
        return next(entry for entry in self.status(document).get("keys", ()) if entry["key"] == key)

    def load(self) -> tuple[StoredRecords, OwnershipRecords]:
        """The records in Kubernetes."""
        maps = [
            obj for (plural, _, _), obj in self.api.objects.items() if plural == CONFIG_MAPS.plural
        ]
        stored = read(self.kafka.cluster_id, maps)
        return stored, stored.owned

    def run(self, *, complete: bool = True, **orders: Any) -> Reconciliation:
        """One reconciliation and all later writes."""
        self.is_complete, self.orders = complete, orders
        self.api.calls.clear()
        self.api.events.clear()

        async def reconcile() -> LoopOutcome:
            _ = await self.everything()
            return await self.reconciled(LoopTrigger(resync=True))

        try:
            _ = asyncio.run(reconcile())
        finally:
            self.is_complete, self.orders = True, {}
        self.writes.extend(filter(None, map(_write, self.api.calls)))
        self.happened.extend(map(_event, self.api.events))
        return self.reports[-1]


def _write(call: tuple[str, str, str, str]) -> str:
    verb, plural, namespace, name = call
    if verb in {"get", "list"}:
        return ""
    names = {CONFIG_MAPS.plural: "configmap", QUOTA_CLUSTERS.plural: "cluster"}
    if plural == CLIENT_QUOTAS.plural and verb == "apply":
        return f"status {namespace}/{name}"
    return names.get(plural, "")


def _event(event: Mapping[str, Any]) -> tuple[str, ResourceEvent]:
    regarding = event["regarding"]
    name = seen({"metadata": regarding}).document if "namespace" in regarding else regarding["name"]
    return name, ResourceEvent(kind=event["type"], reason=event["reason"], note=event["note"])
