"""What the clusters of one operator share: the cache, the ways to the API server and to Kafka, and questions of leadership."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from reconciler.base.protocols import Clock
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.status.quota_cluster import SecretUse
from reconciler.kube.status.writer import ResourceWriter
from reconciler.kube.watch.resource_cache import ResourceCache
from reconciler.manifest.project.cluster import QuotaCluster
from reconciler.ports import AuditLog, QuotaStore
from reconciler.quota.planner.plan import Plan
from reconciler.quota.results.report import Reconciliation


class SessionProvider(Protocol):
    """Connected clients by cluster. Implemented by ``session.SessionKeeper``."""

    async def for_(self, cluster: QuotaCluster) -> QuotaStore:
        """A client with the newest credentials that work.

        Raises:
            KquotaError: There is none.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """What the clusters of one operator share.

    Attributes:
        settings: As started.
        cache: What was seen.
        list_everything: Lists every watched namespace into the cache; whether nothing is missing.
        sessions: Clients.
        writes: The way to statuses, finalizers and events.
        clock: Time.
        audit: Where applies are noted.
        refuses_removals: ``refuses_removals(name, plan)``: why no removal of a plan may be made now; "" = nothing is against it.
        fenced: Whether writes of an earlier leader may still land.
        is_watch_ordered: Whether watch events arrive in the order in which the objects were changed.
        looks_after: ``looks_after(cluster id, name)``: the name of the QuotaCluster that looks after a Kafka cluster.
        secret_of: The credentials of a cluster's session, for its status.
        passed: Called with each pass and with how many limits are asked for twice, for metrics.
    """

    settings: OperatorSettings
    cache: ResourceCache
    list_everything: Callable[[], Awaitable[bool]]
    sessions: SessionProvider
    writes: ResourceWriter
    clock: Clock
    audit: AuditLog
    refuses_removals: Callable[[str, Plan], Awaitable[str]]
    fenced: Callable[[], bool]
    is_watch_ordered: Callable[[], bool]
    looks_after: Callable[[str, str], str]
    secret_of: Callable[[str], SecretUse | None]
    passed: Callable[[Reconciliation, int], None]
