"""What the clusters of one operator share: the cache, clients of the API server and Kafka, and the state of leadership."""

from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec import Struct

from reconciler.base.protocols import Clock
from reconciler.kube.api.custom_resources import Resource
from reconciler.kube.configuration.credentials import SecretState
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.status.status_queue import StatusQueue
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.ports import AuditLog, QuotaStore
from reconciler.quota.entity import Entity
from reconciler.quota.planner.plan import Plan
from reconciler.quota.results.report import Reconciliation


class OperatorContext(Struct, frozen=True, kw_only=True):
    """What the clusters of one operator share."""

    settings: OperatorSettings  # the settings of the process
    cache: ResourceCache  # the cached resources
    # Lists every watched namespace into the cache; returns whether the listing is complete. Its argument returns
    # whether the cached documents declare exactly what the records have.
    list_everything: Callable[[Callable[[], bool]], Awaitable[bool]]
    # Lists the documents that declare some entities, at least as new as the cache; None if this is not possible.
    list_declaring: Callable[[Collection[Entity]], Awaitable[Sequence[Resource] | None]]
    # The quotas of a cluster, by a client with the newest credentials that work; altered only while this process leads.
    store_of: Callable[[QuotaCluster], Awaitable[QuotaStore]]
    writes: ResourceWriter  # writes statuses, finalizers and events
    statuses: StatusQueue  # the statuses that wait to be written
    clock: Clock
    audit: AuditLog  # audit log of applies
    # `refuses_removals(name, plan)`: why no removal of a plan is allowed now; "" = allowed.
    refuses_removals: Callable[[str, Plan], Awaitable[str]]
    # Seconds for which writes of an earlier leader may still take effect; 0 = none.
    fence_seconds: Callable[[], float]
    # The credentials of a cluster's session, for its status.
    secret_of: Callable[[str], SecretState]
    # Called with each reconciliation and its number of conflicting limits, for metrics.
    record_metrics: Callable[[Reconciliation, int], None]
