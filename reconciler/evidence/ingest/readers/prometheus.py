"""A client of the Prometheus HTTP API: what there is, and raw samples. Deadlines, sizes, retries; the server's own words."""

import email.utils
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import aiohttp

from reconciler.base import bounded_json
from reconciler.base.protocols import Clock
from reconciler.errors import TelemetryError, TelemetryUnavailable
from reconciler.evidence.ingest.readers.environment_proxy import proxy_for
from reconciler.evidence.ingest.readers.http_config import HttpConfig
from reconciler.evidence.ingest.readers.response_series import series_of
from reconciler.evidence.ingest.readers.series import (
    OutcomeCounts,
    RecordedSeries,
    SeriesOutcome,
)

_LATER: Final = frozenset({429, 500, 502, 503, 504})
_SPLIT_WORDS: Final = ("too many samples", "exceeded maximum resolution", "limit", "exceeds", "max-chunks", "max-series",
                       "too large", "max number", "time range", "maximum")  # fmt: skip
_SLOW_STATUSES: Final = frozenset({408, 504})
_SLOW_WORDS: Final = ("timed out", "timeout", "deadline exceeded")
_SLOW_TRIES: Final = 3
"""So many tries in a row, of whatever query, may take too long before the query is held to be too much."""

_HINTS: Final[dict[int, str]] = {
    400: "the server could not read the query: check telemetry.matchers",
    401: "give credentials with --http-config",
    403: "these credentials may not query: check --http-config and the tenant's header",
    404: "is telemetry.prometheus the address of the API, with its path, such as http://mimir/prometheus?",
}
_BREATHERS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
_MOST_WORDS: Final = 300


class ResponseTooLarge(TelemetryError):
    """The answer, or the work for it, is more than the server or we allow: ask for less at once."""


class ResponseTooSlow(ResponseTooLarge, TelemetryUnavailable):
    """It took longer than the server or we wait, again and again: ask for less at once, or later."""


class _AttemptTimeout(TelemetryUnavailable):
    """One try took too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusLimits:
    """What one client may cost.

    Attributes:
        connect_seconds: For a connection.
        total_seconds: For one try, answer included.
        wait_seconds: Longest single wait that a server may ask for.
        answer_bytes: Largest answer; a larger one is asked for in parts.
        answer_items: Most arrays, objects and values in it (three for each sample), likewise.
    """

    connect_seconds: float = 10.0
    total_seconds: float = 180.0
    wait_seconds: float = 120.0
    answer_bytes: int = bounded_json.DOCUMENT
    answer_items: int = 10_000_000


BOUNDS: Final = PrometheusLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class _PrometheusResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes


class PrometheusClient:
    """A server between ``__aenter__`` and ``__aexit__``. Thanos, Mimir, Cortex and VictoriaMetrics speak the same.

    Args:
        address: Base address, ``/api/v1`` not included.
        clock: Time as an argument.
        config: Authorization, TLS and headers.
        bounds: What it may cost.
        counts: Where retries, warnings and everything that is left out is counted.
    """

    def __init__(
        self,
        address: str,
        *,
        clock: Clock,
        config: HttpConfig | None = None,
        bounds: PrometheusLimits = BOUNDS,
        counts: OutcomeCounts | None = None,
    ) -> None:
        self.counts = OutcomeCounts() if counts is None else counts
        self._config = HttpConfig() if config is None else config
        self._address = _checked(address, self._config)
        self.shown = urlsplit(self._address).netloc
        self._clock = clock
        self._bounds = bounds
        is_loopback = _loopback(urlsplit(self._address).hostname or "")
        self._proxy = self._config.proxy or ("" if is_loopback else proxy_for(self._address))
        login = urlsplit(self._proxy).password
        if login:
            self._config = replace(self._config, secrets=(*self._config.secrets, login))
        self._late = 0
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(
                total=self._bounds.total_seconds, connect=self._bounds.connect_seconds
            ),
            headers=dict(self._config.headers),
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

    async def names(self, matches: Sequence[str], from_ms: int, to_ms: int) -> tuple[str, ...]:
        """Names of the metrics that have series in this time, sorted.

        Args:
            matches: Selectors such as ``{cluster="orders"}``; none = all metrics.
            from_ms: Inclusive.
            to_ms: Exclusive.
        """
        raw_names = await self._list("label/__name__/values", matches, from_ms, to_ms)
        return tuple(sorted(name for name in raw_names if isinstance(name, str)))

    async def series(
        self, matches: Sequence[str], from_ms: int, to_ms: int
    ) -> tuple[dict[str, str], ...]:
        """Labels of all series that fit one of the selectors, ``__name__`` included."""
        raw_series = await self._list("series", matches, from_ms, to_ms)
        return tuple(
            {str(name): str(value) for name, value in label_set.items()}
            for label_set in raw_series
            if isinstance(label_set, dict)
        )

    async def raw(self, selector: str, from_ms: int, to_ms: int) -> tuple[RecordedSeries, ...]:
        """The samples as they are stored, ``from_ms <= time < to_ms``.

        An instant query with a range selector, because a range query makes up values where there are none. Ranges
        of Prometheus 3 leave their left end out and those of 2 have it in, so we ask for one millisecond more and
        take it off here.

        Raises:
            TooLarge: It is too much for one query, or takes too long (:class:`ResponseTooSlow`).
            TelemetryError: The server refuses.
            TelemetryAway: It does not answer.
        """
        query = f"{selector}[{to_ms - from_ms}ms]"
        answer = await self._query("query", {"query": query, "time": _seconds(to_ms - 1)})
        match answer.get("data"):
            case {"resultType": "matrix", "result": list() as result}:
                pass
            case _:
                raise self._wrong("query", "answered with something that is no matrix")
        all_series = []
        for element in result:
            series = series_of(element, self.counts)
            if series is not None:
                all_series.append(_within(series, from_ms, to_ms))
        return tuple(series for series in all_series if series.points)

    async def _list(self, path: str, matches: Sequence[str], from_ms: int, to_ms: int) -> list[Any]:
        parameters: dict[str, str | Sequence[str]] = {
            "match[]": tuple(matches), "start": _seconds(from_ms), "end": _seconds(to_ms - 1),
        }  # fmt: skip
        # Label values cannot be asked for by POST.
        method = "GET" if path.startswith("label/") else "POST"
        answer = await self._query(path, parameters, method=method)
        elements = answer.get("data")
        if not isinstance(elements, list):
            raise self._wrong(path, "answered with something that is no list")
        return elements

    async def _query(
        self, path: str, parameters: Mapping[str, str | Sequence[str]], *, method: str = "POST"
    ) -> dict[str, Any]:
        """The decoded answer; warnings and remarks counted."""
        pairs = [
            (name, element)
            for name, value in parameters.items()
            for element in ((value,) if isinstance(value, str) else value)
        ]
        breathers = iter(_BREATHERS)
        while True:
            wrong, pause = await self._tried(path, pairs, method)
            if isinstance(wrong, dict):
                self._late = 0
                return wrong
            if not isinstance(wrong, TelemetryUnavailable):
                raise wrong
            if isinstance(wrong, _AttemptTimeout):
                self._late += 1
                if self._late >= _SLOW_TRIES:
                    raise ResponseTooSlow(wrong.message, status=wrong.status, hint=wrong.hint)
            breather = next(breathers, None)
            if breather is None or pause > self._bounds.wait_seconds:
                raise wrong
            self.counts.add(SeriesOutcome.RETRIES)
            await self._clock.sleep(max(breather, pause))

    async def _tried(
        self, path: str, pairs: list[tuple[str, str]], method: str
    ) -> tuple[dict[str, Any] | TelemetryError, float]:
        """An answer or why there is none, and how long the server wants us to wait."""
        try:
            reply = await self._send(path, pairs, method)
        except ResponseTooLarge as large:
            return large, 0.0
        except (aiohttp.ClientError, OSError, EOFError, ValueError) as error:
            return self._unsent(path, error), 0.0
        if 200 <= reply.status < 300:
            try:
                if bounded_json.items(reply.body) > self._bounds.answer_items:
                    return ResponseTooLarge(
                        f"{path}: the answer has more than {self._bounds.answer_items:,} items",
                        location=self.shown,
                    ), 0.0
                decoded = bounded_json.parse(reply.body, most_bytes=bounded_json.DOCUMENT)
            except bounded_json.InvalidJson:
                # A proxy that loses its upstream ends the body and calls it whole.
                return self._away(
                    path, "answered with a body that is no JSON or ends too early"
                ), 0.0
            return self._accepted(path, decoded), 0.0
        return self._response_error(path, reply), _retry_after(reply, self._clock.now())

    def _unsent(self, path: str, error: Exception) -> TelemetryError:
        """Why there is no reply at all."""
        words = "failed: " + self._config.hidden_in(str(error) or type(error).__name__)
        match error:
            case aiohttp.ClientSSLError() | aiohttp.InvalidURL():
                return self._wrong(path, words, hint="see tls_config of --http-config")
            case aiohttp.ConnectionTimeoutError():
                problem = f"was not connected to within {self._bounds.connect_seconds:.0f} s"
                return self._away(path, problem)
            case TimeoutError():
                problem = f"did not answer within {self._bounds.total_seconds:.0f} s"
                return self._away(path, problem, late=True)
            case aiohttp.ClientError() | OSError() | EOFError():
                return self._away(path, words)
            case _:  # what aiohttp finds wrong with a request before it leaves
                return self._wrong(path, words, hint="see --http-config")

    def _accepted(self, path: str, decoded: object) -> dict[str, Any] | TelemetryError:
        if not isinstance(decoded, dict) or decoded.get("status") != "success":
            return self._wrong(
                path, "answered with something else than Prometheus' JSON", hint=_HINTS[404]
            )
        for field, word in (("warnings", SeriesOutcome.WARNINGS), ("infos", SeriesOutcome.INFOS)):
            messages = decoded.get(field)
            self.counts.add(word, len(messages) if isinstance(messages, list) else 0)
        partial = decoded.get("partial_response", decoded.get("isPartial", False))
        self.counts.add(SeriesOutcome.WARNINGS, 1 if partial is True else 0)
        return decoded

    def _response_error(self, path: str, reply: _PrometheusResponse) -> TelemetryError:
        words = _server_words(reply.body)
        problem = f"answered {reply.status}" + (
            f": {self._config.hidden_in(words)}" if words else ""
        )
        if 300 <= reply.status < 400:
            return self._wrong(
                path, f"{problem}, a redirect", status=reply.status,
                hint="write the address that it leads to; is there a login page in front?",
            )  # fmt: skip
        large = reply.status == 413 or (
            reply.status in {400, 422} and any(phrase in words.lower() for phrase in _SPLIT_WORDS)
        )
        if large:
            return ResponseTooLarge(
                f"{path} {problem}", location=self.shown, status=reply.status,
                hint="narrower telemetry.matchers, or a higher --query.max-samples on the server",
            )  # fmt: skip
        slow = reply.status in _SLOW_STATUSES or (
            reply.status in {*_LATER, 422}
            and any(phrase in words.lower() for phrase in _SLOW_WORDS)
        )
        if slow or reply.status in _LATER:
            return self._away(path, problem, status=reply.status, late=slow)
        return self._wrong(path, problem, status=reply.status, hint=_HINTS.get(reply.status, ""))

    async def _send(
        self, path: str, pairs: list[tuple[str, str]], method: str
    ) -> _PrometheusResponse:
        assert self._session is not None, "used outside its context"  # noqa: S101 - our own slip
        address = f"{self._address}/api/v1/{path}"
        async with self._session.request(
            method, address, params=pairs if method == "GET" else None,
            data=pairs if method == "POST" else None, allow_redirects=False,
            ssl=self._config.tls if self._config.tls is not None else True,
            server_hostname=self._config.server_name or None, proxy=self._proxy or None,
        ) as response:  # fmt: skip
            parts, size = [], 0
            async for part in response.content.iter_chunked(262_144):
                size += len(part)
                if size > self._bounds.answer_bytes:
                    raise ResponseTooLarge(
                        f"{path}: the answer is larger than {self._bounds.answer_bytes:,} bytes",
                        location=self.shown,
                    )
                parts.append(part)
            lower = {name.lower(): value for name, value in response.headers.items()}
            return _PrometheusResponse(status=response.status, headers=lower, body=b"".join(parts))

    def _wrong(self, path: str, problem: str, *, status: int = 0, hint: str = "") -> TelemetryError:
        return TelemetryError(f"{path} {problem}", location=self.shown, status=status, hint=hint)

    def _away(
        self, path: str, problem: str, *, status: int = 0, late: bool = False
    ) -> TelemetryUnavailable:
        return (_AttemptTimeout if late else TelemetryUnavailable)(
            f"{path} {problem}", location=self.shown, status=status,
            hint="check telemetry.prometheus, the network and the load of the server",
        )  # fmt: skip


_HINT_ADDRESS: Final = "such as http://prometheus:9090"


def _checked(address: str, config: HttpConfig) -> str:
    try:
        split = urlsplit(address)
        host = split.hostname
        _ = split.port
    except ValueError:  # Its words quote a piece of the address.
        raise TelemetryError("telemetry.prometheus is no address", hint=_HINT_ADDRESS) from None
    if split.scheme not in {"http", "https"} or not host:
        raise TelemetryError("telemetry.prometheus is no HTTP address", hint=_HINT_ADDRESS)
    if split.username is not None or split.password is not None:
        raise TelemetryError(
            "telemetry.prometheus has a login in it", hint="give it with --http-config (basic_auth)"
        )
    if split.query or split.fragment:
        raise TelemetryError("telemetry.prometheus has a query or fragment in it")
    stays = _loopback(host) and not config.proxy
    if config.authorized and split.scheme == "http" and not stays:
        raise TelemetryError(
            f"{split.netloc} would get the credentials over an open line", hint="use https"
        )
    return address.rstrip("/").removesuffix("/api/v1")


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _seconds(at_ms: int) -> str:
    return f"{at_ms // 1000}.{at_ms % 1000:03d}"


def _within(series: RecordedSeries, from_ms: int, to_ms: int) -> RecordedSeries:
    """The series without the millisecond that Prometheus 2 gives in addition."""
    times = [at for at, _ in series.points]
    if times and from_ms <= min(times) and max(times) < to_ms:
        return series
    points_in_window = [(at, value) for at, value in series.points if from_ms <= at < to_ms]
    return RecordedSeries(name=series.name, labels=series.labels, points=points_in_window)


def _server_words(body: bytes) -> str:
    """What the server says is wrong, on one line; "" where it answers with a page for people."""
    try:
        parsed_body = bounded_json.parse(body, most_bytes=bounded_json.ANSWER)
    except bounded_json.InvalidJson:
        text = body[: 4 * _MOST_WORDS].decode("utf-8", "replace")
        parsed_body = "" if "<" in text else text
    if isinstance(parsed_body, dict):
        parsed_body = parsed_body.get("error") or parsed_body.get("message") or ""
    words = " ".join(str(parsed_body).split())
    return "".join(character for character in words if character.isprintable())[:_MOST_WORDS]


def _retry_after(reply: _PrometheusResponse, now: float) -> float:
    text = reply.headers.get("retry-after", "")
    if text.isdecimal():
        return float(text[:9])
    if not text:
        return 0.0
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return 0.0
