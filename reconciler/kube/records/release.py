"""Stops the operator for good, and removes its finalizer: records are marked first, then finalizers are removed.

What the documents applied is recorded as orphaned in the ConfigMaps of every cluster id before any finalizer is
removed. A later operator then knows the owner of each limit, removes none for a deleted document, and gives an
existing document its records back. A repeated release continues where it stopped. Kafka is not queried.

A running operator adds its finalizer again to documents that need it. So its Deployment is scaled to zero before, in the
uninstallation of the chart or a manual clean-up.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from reconciler.app.notices import TextReceiver
from reconciler.base.clock import SystemClock
from reconciler.base.protocols import Clock
from reconciler.errors import KubernetesError, KubernetesUnavailable, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import Resource, parsed
from reconciler.kube.api.resource_paths import CLIENT_QUOTAS, ApiResource
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.records import finalizers, record_store

IN_FLIGHT: Final = 16
TRIES: Final = 3
_MOVED: Final = frozenset({409, 422})
"""Status codes of a patch whose test failed: other finalizers were added or removed meanwhile."""

Progress = Callable[[str, int, int], None]


class ReleaseResult(Struct, frozen=True, kw_only=True):
    """The result of a release."""

    documents: tuple[str, ...] = ()  # `namespace/name` of the released documents, sorted
    pairs: int = 0  # number of pairs recorded as orphaned
    # Clusters whose records could not be marked, with the reason; their documents are released nevertheless.
    unrecorded: Mapping[str, str] = field(default_factory=dict[str, str])
    # Documents that still have the finalizer, with the reason.
    failed: Mapping[str, str] = field(default_factory=dict[str, str])


async def release(
    api: KubernetesApi, *, namespaces: Sequence[str], operator_namespace: str, progress: Progress
) -> ReleaseResult:
    """Remove the operator's finalizer from every ClientQuota that has it.

    Args:
        namespaces: The namespaces; empty = all.
        operator_namespace: Namespace of the records.

    Raises:
        KubernetesError: ClientQuotas could not be listed; nothing was changed.
    """
    held_objects = await _documents_with_finalizer(api, namespaces)
    pairs, unrecorded = await _keep(api, operator_namespace, held_objects, progress)
    remaining, failed = held_objects, dict[str, KubernetesError]()
    for _ in range(TRIES):
        failed = await _remove_finalizers(api, remaining, progress)
        remaining = await _documents_with_finalizer(api, namespaces)
        if not any(error.status in _MOVED for error in failed.values()):
            break
    # A running operator adds its finalizer again.
    reasons = {
        obj.document: str(
            failed.get(obj.document, "its finalizer was added again: an operator is running")
        )
        for obj in remaining
    }
    free = sorted({obj.document for obj in held_objects} - reasons.keys())
    return ReleaseResult(documents=tuple(free), pairs=pairs, unrecorded=unrecorded, failed=reasons)


async def _documents_with_finalizer(
    api: KubernetesApi, namespaces: Sequence[str]
) -> list[Resource]:
    held_objects: list[Resource] = []
    for namespace in namespaces or (None,):
        listing = await api.list(CLIENT_QUOTAS, namespace)
        held_objects += [obj for obj in map(parsed, listing.items) if obj.has_finalizer]
    return held_objects


# ---- records ---------------------------------------------------------------------------------


async def _keep(
    api: KubernetesApi, namespace: str, held_objects: Sequence[Resource], progress: Progress
) -> tuple[int, dict[str, str]]:
    """Record as orphaned what the documents own; return the number of pairs, and clusters that failed with the reason."""
    if not held_objects:
        return 0, {}
    documents = frozenset(obj.document for obj in held_objects)
    try:
        orphaning = await record_store.orphan_everywhere(
            api, namespace, documents, progress=progress
        )
    except KubernetesError as error:
        # The operator orphans what an unobserved deleted document owned, so release works without this permission.
        return 0, {f"records in namespace {namespace}": str(error)}
    failed = orphaning.failed.items()
    return orphaning.pairs, {f"records of cluster {name}": str(error) for name, error in failed}


# ---- finalizers ------------------------------------------------------------------------------


async def _remove_finalizers(
    api: KubernetesApi, held_objects: Sequence[Resource], progress: Progress
) -> dict[str, KubernetesError]:
    """Remove the finalizers; return the documents whose finalizer could not be removed, with the reason."""
    failed: dict[str, KubernetesError] = {}
    slots = asyncio.Semaphore(IN_FLIGHT)
    release_count = 0

    async def remove(obj: Resource) -> None:
        nonlocal release_count
        async with slots:
            try:
                _ = await api.patch_json(
                    CLIENT_QUOTAS, obj.namespace, obj.name, finalizers.removing(obj)
                )
            except NotFound:
                pass
            except KubernetesError as error:
                failed[obj.document] = error
        release_count += 1
        progress("finalizers", release_count, len(held_objects))

    _ = await asyncio.gather(*(remove(obj) for obj in held_objects))
    return failed


# ---- stopping the operator first -------------------------------------------------------------

DEPLOYMENTS: Final = ApiResource(group="apps", version="v1", plural="deployments")
PODS: Final = ApiResource(group="", version="v1", plural="pods")

LONGEST_STOP: Final = 150.0
"""Seconds: a pod has 75 to terminate (a broker may take 65 to answer an alter), doubled for its node to report it."""

POLL_SECONDS: Final = 1.0
ENDED: Final = frozenset({"Succeeded", "Failed"})


async def stop_and_release(
    settings: OperatorSettings,
    *,
    deployment: str | None,
    longest: float,
    notices: TextReceiver,
    progress: Progress,
) -> ReleaseResult:
    """Stop the operator's Deployment if given, then remove the operator's finalizer from every ClientQuota.

    Args:
        settings: Namespaces of documents and records.
        deployment: Deployment to stop first; ``None`` = none.
        longest: Maximum seconds to wait for the end of its pods.
        notices: Receives a note that it was stopped.

    Raises:
        KubernetesError: Nothing was released.
    """
    clock, namespace = SystemClock(), settings.operator_namespace
    async with await KubernetesApi.connect(settings.kubeconfig, clock=clock) as api:
        if deployment is not None:
            try:
                is_present = await stop_deployment(
                    api, namespace, deployment, clock=clock, longest=longest
                )
            except KubernetesError as error:
                raise type(error)(
                    f"the operator was not stopped, so nothing was released: {error.message}",
                    status=error.status,
                    reason=error.reason,
                    hint=error.hint,
                ) from None
            phrase = "was stopped" if is_present else "does not exist"
            notices.note(f"Deployment {namespace}/{deployment} {phrase}")
        return await release(
            api, namespaces=settings.namespaces, operator_namespace=namespace, progress=progress
        )


async def stop_deployment(
    api: KubernetesApi, namespace: str, name: str, *, clock: Clock, longest: float = LONGEST_STOP
) -> bool:
    """Scale a Deployment to zero replicas and return when none of its pods runs any more.

    Args:
        api: Client of the API server. Needs ``get`` on the Deployment, ``patch`` on its ``scale`` and ``list`` on
            pods.
        namespace: Namespace of the Deployment.
        longest: Seconds to wait for the pods.

    Returns:
        Whether the Deployment existed.

    Raises:
        KubernetesUnavailable: Pods still run after ``longest`` seconds, or the API server does not answer.
        KubernetesError: A permission is missing.
    """
    try:
        deployment = await api.get(DEPLOYMENTS, namespace, name)
    except NotFound:
        return False
    _ = await api.patch_merge(
        DEPLOYMENTS, namespace, name, {"spec": {"replicas": 0}}, subresource="scale"
    )
    labels = _selector(deployment)
    until = clock.monotonic() + longest
    while running := await _running(api, namespace, labels):
        if clock.monotonic() >= until:
            raise KubernetesUnavailable(
                f"after {longest:.0f} s these pods still run: {', '.join(running)}",
                hint="delete them, then release again",
            )
        await clock.sleep(POLL_SECONDS)
    return True


def _selector(deployment: Mapping[str, Any]) -> str:
    """Return the label selector of the Deployment as a query; the chart's uses ``matchLabels`` only."""
    match_labels: Mapping[str, str] = deployment["spec"]["selector"]["matchLabels"]
    return ",".join(f"{key}={value}" for key, value in sorted(match_labels.items()))


async def _running(api: KubernetesApi, namespace: str, labels: str) -> list[str]:
    pods = (await api.list(PODS, namespace, labels=labels)).items
    return sorted(
        pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") not in ENDED
    )
