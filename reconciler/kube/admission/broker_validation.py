"""Validates documents with a broker for an admission request. Implements `review.BrokerValidator`.

Every replica serves admission, so this does not depend on leadership: it reads QuotaClusters from the API server
(cached for some seconds, because manifests are often applied by the hundred) and uses the sessions of this process.
"""

import logging
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from reconciler.base.protocols import Clock
from reconciler.client import QuotaClient
from reconciler.errors import AuthorizationError, ConfigError, KquotaError, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Resource, parsed
from reconciler.kube.api.resource_paths import QUOTA_CLUSTERS
from reconciler.kube.configuration.client_sessions import SessionKeeper
from reconciler.kube.configuration.cluster_references import cluster_problems
from reconciler.manifest.project.cluster import QuotaCluster, from_spec
from reconciler.quota.outcome import Alteration, Rejected, Unknown
from reconciler.quota.results.report import ValidationResult
from reconciler.quota.state import Cluster
from reconciler.sandbox.broker_rules.offline_validation import validate
from reconciler.sandbox.broker_rules.profiles import profile_named

KEPT_SECONDS: Final = 10.0
"""Seconds for which QuotaClusters, and clients without another check of their credentials, are cached."""

RIGHTS_KEPT_SECONDS: Final = 60.0
ASK_SECONDS: Final = 4.0

DELETED_SECONDS: Final = 120.0
"""Seconds between two searches for deleted QuotaClusters. The second that misses one closes its session, because a
reconciliation that was under way may use it until then."""

_log = logging.getLogger("reconciler.kube")


class LiveBrokerValidator:
    """Implements :class:`reconciler.kube.admission.review.BrokerValidator`.

    Args:
        clients: Connected clients.
        operator_class: Only QuotaClusters of this class are used.
        allow_references: Whether custom resources may refer to files and variables.
        from_file: QuotaClusters of a file, by name; ``None`` = they are custom resources.
    """

    def __init__(
        self,
        api: KubernetesApi,
        clients: SessionKeeper,
        *,
        clock: Clock,
        operator_class: str = "",
        allow_references: bool = False,
        from_file: Mapping[str, Resource] | None = None,
    ) -> None:
        self._api = api
        self._clients = clients
        self._clock = clock
        self._class = operator_class
        self._allow_references = allow_references
        self._from_file = from_file
        self._clusters: dict[str, tuple[float, QuotaCluster | None]] = {}
        self._listed: tuple[float, Mapping[str, Resource]] | None = None
        self._cached_clients: dict[str, tuple[float, QuotaClient]] = {}
        self._rights: dict[str, tuple[float, QuotaClient, Cluster]] = {}

    async def clusters(self) -> Mapping[str, Resource]:
        """See :class:`reconciler.kube.admission.review.BrokerValidator`."""
        if self._from_file is not None:
            return self._from_file
        now = self._clock.monotonic()
        if self._listed is None or now - self._listed[0] >= KEPT_SECONDS:
            listing = await self._api.list(QUOTA_CLUSTERS)
            self._listed = now, {obj.name: obj for obj in map(parsed, listing.items)}
        return self._listed[1]

    async def cluster(self, name: str) -> QuotaCluster | None:
        """See :class:`reconciler.kube.admission.review.BrokerValidator`."""
        now = self._clock.monotonic()
        cached = self._clusters.get(name)
        if cached is not None and now - cached[0] < KEPT_SECONDS:
            return cached[1]
        cluster = await self._read(name)
        # Expired entries go, because their names come from the authors of documents.
        self._clusters = {
            cluster_name: entry
            for cluster_name, entry in self._clusters.items()
            if now - entry[0] < KEPT_SECONDS
        }
        self._clusters[name] = now, cluster
        return cluster

    async def close_sessions(self) -> None:
        """Close sessions of deleted QuotaClusters, until cancelled: a replica that does not lead watches none."""
        missing: AbstractSet[str] = frozenset()
        while True:
            await self._clock.sleep(DELETED_SECONDS)
            try:
                missing = await self._close_missing(missing)
            except KquotaError as error:
                _log.warning("sessions of deleted QuotaClusters are closed later: %s", error)

    async def _close_missing(self, before: AbstractSet[str]) -> AbstractSet[str]:
        """Close the sessions of QuotaClusters that are still missing; return those that are missing now.

        Args:
            before: The QuotaClusters that the last search missed.
        """
        if not self._cached_clients:
            return frozenset()
        self._listed = None
        missing = self._cached_clients.keys() - (await self.clusters()).keys()
        for name in missing & before:
            del self._cached_clients[name]
            _ = self._rights.pop(name, None)
            await self._clients.forget(name)
        return missing

    async def _read(self, name: str) -> QuotaCluster | None:
        try:
            if self._from_file is not None:
                obj = self._from_file[name]
            else:
                obj = parsed(await self._api.get(QUOTA_CLUSTERS, None, name))
        except (NotFound, KeyError):
            return None
        if obj.operator_class != self._class:
            raise ConfigError(f"QuotaCluster {name} belongs to another operator")
        problems = cluster_problems(obj, allow_references=self._allow_references)
        if problems:
            raise ConfigError(f"QuotaCluster {name}: {'; '.join(problems)}")
        return from_spec(name, obj.spec)

    async def ask(
        self, cluster: QuotaCluster, alterations: Sequence[Alteration]
    ) -> ValidationResult:
        """See :class:`reconciler.kube.admission.review.BrokerValidator`."""
        client = await self._client(cluster)
        cluster_info = await self._about(cluster, client)
        if cluster.expected_cluster_id not in {None, cluster_info.id}:
            return ValidationResult(
                source="none", reason="the Kafka cluster id is not the expected one"
            )
        if not cluster_info.may_alter:
            return _by_rules(
                cluster_info, alterations, "the operator may not ask it (AlterConfigs)"
            )
        try:
            results = await client.alter(alterations, validate_only=True, timeout=ASK_SECONDS)
        except AuthorizationError:
            _ = self._rights.pop(cluster.name, None)
            return _by_rules(
                cluster_info, alterations, "the operator may not ask it (AlterConfigs)"
            )
        rejections = {
            subject: result for subject, result in results.items() if isinstance(result, Rejected)
        }
        unknown = any(isinstance(result, Unknown) for result in results.values())
        return ValidationResult(
            source="broker",
            rejections=rejections,
            reason="its answer did not come in time" if unknown else "",
        )

    async def _client(self, cluster: QuotaCluster) -> QuotaClient:
        now = self._clock.monotonic()
        cached = self._cached_clients.get(cluster.name)
        if (
            cached is not None
            and now - cached[0] < KEPT_SECONDS
            and cached[1].login_error is None
            # A client that was closed would connect again, and stay open.
            and cached[1] is self._clients.current(cluster.name)
        ):
            return cached[1]
        client = await self._clients.for_(cluster)
        self._cached_clients[cluster.name] = now, client
        return client

    async def _about(self, cluster: QuotaCluster, client: QuotaClient) -> Cluster:
        now = self._clock.monotonic()
        cached = self._rights.get(cluster.name)
        if cached is not None and cached[1] is client and now - cached[0] < RIGHTS_KEPT_SECONDS:
            return cached[2]
        cluster_info = await client.cluster(timeout=ASK_SECONDS)
        self._rights[cluster.name] = now, client, cluster_info
        return cluster_info


def _by_rules(
    cluster_info: Cluster, alterations: Sequence[Alteration], reason: str
) -> ValidationResult:
    results = validate(profile_named(cluster_info.behaves_as), alterations)
    rejections = {
        subject: result for subject, result in results.items() if isinstance(result, Rejected)
    }
    return ValidationResult(
        source=f"sandbox {cluster_info.behaves_as}", rejections=rejections, reason=reason
    )
