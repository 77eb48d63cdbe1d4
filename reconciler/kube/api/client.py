"""The one translator to the Kubernetes API server: objects in, objects out, errors of ours. Decides nothing.

Objects are plain dicts as JSON has them. How often a request is tried is in ``exchange``, what a refusal means in
``refusals``. Watching is Kopf's (``watching``).
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from reconciler.base import bounded_json
from reconciler.base.protocols import Clock
from reconciler.errors import Gone, KubernetesError
from reconciler.kube.api import access as ways
from reconciler.kube.api.access import ApiAccess
from reconciler.kube.api.collection_pages import Keep, full_object, read_pages
from reconciler.kube.api.http_exchange import (
    LARGEST_ANSWER,
    ApiRequest,
    HttpExchange,
    HttpTransport,
    OnRequest,
    RequestTimeouts,
    silent,
)
from reconciler.kube.api.resource_paths import ACCESS_REVIEWS, EVENTS, ApiResource

Obj: TypeAlias = dict[str, Any]

LIST_RESTARTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """A whole collection at one moment.

    Attributes:
        items: The objects, in the server's order, without their managed fields.
        resource_version: The moment, opaque.
    """

    items: tuple[Obj, ...] = field(repr=False)
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessReview:
    """Whether we have a right; ``reason`` is the authorizer's word, often ""."""

    allowed: bool
    reason: str = ""


class KubernetesApi:
    """A connection to one API server. Make it inside a running loop; use it as a context, or close it.

    Namespaces are ``None`` for kinds without any. Every method raises ``NotFound``, ``Forbidden``, ``Conflict`` and
    ``Gone`` as the server said, ``KubernetesAway`` where no answer came in time or all tries got 429 or 5xx, and
    ``KubernetesError`` for any other refusal.
    """

    def __init__(
        self,
        access: ApiAccess,
        *,
        clock: Clock,
        on_request: OnRequest = silent,
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
        on_request: OnRequest = silent,
        patience: RequestTimeouts | None = None,
    ) -> Self:
        """By a kubeconfig, or as the pod that we are; see :func:`access.load`. Sends nothing yet.

        Raises:
            ConfigError: There is no way to an API server, or it cannot be read.
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

    @property
    def namespace(self) -> str:
        """Namespace of the kubeconfig's context, or of the pod."""
        return self._exchange.access.namespace

    # ---- reading ----------------------------------------------------------------------------

    async def get(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        patience: RequestTimeouts | None = None,
    ) -> Obj:
        """One object."""
        request = ApiRequest(verb="get", resource=resource, namespace=namespace, name=name)
        return await self._object(request, patience)

    async def list(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        *,
        limit: int = 500,
        labels: str = "",
        fields: str = "",
        keep: Keep = full_object,
    ) -> ListResult:
        """A whole collection, complete or an error: never a part of it.

        Args:
            resource: Of what.
            namespace: Where; ``None`` = in all namespaces.
            limit: Objects per page, fewer where they are large.
            labels: Label selector.
            fields: Field selector.
            keep: What is kept of each object; the rest of a page is gone before the next one is read.
        """
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = {key: value for key, value in selectors.items() if value}
        request = ApiRequest(verb="list", resource=resource, namespace=namespace, query=query)
        for _ in range(LIST_RESTARTS):
            try:
                return await self._list_pages(request, limit, keep)
            except Gone:
                # The continue token outlived the server's history; what was read so far is of another moment.
                continue
        return await self._list_pages(request, limit, keep)

    async def _list_pages(self, listing_request: ApiRequest, limit: int, keep: Keep) -> ListResult:
        items, version = await read_pages(
            lambda request: self._object(request, None, checks_depth=False),
            listing_request,
            limit=limit,
            keep=keep,
        )
        return ListResult(items=tuple(items), resource_version=version)

    async def review(
        self,
        resource: ApiResource,
        verb: str,
        *,
        namespace: str | None = None,
        name: str = "",
        subresource: str = "",
    ) -> AccessReview:
        """Whether we may do something; ``namespace=None`` asks about all namespaces (or the whole cluster)."""
        attributes = {
            "group": resource.group,
            "resource": resource.plural,
            "subresource": subresource,
            "verb": verb,
            "namespace": namespace or "",
            "name": name,
        }
        body = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        # Asking changes nothing, so it may be asked twice although it is a POST.
        request = ApiRequest(verb="create", resource=ACCESS_REVIEWS, body=_encoded(body))
        status = (await self._object(request, None)).get("status", {})
        return AccessReview(
            allowed=bool(status.get("allowed")),
            reason=str(status.get("reason") or status.get("evaluationError") or ""),
        )

    # ---- writing ----------------------------------------------------------------------------

    async def create(
        self,
        resource: ApiResource,
        namespace: str | None,
        body: Obj,
        *,
        patience: RequestTimeouts | None = None,
    ) -> Obj:
        """A new object. Not repeated where the first try may have been carried out.

        Raises:
            Conflict: It exists (``reason`` is ``AlreadyExists``).
        """
        request = ApiRequest(
            verb="create", resource=resource, namespace=namespace, repeatable=False
        )
        return await self._object(replace(request, body=_encoded(body)), patience)

    async def replace(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        body: Obj,
        *,
        patience: RequestTimeouts | None = None,
    ) -> Obj:
        """The object as given, if it was not changed since: ``metadata.resourceVersion`` must be in it.

        Raises:
            Conflict: It was changed; or the answer to an earlier try was lost and it was ours.
            ValueError: There is no ``resourceVersion``: this would overwrite blindly.
        """
        if not body.get("metadata", {}).get("resourceVersion"):
            raise ValueError("an object without resourceVersion is not replaced")
        request = ApiRequest(
            verb="update", resource=resource, namespace=namespace, name=name, body=_encoded(body)
        )
        return await self._object(request, patience)

    async def apply_status(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        body: Obj,
        *,
        field_manager: str,
        force: bool = True,
    ) -> Obj:
        """Server-side apply of the status.

        Args:
            resource: Of which kind.
            namespace: Where it is.
            name: Which object.
            body: ``apiVersion``, ``kind``, ``metadata`` with the name and ``status``. With
                ``metadata.resourceVersion`` it is refused (Conflict) if the object changed since; a uid is not looked at.
            field_manager: Who owns the fields.
            force: Take fields over from other managers instead of failing.
        """
        request = ApiRequest(
            verb="apply",
            resource=resource,
            namespace=namespace,
            name=name,
            subresource="status",
            query={"fieldManager": field_manager, "force": "true" if force else "false"},
            body=_encoded(body),
        )
        return await self._object(request, None)

    async def patch_json(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        operations: Sequence[Mapping[str, object]],
    ) -> Obj:
        """A JSON patch. Not repeated where the first try may have been carried out, unless it begins with a test.

        Raises:
            KubernetesError: Status 422: a ``test`` operation did not hold.
        """
        request = ApiRequest(
            verb="patch",
            resource=resource,
            namespace=namespace,
            name=name,
            body=_encoded(list(operations)),
            repeatable=bool(operations) and operations[0].get("op") == "test",
        )
        return await self._object(request, None)

    async def patch_merge(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        body: Obj,
        *,
        subresource: str = "",
    ) -> Obj:
        """A merge patch: what is given is set, ``None`` removes, everything else stays."""
        request = ApiRequest(verb="merge", resource=resource, namespace=namespace, name=name)
        request = replace(request, subresource=subresource, body=_encoded(body))
        return await self._object(request, None)

    async def delete(
        self, resource: ApiResource, namespace: str | None, name: str, *, uid: str = ""
    ) -> None:
        """Delete an object, or begin to where it has finalizers.

        Args:
            resource: Of which kind.
            namespace: Where it is.
            name: Which object.
            uid: Only if it still is this one.

        Raises:
            NotFound: It is gone already; perhaps by an earlier try of ours.
        """
        options: Obj = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        request = ApiRequest(
            verb="delete", resource=resource, namespace=namespace, name=name, body=_encoded(options)
        )
        _ = await self._object(request, None)

    async def create_event(
        self,
        regarding: Obj,
        *,
        kind: str,
        reason: str,
        action: str,
        note: str,
        at: str,
        controller: str,
        instance: str,
    ) -> Obj:
        """One Event (events.k8s.io). Of a cluster-scoped object it stands in the namespace ``default``.

        Args:
            regarding: The object it is about, with ``apiVersion``, ``kind`` and ``metadata``.
            kind: ``Normal`` or ``Warning``.
            reason: One word.
            action: What was done, one word.
            note: A sentence; cut to the 1,024 bytes that the server takes.
            at: RFC 3339 with microseconds.
            controller: Name of the kind of program.
            instance: Name of this process.
        """
        metadata = regarding.get("metadata", {})
        namespace = str(metadata.get("namespace") or "default")
        name = str(metadata.get("name", ""))
        copied_fields = ("name", "namespace", "uid", "resourceVersion")
        reference = {key: metadata[key] for key in copied_fields if metadata.get(key)}
        body = {
            "apiVersion": EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": f"{name[:230]}.{secrets.token_hex(8)}", "namespace": namespace},
            "eventTime": at,
            "reportingController": controller[:128],
            "reportingInstance": instance[:128],
            "action": action[:128],
            "reason": reason[:128],
            "regarding": {
                "apiVersion": regarding.get("apiVersion"),
                "kind": regarding.get("kind"),
                **reference,
            },
            "note": _cut(note, 1024),
            "type": kind,
        }
        return await self.create(EVENTS, namespace, body)

    async def _object(
        self, request: ApiRequest, patience: RequestTimeouts | None, *, checks_depth: bool = True
    ) -> Obj:
        body = await self._exchange.answer(request, patience or self._patience)
        try:
            document = bounded_json.parse(
                body, most_bytes=LARGEST_ANSWER, checks_depth=checks_depth
            )
        except bounded_json.InvalidJson:
            document = None
        if not isinstance(document, dict):
            raise KubernetesError(f"{request}: the answer is no JSON object")
        return document


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _cut(text: str, max_bytes: int) -> str:
    """At most so many bytes of UTF-8, never half a character."""
    encoded = text.encode()
    if len(encoded) <= max_bytes:
        return text
    return encoded[: max_bytes - 3].decode(errors="ignore") + "..."
