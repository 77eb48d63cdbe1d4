"""What an election needs of the API server: one Lease, read, made and replaced."""

from typing import Protocol

from reconciler.kube.api.client import Obj
from reconciler.kube.api.http_exchange import RequestTimeouts
from reconciler.kube.api.resource_paths import ApiResource


class LeaseApi(Protocol):
    """What is needed of :class:`reconciler.kube.api.client.KubernetesApi`."""

    async def get(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        patience: RequestTimeouts | None,
    ) -> Obj:
        """One object."""
        ...

    async def create(
        self,
        resource: ApiResource,
        namespace: str | None,
        body: Obj,
        *,
        patience: RequestTimeouts | None,
    ) -> Obj:
        """A new object."""
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
        """An object, if it was not changed since."""
        ...
