"""Sends one request to the API server, with retries if they are harmless. Every attempt has a time limit and is reported.

An error response becomes an error of the project. Only messages of the API server itself are passed on (a Status
object), never a proxy's page. Request bodies are never quoted, so that no Secret or token appears in an error.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlencode

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.base import bounded_json
from reconciler.base.http.client import HttpClient, Route
from reconciler.base.http.messages import HttpRequest, HttpResponse, NoResponse, NoResponseKind
from reconciler.base.http.retry import POLICIES, Failure, Peer, with_retries
from reconciler.base.protocols import Clock
from reconciler.base.redaction import QuietRepr
from reconciler.errors import (
    AnswerTooLarge,
    ConfigError,
    Forbidden,
    Gone,
    KubernetesConflict,
    KubernetesError,
    KubernetesUnavailable,
    NotFound,
)
from reconciler.kube.api.access import ApiAccess
from reconciler.kube.api.resource_paths import ApiResource

LONGEST_MESSAGE: Final = 2000

_KINDS: Final[Mapping[int, type[KubernetesError]]] = {
    403: Forbidden,
    404: NotFound,
    409: KubernetesConflict,
    410: Gone,
    429: KubernetesUnavailable,
}
_HINTS: Final = {
    401: "the token or certificate is not valid any more, or belongs to another cluster",
    403: "compare the operator's Roles with those of the chart",
}


def refusal(action: str, status: int, body: bytes) -> KubernetesError:
    """Return the error for a response of 300 or more.

    Args:
        action: The request in words, for example ``get secrets kafka/prod``.
        body: The body, in any format.
    """
    status_fields = _status_object(body)
    words = " ".join(str(status_fields.get("message") or "").split())[:LONGEST_MESSAGE]
    kind = _KINDS.get(status, KubernetesUnavailable if status >= 500 else KubernetesError)
    return kind(
        f"{action}: {words}" if words else f"{action}: the API server answered {status}",
        status=status,
        reason=str(status_fields.get("reason") or ""),
        hint=_HINTS.get(status, ""),
    )


def _status_object(body: bytes) -> Mapping[str, Any]:
    try:
        document = bounded_json.parse(body, most_bytes=bounded_json.ANSWER)
    except ValueError:
        return {}
    return document if isinstance(document, dict) and document.get("kind") == "Status" else {}


OnRequest: TypeAlias = Callable[[str, str, str], None]
"""``on_request(verb, resource, code)`` after every attempt; code is the HTTP status, ``timeout`` or ``unreachable``."""

LARGEST_ANSWER: Final = 128 * 1024 * 1024
LONGEST_WAIT: Final = 10.0
"""Maximum seconds to wait if the server requests a longer pause."""

_RETRY: Final = POLICIES[Peer.KUBERNETES]
_TIMEOUTS: Final = frozenset({NoResponseKind.TIMEOUT, NoResponseKind.CONNECT_TIMEOUT})


_METHODS: Final = {"get": "GET", "list": "GET", "create": "POST", "update": "PUT"}
_PATCHES: Final = {
    "apply": "application/apply-patch+yaml",  # JSON is YAML
    "patch": "application/json-patch+json",
    "merge": "application/merge-patch+json",
}


class RequestTimeouts(Struct, frozen=True, kw_only=True):
    """Time limits of a request."""

    seconds: float = 15.0  # maximum time of one attempt
    tries: int = 4  # maximum number of attempts, if repeating is harmless


class ApiRequest(QuietRepr, Struct, frozen=True, kw_only=True):
    """One request, which can be sent any number of times."""

    verb: str  # one of get, list, create, update, apply, patch (JSON patch) and merge
    resource: ApiResource  # the kind
    namespace: str | None = None  # None = all namespaces, or cluster-scoped
    name: str = ""  # "" = the collection
    subresource: str = ""  # for example `status`
    query: Mapping[str, str] = field(default_factory=dict)  # Parameters
    body: bytes | None = None  # the body; it may contain secrets
    largest: int = LARGEST_ANSWER  # maximum bytes of a response
    # Whether a retry is harmless although an earlier attempt may have been executed.
    repeatable: bool = True

    @property
    def label(self) -> str:
        """The resource, as in metrics and messages."""
        plural = self.resource.plural
        return f"{plural}/{self.subresource}" if self.subresource else plural

    def __str__(self) -> str:
        location = "/".join(part for part in (self.namespace, self.name) if part)
        return " ".join(part for part in (self.verb, self.label, location) if part)


class HttpTransport(Protocol):
    """Sends one request. Implemented by ``base.http.client.HttpClient``."""

    async def send(
        self, request: HttpRequest, *, route: Route | None = None
    ) -> HttpResponse | NoResponse:
        """Send a request once; the caller bounds the time."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpExchange:
    """Connections to one API server. Create it inside a running loop.

    Args:
        on_request: Called after every attempt.
        transport: Sends requests; ``None`` = over HTTP.
    """

    def __init__(
        self,
        access: ApiAccess,
        *,
        clock: Clock,
        on_request: OnRequest = lambda *_: None,
        transport: HttpTransport | None = None,
    ) -> None:
        self.access = access
        self._clock = clock
        self._on_request = on_request
        # No limit of connections: callers limit their own concurrency, and a Lease must not queue behind statuses.
        self._http: HttpTransport = transport or HttpClient(
            seconds=None,
            headers={
                "Accept": "application/json",
                # Compressing a listing takes the API server 60 % more CPU than encoding it.
                "Accept-Encoding": "identity",
                "User-Agent": "kquota",
            },
            connections=0,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def answer(self, request: ApiRequest, patience: RequestTimeouts) -> bytes:
        """Return the body of a successful response.

        Raises:
            KubernetesError: The last attempt's error.
            KubernetesUnavailable: The last attempt got no response, or the credentials cannot be read at present.
        """

        async def attempt(seconds: float) -> bytes | Failure:
            try:
                answer = await self._try(request, min(seconds, patience.seconds))
            except ConfigError as fault:
                # A token that is being replaced, or a plugin of the kubeconfig: the next request reads it again.
                unreadable = KubernetesUnavailable(f"{request}: {fault.message}", hint=fault.hint)
                return Failure(error=unreadable, is_retriable=False)
            if isinstance(answer, NoResponse):
                return _failure(request, answer)
            if answer.is_success:
                return answer.body
            error = refusal(str(request), answer.status, answer.body)
            # 429 is sent before the request is executed, so even a request that is not repeatable may be repeated.
            harmless = request.repeatable or answer.status == 429
            return Failure(
                error=error,
                is_retriable=isinstance(error, KubernetesUnavailable) and harmless,
                wait=min(answer.retry_after(self._clock.now()) or 0.0, LONGEST_WAIT),
            )

        policy = replace(_RETRY, tries=patience.tries)
        return await with_retries(attempt, policy, clock=self._clock)

    async def _try(self, request: ApiRequest, seconds: float) -> HttpResponse | NoResponse:
        code = "unreachable"
        try:
            async with asyncio.timeout(seconds):
                answer = await self._send(request)
            code = _code(answer)
        except TimeoutError:
            code = "timeout"
            return NoResponse(kind=NoResponseKind.TIMEOUT, text=f"no answer within {seconds:g} s")
        else:
            return answer
        finally:
            self._on_request(request.verb, request.label, code)

    async def _send(self, request: ApiRequest) -> HttpResponse | NoResponse:
        access = self.access
        path = request.resource.path(
            namespace=request.namespace or "", name=request.name, subresource=request.subresource
        )
        content_type = _PATCHES.get(request.verb, "application/json")
        headers = {} if request.body is None else {"Content-Type": content_type}
        authorization = await access.authorization()
        if authorization:
            headers["Authorization"] = authorization
        query = f"?{urlencode(dict(request.query))}" if request.query else ""
        return await self._http.send(
            HttpRequest(
                method=_METHODS.get(request.verb, "PATCH"),
                url=f"{access.host}{path}{query}",
                headers=headers,
                body=request.body,
                max_bytes=request.largest,
                is_encoded=True,
            ),
            route=Route(
                tls=access.tls, server_name=access.server_name or "", proxy=access.proxy or ""
            ),
        )


def _code(answer: HttpResponse | NoResponse) -> str:
    if isinstance(answer, HttpResponse):
        return str(answer.status)
    return "timeout" if answer.kind in _TIMEOUTS else "unreachable"


def _failure(request: ApiRequest, answer: NoResponse) -> Failure:
    if answer.kind is NoResponseKind.TOO_LARGE:
        return Failure(error=AnswerTooLarge(f"{request}: {answer.text}"), is_retriable=False)
    words = answer.text if answer.kind in _TIMEOUTS else f"no answer: {answer.text}"
    error = KubernetesUnavailable(f"{request}: {words}")
    return Failure(error=error, is_retriable=request.repeatable)
