"""Stops the operator for good: scales its Deployment to zero, waits for its pods, and removes its finalizers.

A running operator adds its finalizer again to documents that need it. So it has to be stopped before a release
removes finalizers for good, in the uninstallation of the chart or a manual clean-up.
"""

from collections.abc import Mapping
from typing import Any, Final

from reconciler.app.notices import TextReceiver
from reconciler.base.clock import SystemClock
from reconciler.base.protocols import Clock
from reconciler.errors import KubernetesError, KubernetesUnavailable, NotFound
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.resource_paths import ApiResource
from reconciler.kube.configuration.operator_settings import OperatorSettings
from reconciler.kube.records.release import Progress, ReleaseResult, release

DEPLOYMENTS: Final = ApiResource(group="apps", version="v1", plural="deployments", namespaced=True)
PODS: Final = ApiResource(group="", version="v1", plural="pods", namespaced=True)

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
