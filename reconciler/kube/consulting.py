"""Asking a broker on behalf of an admission request: which cluster, by which client, with which right. Implements `admission.Broker`.

Every replica serves admission, so this stands on its own: it reads QuotaClusters from the API server (kept for some
seconds, because whoever applies one manifest applies a hundred) and uses the sessions of this process.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from reconciler.client import QuotaClient
from reconciler.errors import AuthorizationError, ConfigError, NotFound
from reconciler.kube.resources import operator_class_of
from reconciler.kube.served import QUOTA_CLUSTERS, Resource
from reconciler.kube.standing import cluster_problems
from reconciler.manifest.cluster import QuotaCluster, from_spec
from reconciler.ports import Clock, Cluster
from reconciler.quota.outcome import Alteration, Rejected, Unknown
from reconciler.quota.report import Verdict
from reconciler.sandbox.profiles import profile_named
from reconciler.sandbox.verdicts import validate

KEPT_SECONDS: Final = 10.0
"""For QuotaClusters, and for clients before their credentials are looked at again."""

RIGHTS_KEPT_SECONDS: Final = 60.0
ASK_SECONDS: Final = 4.0


class ClusterApi(Protocol):
    """What is needed of :class:`reconciler.kube.api.Api`."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Mapping[str, Any]:
        """One object."""
        ...


class Clients(Protocol):
    """What is needed of :class:`reconciler.kube.session.SessionKeeper`."""

    async def for_(self, cluster: QuotaCluster) -> QuotaClient:
        """A client with the newest credentials that work."""
        ...


class Consultant:
    """Implements :class:`reconciler.kube.admission.Broker`.

    Args:
        api: For reading QuotaClusters.
        clients: Connected clients.
        clock: Time.
        operator_class: Only QuotaClusters of this class are ours to ask.
        allow_references: Whether custom resources may refer to files and variables.
        from_file: QuotaClusters of a file, by name; ``None`` = they are custom resources.
    """

    def __init__(
        self,
        api: ClusterApi,
        clients: Clients,
        *,
        clock: Clock,
        operator_class: str = "",
        allow_references: bool = False,
        from_file: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._api = api
        self._clients = clients
        self._clock = clock
        self._class = operator_class
        self._allow_references = allow_references
        self._from_file = from_file
        self._clusters: dict[str, tuple[float, QuotaCluster | None]] = {}
        self._known: dict[str, tuple[float, QuotaClient]] = {}
        self._rights: dict[str, tuple[float, QuotaClient, Cluster]] = {}

    async def cluster(self, name: str) -> QuotaCluster | None:
        """See :class:`reconciler.kube.admission.Broker`."""
        now = self._clock.monotonic()
        kept = self._clusters.get(name)
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return kept[1]
        found = await self._read(name)
        self._clusters = _young(self._clusters, lambda one: now - one[0] < KEPT_SECONDS)
        self._clusters[name] = now, found
        return found

    async def _read(self, name: str) -> QuotaCluster | None:
        try:
            if self._from_file is not None:
                obj = self._from_file[name]
            else:
                obj = await self._api.get(QUOTA_CLUSTERS, None, name)
        except (NotFound, KeyError):
            return None
        if operator_class_of(obj) != self._class:
            raise ConfigError(f"QuotaCluster {name} belongs to another operator")
        problems = cluster_problems(obj, allow_references=self._allow_references)
        if problems:
            raise ConfigError(f"QuotaCluster {name}: {'; '.join(problems)}")
        return from_spec(name, obj["spec"])

    async def ask(self, cluster: QuotaCluster, alterations: Sequence[Alteration]) -> Verdict:
        """See :class:`reconciler.kube.admission.Broker`."""
        client = await self._client(cluster)
        about = await self._about(cluster, client)
        if cluster.expected_cluster_id not in {None, about.id}:
            return Verdict(source="none", why="another Kafka cluster answers than is expected")
        if not about.may_alter:
            return _by_rules(about, alterations, "the operator may not ask it (AlterConfigs)")
        try:
            results = await client.alter(alterations, validate_only=True, timeout=ASK_SECONDS)
        except AuthorizationError:
            _ = self._rights.pop(cluster.name, None)
            return _by_rules(about, alterations, "the operator may not ask it (AlterConfigs)")
        refused = {one: said for one, said in results.items() if isinstance(said, Rejected)}
        unknown = any(isinstance(said, Unknown) for said in results.values())
        return Verdict(
            source="broker",
            refused=refused,
            why="its answer did not come in time" if unknown else "",
        )

    async def _client(self, cluster: QuotaCluster) -> QuotaClient:
        now = self._clock.monotonic()
        kept = self._known.get(cluster.name)
        if kept is not None and now - kept[0] < KEPT_SECONDS and kept[1].refused is None:
            return kept[1]
        client = await self._clients.for_(cluster)
        self._known[cluster.name] = now, client
        return client

    async def _about(self, cluster: QuotaCluster, client: QuotaClient) -> Cluster:
        now = self._clock.monotonic()
        kept = self._rights.get(cluster.name)
        if kept is not None and kept[1] is client and now - kept[0] < RIGHTS_KEPT_SECONDS:
            return kept[2]
        about = await client.cluster(timeout=ASK_SECONDS)
        self._rights[cluster.name] = now, client, about
        return about


def _young(
    kept: dict[str, tuple[float, QuotaCluster | None]],
    fresh: Callable[[tuple[float, QuotaCluster | None]], bool],
) -> dict[str, tuple[float, QuotaCluster | None]]:
    """Without what is too old: names come from whoever writes documents."""
    return {name: one for name, one in kept.items() if fresh(one)}


def _by_rules(about: Cluster, alterations: Sequence[Alteration], why: str) -> Verdict:
    results = validate(profile_named(about.behaves_as), alterations)
    refused = {one: said for one, said in results.items() if isinstance(said, Rejected)}
    return Verdict(source=f"sandbox {about.behaves_as}", refused=refused, why=why)
