"""One request to the API server, tried as often as does no harm. HTTP only; meaning is `refusals`, methods are `api`.

Every try has a time limit and is reported to a hook. Redirects are not followed: they would carry the token elsewhere.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import aiohttp
from yarl import URL

from reconciler.base.protocols import Clock
from reconciler.base.redaction import redact_urls
from reconciler.errors import AnswerTooLarge, KubernetesUnavailable
from reconciler.kube.api.access import ApiAccess
from reconciler.kube.api.error_responses import refusal, wait_asked
from reconciler.kube.api.resource_paths import ApiResource

OnRequest: TypeAlias = Callable[[str, str, str], None]
"""``on_request(verb, resource, code)`` after every try; code is the HTTP status, ``timeout`` or ``unreachable``."""

LARGEST_ANSWER: Final = 128 * 1024 * 1024
_BACKOFFS: Final = (0.2, 0.5, 1.0, 2.0)


class _VerbRule(NamedTuple):
    method: str
    kind: str = "application/json"


_WAYS: Final[Mapping[str, _VerbRule]] = {
    "get": _VerbRule("GET"),
    "list": _VerbRule("GET"),
    "create": _VerbRule("POST"),
    "update": _VerbRule("PUT"),
    "delete": _VerbRule("DELETE"),
    "apply": _VerbRule("PATCH", "application/apply-patch+yaml"),  # JSON is YAML
    "patch": _VerbRule("PATCH", "application/json-patch+json"),
    "merge": _VerbRule("PATCH", "application/merge-patch+json"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimeouts:
    """How long a request may take.

    Attributes:
        seconds: Longest time of one try.
        tries: How many, where another one can do no harm.
    """

    seconds: float = 15.0
    tries: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request, ready to be sent any number of times.

    Attributes:
        verb: One of get, list, create, update, delete, apply, patch (JSON patch) and merge.
        resource: Of which kind.
        namespace: ``None`` = all namespaces, or none.
        name: "" = the collection.
        subresource: For example ``status``.
        query: Parameters.
        body: What is sent; it may hold secrets.
        largest: Most bytes of an answer.
        repeatable: Whether another try is harmless although an earlier one may have been carried out.
    """

    verb: str
    resource: ApiResource
    namespace: str | None = None
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    largest: int = LARGEST_ANSWER
    repeatable: bool = True

    @property
    def label(self) -> str:
        """The resource, as metrics and messages call it."""
        plural = self.resource.plural
        return f"{plural}/{self.subresource}" if self.subresource else plural

    def __str__(self) -> str:
        location = "/".join(part for part in (self.namespace, self.name) if part)
        return " ".join(part for part in (self.verb, self.label, location) if part)


class _ApiResponse(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None


def silent(verb: str, resource: str, code: str) -> None:
    """An :data:`OnRequest` that does nothing."""


class HttpExchange:
    """Connections to one API server. Made inside a running loop."""

    def __init__(self, access: ApiAccess, *, clock: Clock, on_request: OnRequest) -> None:
        self.access = access
        self._clock = clock
        self._on_request = on_request
        # No limit of connections: callers bound their own concurrency, and a Lease must not queue behind statuses.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=75),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            headers={"Accept": "application/json", "User-Agent": "kquota"},
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def answer(self, request: ApiRequest, patience: RequestTimeouts) -> bytes:
        """The body of a success.

        Raises:
            KubernetesError: As ``refusals`` reads the last try.
            KubernetesAway: The last try had no answer.
        """
        renewed = False
        attempt = 0
        while True:
            attempt += 1
            backoff = _BACKOFFS[min(attempt, len(_BACKOFFS)) - 1]
            try:
                answer = await self._try(request, patience.seconds)
            except KubernetesUnavailable:
                if not request.repeatable or attempt >= patience.tries:
                    raise
                await self._clock.sleep(backoff)
                continue
            if answer.status < 300:
                return answer.body
            if answer.status == 401 and self.access.again is not None and not renewed:
                renewed = True
                self.access = await self.access.again()
                continue
            error = refusal(str(request), answer.status, answer.body)
            # 429 is said before anything was done, so even what is not repeatable may be repeated.
            again = error.retriable and isinstance(error, KubernetesUnavailable)
            if not (again and (request.repeatable or answer.status == 429)):
                raise error
            if attempt >= patience.tries:
                raise error
            await self._clock.sleep(wait_asked(answer.retry_after, backoff))

    async def _try(self, request: ApiRequest, seconds: float) -> _ApiResponse:
        code = "unreachable"
        try:
            async with asyncio.timeout(seconds):
                answer = await self._send_once(request)
            code = str(answer.status)
        except TimeoutError:
            code = "timeout"
            raise KubernetesUnavailable(f"{request}: no answer within {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise KubernetesUnavailable(f"{request}: no answer: {_error_text(error)}") from None
        else:
            return answer
        finally:
            self._on_request(request.verb, request.label, code)

    async def _send_once(self, request: ApiRequest) -> _ApiResponse:
        access, way = self.access, _WAYS[request.verb]
        path = request.resource.path(
            namespace=request.namespace or "", name=request.name, subresource=request.subresource
        )
        headers = {"Content-Type": way.kind} if request.body is not None else {}
        authorization = await access.authorization()
        if authorization:
            headers["Authorization"] = authorization
        async with self._session.request(
            way.method,
            URL(access.host + path, encoded=True).with_query(dict(request.query)),
            data=request.body,
            headers=headers,
            ssl=access.tls if access.tls is not None else True,
            server_hostname=access.server_name,
            proxy=access.proxy,
            allow_redirects=False,
        ) as response:
            body = await _bounded(response, request)
            return _ApiResponse(response.status, body, response.headers.get("Retry-After"))


async def _bounded(response: aiohttp.ClientResponse, request: ApiRequest) -> bytes:
    """The whole body, unpacked, if it is not larger than was allowed."""
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > request.largest:
            raise AnswerTooLarge(f"{request}: the answer is larger than {request.largest} bytes")
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _error_text(error: Exception) -> str:
    """What went wrong, without URL and headers, in one line."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate is not accepted: {error.certificate_error}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(redact_urls(str(error)).split())[:300] or type(error).__name__
