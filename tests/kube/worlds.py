"""Small Kubernetes worlds without an API server: custom resources in a dict, a Kafka cluster in memory, passes as one call.

What the operator's rim does around a pass is done here in the fewest words: statuses and ConfigMaps are written where
they changed, and every write is counted.
"""

import asyncio
import copy
from typing import Any

from reconciler.app.loop import MemoryRemovals, ReconcileRunner, RemovalWindow
from reconciler.errors import KquotaError
from reconciler.inventory.memory import MemoryInventory
from reconciler.kube.api.custom_resources import FINALIZER, document_of
from reconciler.kube.records import config_maps
from reconciler.kube.records.live_records import (
    live_documents,
    records_outside_statuses,
)
from reconciler.kube.records.status_records import owned_from, release
from reconciler.kube.status.client_quota import (
    cluster_status,
    document_status,
    unchanged,
)
from reconciler.kube.status.eligibility import (
    assess_eligibility,
    resolve_desired_state,
)
from reconciler.kube.status.events import (
    ResourceEvent,
    cluster_transitions,
    transitions,
)
from reconciler.manifest.project.cluster import from_spec
from reconciler.quota.entity import Entity
from reconciler.quota.keys import RULES, Key
from reconciler.quota.ownership import OwnershipRecords
from reconciler.quota.planner.guards import Guards
from reconciler.quota.results.report import Reconciliation
from reconciler.reconcile import ReconcileOptions, ReconcilePorts, ValidationMode
from tests.fakes.cluster import FakeCluster
from tests.reconcile.worlds import OPEN, state

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
    """A ClientQuota as the API server gives it."""
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
    """A QuotaCluster as the API server gives it."""
    return {
        "apiVersion": "kafka-quotas.io/v1alpha1",
        "kind": "QuotaCluster",
        "metadata": {"name": name, "uid": f"uid-{name}", "generation": 1},
        "spec": {"bootstrapServers": "b1:9092", **spec},
    }


class KubeWorld:
    """ClientQuotas, one QuotaCluster and its Kafka cluster.

    Args:
        live: What Kafka has from the start.
        guards: In place of those of the spec.
        spec: Of the QuotaCluster.
    """

    def __init__(
        self,
        live: dict[Entity, dict[Key, float]] | None = None,
        *,
        guards: Guards | None = OPEN,
        confirm_after: int = 1,
        **spec: Any,
    ) -> None:
        self.kafka = FakeCluster(state(live or {}))
        self.clock = self.kafka.clock
        self.guards = guards
        self.obj = quota_cluster(**spec)
        self.objects: dict[str, dict[str, Any]] = {}
        self.maps: dict[str, Any] = {}
        self.writes: list[str] = []
        self.happened: list[tuple[str, ResourceEvent]] = []
        self.gone: list[dict[str, Any]] = []
        self.owned = OwnershipRecords(cluster_id=self.kafka.cluster_id, is_known=False)
        self._confirm_after = confirm_after
        self.restart()

    def restart(self) -> None:
        """The process begins anew: nothing but what stands in Kubernetes is left."""
        vigil_of = ReconcileRunner(
            "prod", clock=self.clock, window=RemovalWindow(MemoryRemovals(), seconds=3600.0)
        )
        self.passes = ReconcileRunner(
            "prod",
            clock=self.clock,
            window=RemovalWindow(MemoryRemovals(), seconds=3600.0),
            vigil=type(vigil_of.vigil)(confirm_after=self._confirm_after),
        )

    def put(self, *objects: dict[str, Any]) -> None:
        """Create or replace resources; the status that stands there stays."""
        for one in objects:
            known = self.objects.get(document_of(one))
            made = copy.deepcopy(one)
            if known is not None:
                made["status"] = known.get("status", {})
                if made["spec"] != known["spec"]:
                    made["metadata"]["generation"] = known["metadata"]["generation"] + 1
            self.objects[document_of(one)] = made

    def delete(self, document: str, *, finalizer: bool) -> None:
        """Delete a resource: at once, or as far as our finalizer lets it go."""
        one = self.objects[document]
        if finalizer:
            one["metadata"] |= {
                "deletionTimestamp": "2024-01-02T00:00:00Z",
                "finalizers": [FINALIZER],
            }
        else:
            self.gone.append(self.objects.pop(document))

    def status(self, document: str) -> dict[str, Any]:
        return self.objects[document].get("status", {})

    def condition(self, document: str, kind: str = "Ready") -> dict[str, Any]:
        found = [one for one in self.status(document)["conditions"] if one["type"] == kind]
        return found[0] if found else {}

    def reason(self, document: str) -> str:
        return self.condition(document)["reason"]

    def key(self, document: str, key: Key) -> dict[str, Any]:
        return next(one for one in self.status(document).get("keys", ()) if one["key"] == key)

    def load(self) -> tuple[config_maps.StoredRecords, OwnershipRecords]:
        kept = config_maps.read(self.kafka.cluster_id, self.maps.values())
        rest = release(kept.remainder, self.gone)
        return kept, owned_from(self.kafka.cluster_id, self.objects.values(), rest)

    def run(
        self, *, complete: bool = True, now_writes: bool = True, **orders: Any
    ) -> Reconciliation:
        """One pass and everything that is written after it."""
        return asyncio.run(self._run(complete=complete, write=now_writes, orders=orders))

    async def _run(self, *, complete: bool, write: bool, orders: dict[str, Any]) -> Reconciliation:
        cluster = from_spec("prod", self.obj["spec"])
        standings = {
            name: assess_eligibility(one, {"prod": cluster})
            for name, one in sorted(self.objects.items())
        }
        report: Reconciliation
        try:
            kept, owned = self.load()
        except KquotaError as error:
            kept, owned = config_maps.StoredRecords(remainder=self.owned), self.owned
            report = Reconciliation(cluster="prod", error=error)
        else:
            inventory = MemoryInventory(owned)
            settled = resolve_desired_state(standings.values(), owned)
            told = ReconcileOptions(
                rules=cluster.rules(complete=complete),
                guards=self.guards or cluster.guards,
                expected_cluster_id=cluster.expected_cluster_id,
                validation=ValidationMode.NONE,
                assess=False,
                **orders,
            )
            ports = ReconcilePorts(store=self.kafka, inventory=inventory, clock=self.clock)
            report = await self.passes.run(ports, told, settled.desired)
            owned = await inventory.load(self.kafka.cluster_id)
        self.owned = owned
        if write:
            self._tell(standings, kept, owned, report)
        return report

    def _tell(self, standings, kept, owned, report) -> None:
        settled = resolve_desired_state(standings.values(), owned)
        now = self.clock.now()
        for name, one in standings.items():
            before = self.status(name)
            after = document_status(
                one, settled=settled, report=report, owned=owned, previous=before, now=now
            )
            if not unchanged(before, after):
                self.objects[name]["status"] = after
                self.writes.append(f"status {name}")
                self.happened += [(name, each) for each in transitions(before, after)]
        rest = records_outside_statuses(owned, live_documents(self.objects.values()))
        kept, wanted = config_maps.config_maps(
            config_maps.StoredRecords(remainder=rest, layouts=kept.layouts), namespace="kquota"
        )
        todo = config_maps.diff(self.maps, wanted)
        self.writes += ["configmap"] * todo.writes
        self.maps |= {one["metadata"]["name"]: one for one in (*todo.create, *todo.update)}
        for name in todo.delete:
            del self.maps[name]
        self.gone.clear()
        before = self.obj.get("status", {})
        after = cluster_status(
            self.obj,
            report=report,
            settled=settled,
            owned=owned,
            documents=len(self.objects),
            previous=before,
            now=now,
        )
        if not unchanged(before, after):
            self.obj["status"] = after
            self.writes.append("cluster")
            self.happened += [("prod", each) for each in cluster_transitions(before, after)]
