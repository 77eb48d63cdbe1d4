"""Requests a reconciliation of one resource from the operator, and waits until it is handled.

The request is an annotation with a unique value; the operator copies that value into the status after a
reconciliation that saw it. Clocks are not compared.
"""

import secrets
from datetime import UTC, datetime
from typing import Final

from reconciler.base.protocols import Clock
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import REQUESTED_AT, parsed
from reconciler.kube.api.resource_paths import ApiResource

POLL_SECONDS: Final = 0.5


async def request(
    api: KubernetesApi, resource: ApiResource, namespace: str | None, name: str, *, clock: Clock
) -> str:
    """Request a reconciliation; return the value that the status will have once it is handled.

    Raises:
        NotFound: There is no such resource.
        Forbidden: We may not patch it.
    """
    # The time is for people; the rest distinguishes two requests of the same second.
    at = datetime.fromtimestamp(clock.now(), UTC).isoformat(timespec="milliseconds")
    value = f"{at.replace('+00:00', 'Z')}-{secrets.token_hex(3)}"
    patch = {"metadata": {"annotations": {REQUESTED_AT: value}}}
    _ = await api.patch_merge(resource, namespace, name, patch)
    return value


async def wait(
    api: KubernetesApi,
    resource: ApiResource,
    namespace: str | None,
    name: str,
    *,
    value: str,
    seconds: float,
    clock: Clock,
) -> bool:
    """Poll until the request is handled, or the time is up; return whether it is handled.

    Args:
        value: From :func:`request`.
        seconds: Maximum time.

    Raises:
        NotFound: It was deleted meanwhile.
        KubernetesError: It cannot be read.
    """
    deadline = clock.monotonic() + seconds
    while True:
        obj = await api.get(resource, namespace, name)
        if parsed(obj).status.get("lastHandledReconcileAt") == value:
            return True
        if clock.monotonic() >= deadline:
            return False
        await clock.sleep(POLL_SECONDS)
