"""A client of the Kubernetes API server that maps responses to the project's errors. Contains no domain logic.

Objects are plain dicts as in JSON. ``http_exchange`` implements retries and maps errors. Watching is Kopf's (``watch``).
"""

import contextlib
import json
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from msgspec.structs import replace

from reconciler.base import bounded_json
from reconciler.base.protocols import Clock
from reconciler.errors import AnswerTooLarge, KubernetesError, KubernetesUnavailable
from reconciler.kube.api import access as ways
from reconciler.kube.api.access import ApiAccess
from reconciler.kube.api.collection_pages import Keep, ListResult, full_object, read_collection
from reconciler.kube.api.custom_resources import FIELD_MANAGER, Obj
from reconciler.kube.api.http_exchange import (
    LARGEST_ANSWER,
    ApiRequest,
    HttpExchange,
    HttpTransport,
    OnRequest,
    RequestTimeouts,
)
from reconciler.kube.api.resource_paths import ApiResource

CACHED_SECONDS: Final = 60.0
"""Maximum time of a listing from memory: it is one response, whatever its size."""

_LOG: Final = logging.getLogger("reconciler.kube")

_MANAGED: Final = {"fieldManager": FIELD_MANAGER}
"""Without it the API server names the manager of a write after the client's User-Agent."""


class KubernetesApi:
    """A connection to one API server. Create it inside a running loop; use it as a context, or close it.

    The namespace is ``None`` for cluster-scoped kinds. Every method raises the error of the server's status,
    ``KubernetesUnavailable`` if no response came in time or all attempts got 429 or 5xx, else ``KubernetesError``.
    """

    def __init__(
        self,
        access: ApiAccess,
        *,
        clock: Clock,
        on_request: OnRequest = lambda *_: None,
        patience: RequestTimeouts | None = None,
        transport: HttpTransport | None = None,
    ) -> None:
        self._exchange = HttpExchange(
            access, clock=clock, on_request=on_request, transport=transport
        )
        self._patience = patience or RequestTimeouts()

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None = None,
        *,
        clock: Clock,
        on_request: OnRequest = lambda *_: None,
        patience: RequestTimeouts | None = None,
    ) -> Self:
        """Create a client from a kubeconfig or the pod's service account, see :func:`access.load`. Sends nothing yet.

        Raises:
            ConfigError: There are no credentials, or they cannot be read.
        """
        access = await ways.load(kubeconfig)
        return cls(access, clock=clock, on_request=on_request, patience=patience)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._exchange.close()

    # ---- reading ----------------------------------------------------------------------------

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> Obj:
        """Read one object."""
        return await self._object("get", resource, namespace, name)

    async def list(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        limit: int = 500,
        labels: str = "",
        fields: str = "",
        keep: Keep = full_object,
        at_least: str = "",
    ) -> ListResult:
        """List a whole collection; raises an error instead of returning a part.

        Args:
            namespace: The namespace; ``None`` = all namespaces.
            limit: Objects per page, fewer if they are large.
            labels: Label selector.
            fields: Field selector.
            keep: Returns what is kept of each object, given as its text.
            at_least: List what the API server has in memory, in one response, once it is as new as this resource version
                (0 = any); in pages if this takes too long or is too large. "" = list the newest state in pages.
        """
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = {name: selector for name, selector in selectors.items() if selector}
        request = ApiRequest(verb="list", resource=resource, namespace=namespace, query=query)
        if at_least:
            patience = replace(self._patience, tries=1, seconds=CACHED_SECONDS)
            send = partial(self._exchange.answer, patience=patience)
            version = {"resourceVersion": at_least, "resourceVersionMatch": "NotOlderThan"}
            cached = replace(request, query={**query, **version})
            try:
                return await read_collection(send, cached, keep=keep, limit=0)
            except (AnswerTooLarge, KubernetesUnavailable) as error:
                _LOG.warning("listed in pages instead: %s", error)
        send = partial(self._exchange.answer, patience=self._patience)
        return await read_collection(send, request, keep=keep, limit=limit)

    # ---- writing ----------------------------------------------------------------------------

    async def create(self, resource: ApiResource, namespace: str | None, body: Obj) -> Obj:
        """Create an object. Not repeated if the first attempt may have been executed.

        Raises:
            KubernetesConflict: It exists (``reason`` is ``AlreadyExists``).
        """
        return await self._object(
            "create", resource, namespace, body=body, query=_MANAGED, repeatable=False
        )

    async def replace(
        self, resource: ApiResource, namespace: str | None, name: str, body: Obj
    ) -> Obj:
        """Replace an object if it was not changed since: ``metadata.resourceVersion`` is required.

        Raises:
            KubernetesConflict: It was changed; possibly by an earlier attempt whose response was lost.
            ValueError: There is no ``resourceVersion``: the write would overwrite other changes.
        """
        if not body.get("metadata", {}).get("resourceVersion"):
            raise ValueError("an object without resourceVersion is not replaced")
        return await self._object("update", resource, namespace, name, body=body, query=_MANAGED)

    async def apply_status(
        self, resource: ApiResource, namespace: str | None, name: str, body: Obj
    ) -> Obj:
        """Write the status with server-side apply; fields are taken over from other managers.

        Args:
            body: ``apiVersion``, ``kind``, ``metadata`` with the name and ``status``. With ``metadata.resourceVersion``
                it is refused (KubernetesConflict) if the object changed since; a uid is not checked.
        """
        return await self._object(
            "apply",
            resource,
            namespace,
            name,
            body=body,
            subresource="status",
            query={**_MANAGED, "force": "true"},
        )

    async def patch_json(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, object]],
    ) -> Obj:
        """Apply a JSON patch. Not repeated if the first attempt may have been executed, unless it begins with a test.

        Raises:
            KubernetesError: Status 422: a ``test`` operation failed.
        """
        return await self._object(
            "patch",
            resource,
            namespace,
            name,
            body=list(operations),
            query=_MANAGED,
            repeatable=bool(operations) and operations[0].get("op") == "test",
        )

    async def patch_merge(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        body: Obj,
        *,
        subresource: str = "",
    ) -> Obj:
        """Apply a merge patch: given fields are set, ``None`` removes, everything else stays."""
        return await self._object(
            "merge", resource, namespace, name, body=body, subresource=subresource
        )

    async def _object(
        self,
        verb: str,
        resource: ApiResource,
        namespace: str | None,
        name: str = "",
        *,
        body: object = None,
        subresource: str = "",
        query: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> Obj:
        request = ApiRequest(
            verb=verb,
            resource=resource,
            namespace=namespace,
            name=name,
            subresource=subresource,
            query=query or {},
            body=None if body is None else _encoded(body),
            repeatable=repeatable,
        )
        answer, document = await self._exchange.answer(request, self._patience), None
        with contextlib.suppress(bounded_json.InvalidJson):
            document = bounded_json.parse(answer, most_bytes=LARGEST_ANSWER)
        if not isinstance(document, dict):
            raise KubernetesError(f"{request}: the answer is no JSON object")
        return document


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
