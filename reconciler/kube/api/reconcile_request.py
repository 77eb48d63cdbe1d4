"""Requests a reconciliation of one resource from the operator, and waits until it is handled. For people and pipelines.

The request is an annotation with a unique value; the operator copies that value into the status after a
reconciliation that saw it. Clocks are not compared.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from reconciler.base.protocols import Clock
from reconciler.kube.api.client import KubernetesApi
from reconciler.kube.api.custom_resources import REQUESTED_AT, Obj, parsed
from reconciler.kube.api.resource_paths import ApiResource

POLL_SECONDS: Final = 0.5


class RequestStatus(Struct, frozen=True, kw_only=True):
    """The state of a requested reconciliation."""

    obj: Obj  # the resource as last read
    handled: bool  # whether the operator has handled the request

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """Its conditions, as the operator wrote them."""
        conditions = parsed(self.obj).status.get("conditions")
        return (
            [condition for condition in conditions if isinstance(condition, dict)]
            if isinstance(conditions, list)
            else []
        )


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
    looked: Callable[[Obj], None] = lambda _: None,
) -> RequestStatus:
    """Poll until the request is handled, or the time is up.

    Args:
        value: From :func:`request`.
        seconds: Maximum time.
        looked: Called with the resource after each read.

    Raises:
        NotFound: It was deleted meanwhile.
        KubernetesError: It cannot be read.
    """
    deadline = clock.monotonic() + seconds
    while True:
        obj = await api.get(resource, namespace, name)
        looked(obj)
        if parsed(obj).status.get("lastHandledReconcileAt") == value:
            return RequestStatus(obj=obj, handled=True)
        if clock.monotonic() >= deadline:
            return RequestStatus(obj=obj, handled=False)
        await clock.sleep(POLL_SECONDS)
