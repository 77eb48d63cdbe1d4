"""One bounded JSON client for code hosts: deadlines, sizes, retries, rate limits, pages. No knowledge of any host."""

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias
from urllib.parse import urlsplit

import aiohttp

from reconciler.base import bounded_json
from reconciler.base.protocols import Clock
from reconciler.base.redaction import redact_url, redact_urls
from reconciler.errors import ForgeError, UsageError
from reconciler.forge.responses import ForgeResponse, failure, next_page
from reconciler.forge.token import ForgeToken

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

PAGE: Final = 30
"""Items of a page: 30 comments of 65,536 characters, each escaped as twelve bytes, stay below the largest answer."""

_REPEATABLE: Final = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Methods that may be sent again although the first try may have been carried out. POST would comment twice."""

_BREATHERS: Final = (1.0, 2.0, 4.0)
"""Seconds before the second, third and fourth try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestLimits:
    """What one client may cost.

    Attributes:
        connect_seconds: For a connection.
        total_seconds: For one try, answer included.
        wait_seconds: Longest sum of waits that a host may ask for.
        answer_bytes: Largest answer.
        pages: Most pages of one list.
    """

    connect_seconds: float = 10.0
    total_seconds: float = 30.0
    wait_seconds: float = 180.0
    answer_bytes: int = 32 * 1024 * 1024
    pages: int = 100


BOUNDS: Final = RestLimits()


def checked_address(address: str) -> str:
    """The base address of an API without a slash at its end.

    Raises:
        UsageError: It is none, holds a login, or would send a token over an open line.
    """
    split = urlsplit(address)
    if split.scheme not in {"http", "https"} or not split.hostname:
        raise UsageError(
            f"{redact_url(address)!r} is no address of an API",
            hint="such as https://api.github.com",
        )
    if split.username is not None or split.query or split.fragment:
        raise UsageError("the address of an API has no login, query or fragment in it")
    if split.scheme == "http" and not _is_loopback(split.hostname):
        raise UsageError(
            f"{redact_url(address)} would send the token over an open line", hint="use https"
        )
    return address.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RestClient:
    """A client of one API between ``__aenter__`` and ``__aexit__``.

    Args:
        address: Base address; see :func:`checked_address`.
        headers: Sent with every request.
        clock: Time as an argument.
        token: What is kept out of every message. The header that carries it is the caller's.
        authorization: Name of the header and what stands before the token in it.
        bounds: What it may cost.
    """

    def __init__(
        self,
        address: str,
        *,
        headers: Mapping[str, str],
        clock: Clock,
        token: ForgeToken | None,
        authorization: tuple[str, str] = ("Authorization", "Bearer "),
        bounds: RestLimits = BOUNDS,
    ) -> None:
        self._address = checked_address(address)
        self._headers = dict(headers)
        self._clock = clock
        self._token = token
        self._authorization = authorization
        self._bounds = bounds
        self._waited = 0.0
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(
                total=self._bounds.total_seconds, connect=self._bounds.connect_seconds
            ),
            trust_env=True,  # runners behind a proxy say so by HTTPS_PROXY
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, *, query: Mapping[str, str] | None = None) -> Json:
        """What stands at a path."""
        return _decoded(await self._answered("GET", self._at(path), query=query), path)

    async def send(self, method: str, path: str, body: Mapping[str, Json] | None = None) -> Json:
        """Write something; ``None`` where the answer has no content.

        Raises:
            ForgeError: ``unsure`` says that a POST may have been carried out although no answer came.
        """
        answer = await self._answered(method, self._at(path), body=body)
        return None if answer.status == 204 or not answer.body else _decoded(answer, path)

    async def items(
        self, path: str, *, query: Mapping[str, str] | None = None, field: str = ""
    ) -> AsyncIterator[dict[str, Json]]:
        """Every object of a list, page by page.

        Args:
            path: Where the list is.
            query: Further parameters.
            field: Where the list is a field of an object: its name.

        Raises:
            ForgeError: The list is no list of objects, or longer than we read.
        """
        url: str | None = self._at(path)
        parameters: Mapping[str, str] | None = {"per_page": str(PAGE)} | dict(query or {})
        for _ in range(self._bounds.pages):
            assert url is not None  # noqa: S101 - the loop ends where the pages do
            answer = await self._answered("GET", url, query=parameters)
            page = _decoded(answer, path)
            if field:
                page = page.get(field) if isinstance(page, dict) else None
            if not isinstance(page, list):
                raise ForgeError(f"GET {path} did not answer with a list")
            for item in page:
                if not isinstance(item, dict):
                    raise ForgeError(f"GET {path} did not answer with a list of objects")
                yield item
            url = next_page(answer, url)
            parameters = None  # the next address has them all
            if url is None:
                return
        raise ForgeError(
            f"GET {path} has more than {self._bounds.pages * PAGE:,} items, which is more than we look through"
        )

    async def download(self, path: str, *, max_bytes: int) -> bytes:
        """A file that the API leads to by a redirect to a signed address, which must not get our token.

        Raises:
            ForgeError: It is not there, or larger than ``max_bytes`` bytes.
        """
        answer = await self._answered("GET", self._at(path), max_bytes=max_bytes, fine=(200, 302))
        if answer.status == 200:
            return answer.body
        target = answer.headers.get("location", "")
        split = urlsplit(target)
        if split.scheme != "https" and not (split.hostname and _is_loopback(split.hostname)):
            raise ForgeError(f"GET {path} leads to an address that is not https")
        return (await self._answered("GET", target, max_bytes=max_bytes, open_=True)).body

    def _at(self, path: str) -> str:
        return f"{self._address}/{path.lstrip('/')}"

    async def _answered(
        self,
        method: str,
        address: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Json] | None = None,
        max_bytes: int = 0,
        fine: tuple[int, ...] = (200, 201, 204),
        open_: bool = False,
    ) -> ForgeResponse:
        """An answer of one of the ``fine`` kinds, after as many tries as may help."""
        request = f"{method} {urlsplit(address).path}"
        breathers = iter(_BREATHERS)
        while True:
            try:
                answer = await self._tried(method, address, query, body, max_bytes, open_=open_)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                pause = next(breathers, None)
                connected = not isinstance(error, aiohttp.ClientConnectorError)
                if pause is None or (connected and method not in _REPEATABLE):
                    raise self._unreachable(
                        request, error, unsure=connected and method == "POST"
                    ) from error
                await self._clock.sleep(pause)
                continue
            if answer.status in fine:
                return answer
            wrong = failure(answer, request, self._token)
            if answer.is_limit:
                await self._wait(answer, wrong)
                continue
            pause = next(breathers, None) if answer.status >= 500 else None
            if pause is None or method not in _REPEATABLE:
                wrong.unsure = answer.status >= 500 and method == "POST"
                raise wrong
            await self._clock.sleep(pause)

    async def _wait(self, answer: ForgeResponse, wrong: ForgeError) -> None:
        """Wait as long as the host asks for, if that is not too long.

        Raises:
            ForgeError: It is.
        """
        seconds = answer.wait(self._clock.now())
        self._waited += seconds
        if self._waited > self._bounds.wait_seconds:
            wrong.hint = f"the host wants us to wait {seconds:.0f} s; that is longer than we do"
            raise wrong
        await self._clock.sleep(seconds)

    async def _tried(
        self,
        method: str,
        address: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Json] | None,
        max_bytes: int,
        *,
        open_: bool,
    ) -> ForgeResponse:
        assert self._session is not None, "used outside its context"  # noqa: S101 - our own slip
        headers = {} if open_ else dict(self._headers)
        if self._token is not None and not open_:
            name, before = self._authorization
            headers[name] = before + self._token.reveal()
        content = None
        if body is not None:
            content = json.dumps(body, ensure_ascii=True).encode()
            headers["Content-Type"] = "application/json"
        limit = max_bytes or self._bounds.answer_bytes
        async with self._session.request(
            method, address, params=query, data=content, headers=headers, allow_redirects=False
        ) as response:
            parts, size = [], 0
            async for part in response.content.iter_chunked(65_536):
                size += len(part)
                if size > limit:
                    raise ForgeError(
                        f"the answer to {method} {urlsplit(address).path} is larger than {limit:,} bytes"
                    )
                parts.append(part)
            lower = {name.lower(): value for name, value in response.headers.items()}
            return ForgeResponse(status=response.status, headers=lower, body=b"".join(parts))

    def _unreachable(self, request: str, error: BaseException, *, unsure: bool) -> ForgeError:
        words = redact_urls(str(error)) or type(error).__name__
        if isinstance(error, TimeoutError | asyncio.TimeoutError):
            words = f"no answer within {self._bounds.total_seconds:.0f} s"
        if self._token is not None:
            words = self._token.hidden_in(words)
        return ForgeError(
            f"{request} at {urlsplit(self._address).netloc} failed: {words}",
            unsure=unsure,
            may_work_later=True,
            hint="check the address of the API (--api-url), the network and the proxy",
        )


def _decoded(answer: ForgeResponse, path: str) -> Json:
    try:
        document: Json = bounded_json.parse(answer.body, most_bytes=bounded_json.DOCUMENT)
    except bounded_json.InvalidJson as error:
        raise ForgeError(
            f"{path} answered with something that is no JSON",
            status=answer.status,
            hint="is this the address of an API? (--api-url)",
        ) from error
    return document
