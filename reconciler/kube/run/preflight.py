"""Checks whether an operator with these settings can work: every permission it uses, every QuotaCluster's configuration.

The table of permissions is the operator's own; a test compares it with the chart's Roles and with the requests sent.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from reconciler.app.inspection.cluster_checks import Checkup, examine, unusable
from reconciler.base.clock import SystemClock
from reconciler.client import ClientConfig
from reconciler.errors import ConfigError, CredentialsError, KquotaError, NotFound
from reconciler.kube.api import resource_paths as paths
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Resource, parsed
from reconciler.kube.api.resource_paths import ApiResource
from reconciler.kube.configuration.cluster_file import read_clusters
from reconciler.kube.configuration.cluster_references import cluster_problems
from reconciler.kube.configuration.credentials import (
    NONE,
    NOT_FOUND,
    client_config,
    granted_credentials,
)
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.manifest.project.cluster import QuotaCluster, from_spec
from reconciler.render.cluster_state import Check, CheckStatus

NAMESPACE_OF_CLUSTER_EVENTS: Final = "default"
"""Namespace of events about objects that have no namespace."""


class RequiredRight(NamedTuple):
    """A permission that the operator uses, and its purpose."""

    verb: str  # RBAC verb
    resource: ApiResource  # kind of resource
    purpose: str  # what it is used for
    subresource: str = ""  # for example `status`
    namespace: str | None = None  # the namespace; None = cluster-wide
    name: str = ""  # restricts the permission to one object; "" = any

    def __str__(self) -> str:
        kind = self.resource.plural + (f"/{self.subresource}" if self.subresource else "")
        name_text = f" {self.name}" if self.name else ""
        namespace_text = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{name_text}{namespace_text}"


_DOCUMENTS: Final = (
    RequiredRight("list", paths.CLIENT_QUOTAS, "to list the declared quotas completely"),
    RequiredRight("watch", paths.CLIENT_QUOTAS, "to watch changes"),
    RequiredRight(
        "patch",
        paths.CLIENT_QUOTAS,
        "to write the status of documents, and to store records",
        "status",
    ),
    RequiredRight("patch", paths.CLIENT_QUOTAS, "to add and remove its finalizer"),
    RequiredRight(
        "release", paths.CLIENT_QUOTAS, "so that the admission policy lets it change its finalizer"
    ),
    RequiredRight("create", paths.EVENTS, "to report transitions"),
)
_OWN: Final = (
    RequiredRight("list", paths.CONFIG_MAPS, "to read ownership records"),
    RequiredRight("create", paths.CONFIG_MAPS, "to write ownership records"),
    RequiredRight("update", paths.CONFIG_MAPS, "to write ownership records"),
    RequiredRight("get", paths.SECRETS, "to read credentials of Kafka clusters"),
    RequiredRight("list", paths.SECRETS, "to watch for rotated credentials"),
    RequiredRight("watch", paths.SECRETS, "to watch for rotated credentials"),
)
_CLUSTERS: Final = (
    RequiredRight("list", paths.QUOTA_CLUSTERS, "to list the Kafka clusters"),
    RequiredRight("watch", paths.QUOTA_CLUSTERS, "to watch changes"),
    RequiredRight("patch", paths.QUOTA_CLUSTERS, "to write the status of each cluster", "status"),
)
_CLUSTER_EVENTS: Final = RequiredRight(
    "create",
    paths.EVENTS,
    "to report transitions of QuotaClusters",
    namespace=NAMESPACE_OF_CLUSTER_EVENTS,
)
_DEFINITION: Final = RequiredRight(
    "get",
    paths.DEFINITIONS,
    "to remove nothing while the definition of ClientQuota is being deleted",
    name=paths.CLIENT_QUOTA_DEFINITION,
)


def rights(settings: OperatorSettings) -> Iterator[RequiredRight]:
    """Yield every permission that an operator with these settings uses."""
    own_namespace = settings.operator_namespace
    for namespace in settings.namespaces or (None,):
        yield from (right._replace(namespace=namespace) for right in _DOCUMENTS)
    if settings.namespaces and settings.quota_clusters is None:
        yield _CLUSTER_EVENTS
    if not settings.namespaces or settings.quota_clusters is None:
        yield _DEFINITION
    yield from (right._replace(namespace=own_namespace) for right in _OWN)
    if settings.leader_elect:
        lease = RequiredRight("create", paths.LEASES, "for leader election", "", own_namespace)
        yield lease
        for verb in ("get", "update"):
            yield lease._replace(verb=verb, name=settings.lease_name)
    if settings.quota_clusters is None:
        yield from _CLUSTERS


class ClusterConfiguration(Struct, frozen=True, kw_only=True):
    """One QuotaCluster and the configuration of its client."""

    name: str  # name of the QuotaCluster
    # Cluster id that must answer, from the spec or pinned by the operator; None = any.
    expected: str | None = None
    config: ClientConfig | None = None  # None if `error` is set
    error: KquotaError | None = None  # what is wrong with it; None = nothing


async def configured(
    api: KubernetesApi, settings: OperatorSettings
) -> Sequence[ClusterConfiguration]:
    """Return every QuotaCluster that an operator with these settings serves, sorted by name.

    Raises:
        KquotaError: They cannot be listed, or their file cannot be read.
    """
    if settings.quota_clusters is not None:
        objects: Sequence[Resource] = read_clusters(settings.quota_clusters)
    else:
        objects = tuple(map(parsed, (await api.list(paths.QUOTA_CLUSTERS)).items))
    own_clusters = [
        cluster_obj
        for cluster_obj in objects
        if cluster_obj.operator_class == settings.operator_class
    ]
    return [
        await _configured(api, settings, cluster_obj)
        for cluster_obj in sorted(own_clusters, key=lambda each: each.name)
    ]


async def _configured(
    api: KubernetesApi, settings: OperatorSettings, obj: Resource
) -> ClusterConfiguration:
    name = obj.name
    problems = cluster_problems(obj, allow_references=settings.allow_references)
    if problems:
        return ClusterConfiguration(name=name, error=ConfigError("; ".join(problems)))
    cluster = from_spec(name, obj.spec)
    pinned = obj.status.get("clusterId")
    expected = cluster.expected_cluster_id or (pinned if isinstance(pinned, str) else None)
    try:
        config = await _config(api, settings, cluster)
    except KquotaError as error:
        return ClusterConfiguration(name=name, expected=expected, error=error)
    return ClusterConfiguration(name=name, expected=expected, config=config)


async def _config(
    api: KubernetesApi, settings: OperatorSettings, cluster: QuotaCluster
) -> ClientConfig:
    credentials = NONE
    if cluster.secret_name is not None:
        place = f"{settings.operator_namespace}/{cluster.secret_name}"
        try:
            secret = await api.get(paths.SECRETS, settings.operator_namespace, cluster.secret_name)
        except NotFound:
            raise CredentialsError(f"there is no Secret {place}", reason=NOT_FOUND) from None
        credentials = granted_credentials(secret, cluster.name)
    return client_config(cluster, credentials, allow_references=settings.allow_references)


async def check_operator(
    settings: OperatorSettings, *, patience: float
) -> Sequence[tuple[str, Checkup]]:
    """Check the permissions in Kubernetes, then each QuotaCluster; return a title and the checks of each.

    Args:
        patience: Maximum seconds for one call to a Kafka cluster.

    Raises:
        ConfigError: No API server can be reached with this configuration.
    """
    async with await KubernetesApi.connect(settings.kubeconfig, clock=SystemClock()) as api:
        check_list = [await _right(api, right) for right in rights(settings)]
        try:
            clusters = await configured(api, settings)
        except KquotaError as error:
            check_list.append(_failed("QuotaClusters", error.message, error.hint))
            clusters = ()
        else:
            check_list.append(_cluster_count_check(settings, len(clusters)))
    checkups = [("Kubernetes", Checkup(cluster_id="", checks=tuple(check_list)))]
    for cluster in clusters:
        subject = f"QuotaCluster {cluster.name}"
        if cluster.config is None:
            checkups.append((subject, unusable(cluster.error or KquotaError("it cannot be used"))))
        else:
            checkups.append(
                (
                    subject,
                    await examine(cluster.config, patience=patience, expected=cluster.expected),
                )
            )
    return checkups


async def _right(api: KubernetesApi, right: RequiredRight) -> Check:
    try:
        review = await api.review(
            right.resource,
            right.verb,
            namespace=right.namespace,
            name=right.name,
            subresource=right.subresource,
        )
    except KquotaError as error:
        return _failed(str(right), error.message, error.hint)
    if review.allowed:
        return Check(name=str(right), health=CheckStatus.OK, observation="allowed")
    reason = f" ({review.reason})" if review.reason else ""
    return _failed(
        str(right), f"not allowed{reason}", f"required {right.purpose}; the chart's Roles grant it"
    )


def _cluster_count_check(settings: OperatorSettings, count: int) -> Check:
    name = "QuotaClusters"
    if count:
        return Check(name=name, health=CheckStatus.OK, observation=f"{count} to serve")
    of = f" of class {settings.operator_class}" if settings.operator_class else ""
    return Check(
        name=name,
        health=CheckStatus.WARNING,
        observation=f"none{of}",
        advice="create a QuotaCluster",
    )


def _failed(name: str, finding: str, advice: str) -> Check:
    return Check(name=name, health=CheckStatus.FAILED, observation=finding, advice=advice)
