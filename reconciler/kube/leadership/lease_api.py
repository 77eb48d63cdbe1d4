"""The part of the API server's client that the election uses: one Lease is read, created and replaced."""

from typing import Protocol

from reconciler.kube.api.client import Obj
from reconciler.kube.api.http_exchange import RequestTimeouts
from reconciler.kube.api.resource_paths import ApiResource


class LeaseApi(Protocol):
    """The part of :class:`reconciler.kube.api.client.KubernetesApi` that is used here."""

    async def get(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        patience: RequestTimeouts | None,
    ) -> Obj:
        """Read one object."""
        ...

    async def create(
        self,
        resource: ApiResource,
        namespace: str | None,
        body: Obj,
        *,
        patience: RequestTimeouts | None,
    ) -> Obj:
        """Create an object."""
        ...

    async def replace(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        body: Obj,
        *,
        patience: RequestTimeouts | None,
    ) -> Obj:
        """Replace an object, if it was not changed since."""
        ...
