"""Client of the Prometheus HTTP API: metric names, series and raw samples, with limits on size and time."""

import contextlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

from msgspec import structs

from reconciler.base import bounded_json
from reconciler.base.http.client import HttpClient, Route
from reconciler.base.http.messages import (
    HttpRequest,
    HttpResponse,
    NoResponse,
    NoResponseKind,
    is_plain,
    proxy_for,
)
from reconciler.base.http.retry import POLICIES, Failure, Peer, with_retries
from reconciler.base.protocols import Clock
from reconciler.errors import TelemetryError, TelemetryUnavailable
from reconciler.evidence.ingest.drop_reasons import DropCounts, DropReason
from reconciler.evidence.ingest.points import RecordedSeries, milliseconds, number_of
from reconciler.evidence.ingest.readers.http_config import HttpConfig

_SPLIT_WORDS: Final = (
    "too many samples",
    "exceeded maximum resolution",
    "limit",
    "exceeds",
    "max-chunks",
    "max-series",
    "too large",
    "max number",
    "time range",
    "maximum",
)
_SLOW_STATUSES: Final = frozenset({408, 504})
_SLOW_WORDS: Final = ("timed out", "timeout", "deadline exceeded")

_HINTS: Final[dict[int, str]] = {
    400: "the server could not read the query: check telemetry.matchers",
    401: "give credentials with --http-config",
    403: "these credentials may not query: check --http-config and the tenant's header",
    404: "is telemetry.prometheus the address of the API, with its path, such as http://mimir/prometheus?",
}
_MOST_WORDS: Final = 300


class ResponseTooLarge(TelemetryError):
    """The response, or the work for it, exceeds a limit of the server or client: request less at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusLimits:
    """Limits of one client."""

    connect_seconds: float = 10.0
    total_seconds: float = 180.0  # timeout of one attempt, including the response
    query_seconds: float = POLICIES[Peer.PROMETHEUS].total_seconds  # of all attempts of one query
    wait_seconds: float = 120.0  # longest wait that a server may request (Retry-After)
    answer_bytes: int = bounded_json.DOCUMENT  # largest response; larger ones are split
    # Maximum number of arrays, objects and values in it (three per sample); larger ones are split.
    answer_items: int = 10_000_000


BOUNDS: Final = PrometheusLimits()


class PrometheusClient:
    """An async context manager for a server; also for Thanos, Mimir, Cortex and VictoriaMetrics.

    Args:
        address: Base address without ``/api/v1``.
        config: Authorization, TLS and headers.
        counts: Counts retries, warnings and everything that is dropped.
    """

    def __init__(
        self,
        address: str,
        *,
        clock: Clock,
        config: HttpConfig | None = None,
        bounds: PrometheusLimits = BOUNDS,
        counts: DropCounts | None = None,
    ) -> None:
        self.counts = DropCounts() if counts is None else counts
        self._config = HttpConfig() if config is None else config
        self._address = _checked(address, self._config)
        self.shown = urlsplit(self._address).netloc
        self._clock = clock
        self._bounds = bounds
        proxy = proxy_for(self._address)
        login = urlsplit(proxy).password
        if login:
            self._config = replace(self._config, secrets=(*self._config.secrets, login))
        self._http = HttpClient(
            seconds=bounds.total_seconds,
            connect_seconds=bounds.connect_seconds,
            headers=self._config.headers,
            route=Route(tls=self._config.tls, server_name=self._config.server_name, proxy=proxy),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def names(self, matches: Sequence[str], from_ms: int, to_ms: int) -> tuple[str, ...]:
        """Return the names of metrics with series in a time range, sorted.

        Args:
            matches: Selectors such as ``{cluster="orders"}``; empty = all metrics.
            from_ms: Inclusive.
            to_ms: Exclusive.
        """
        raw_names = await self._list("label/__name__/values", matches, from_ms, to_ms)
        return tuple(sorted(name for name in raw_names if isinstance(name, str)))

    async def series(
        self, matches: Sequence[str], from_ms: int, to_ms: int
    ) -> tuple[dict[str, str], ...]:
        """Return the labels, with ``__name__``, of all series that match a selector."""
        raw_series = await self._list("series", matches, from_ms, to_ms)
        return tuple(
            {str(name): str(value) for name, value in label_set.items()}
            for label_set in raw_series
            if isinstance(label_set, dict)
        )

    async def raw(self, selector: str, from_ms: int, to_ms: int) -> tuple[RecordedSeries, ...]:
        """Return stored samples with ``from_ms <= time < to_ms``.

        Uses an instant query with a range selector, because a range query repeats values (look-back). Range selectors
        exclude their left bound in Prometheus 3 and include it in Prometheus 2: the query includes one millisecond
        more, which is removed here.

        Raises:
            ResponseTooLarge: It is too much for one query, or takes too long.
            TelemetryError: The server rejects the query.
            TelemetryUnavailable: The server does not answer.
        """
        query = f"{selector}[{to_ms - from_ms}ms]"
        answer = await self._query("query", {"query": query, "time": _seconds(to_ms - 1)})
        match answer.get("data"):
            case {"resultType": "matrix", "result": list() as result}:
                pass
            case _:
                raise self._wrong("query", "returned a response that is not a matrix")
        all_series = (series_of(element, self.counts) for element in result)
        in_range = (series.within(from_ms, to_ms) for series in all_series if series is not None)
        return tuple(series for series in in_range if series.times)

    async def _list(self, path: str, matches: Sequence[str], from_ms: int, to_ms: int) -> list[Any]:
        answer = await self._query(
            path, {"match[]": matches, "start": _seconds(from_ms), "end": _seconds(to_ms - 1)}
        )
        elements = answer.get("data")
        if not isinstance(elements, list):
            raise self._wrong(path, "answered with something that is not a list")
        return elements

    async def _query(
        self, path: str, parameters: Mapping[str, str | Sequence[str]]
    ) -> dict[str, Any]:
        """Return the decoded response; count warnings and infos."""
        form = urlencode(parameters, doseq=True)
        is_get = path.startswith("label/")  # The label values API has no POST.
        request = HttpRequest(
            method="GET" if is_get else "POST",
            url=f"{self._address}/api/v1/{path}" + (f"?{form}" if is_get else ""),
            headers={} if is_get else {"Content-Type": "application/x-www-form-urlencoded"},
            body=b"" if is_get else form.encode(),
            max_bytes=self._bounds.answer_bytes,
        )

        async def attempt(seconds: float) -> dict[str, Any] | Failure:
            response = await self._http.send(request, seconds=seconds)
            wait, answer = 0.0, self._answer(path, response)
            if not isinstance(response, NoResponse):
                wait = response.retry_after(self._clock.now()) or 0.0
            if not isinstance(answer, TelemetryError):
                return answer
            is_short = wait <= self._bounds.wait_seconds
            is_retriable = isinstance(answer, TelemetryUnavailable) and is_short
            return Failure(error=answer, is_retriable=is_retriable, wait=wait)

        return await with_retries(
            attempt,
            structs.replace(POLICIES[Peer.PROMETHEUS], total_seconds=self._bounds.query_seconds),
            clock=self._clock,
            before_retry=lambda _: self.counts.add(DropReason.RETRIES),
        )

    def _answer(
        self, path: str, response: HttpResponse | NoResponse
    ) -> dict[str, Any] | TelemetryError:
        if isinstance(response, NoResponse):
            return self._unsent(path, response)
        if not response.is_success:
            return self._response_error(path, response)
        try:
            if bounded_json.items(response.body) > self._bounds.answer_items:
                return ResponseTooLarge(
                    f"{path}: the answer has more than {self._bounds.answer_items:,} items",
                    location=self.shown,
                )
            decoded = bounded_json.parse(response.body, most_bytes=bounded_json.DOCUMENT)
        except bounded_json.InvalidJson:
            # A proxy that loses its upstream ends the body as if it was complete.
            return self._away(path, "answered with a body that is not JSON or ends too early")
        return self._accepted(path, decoded)

    def _unsent(self, path: str, answer: NoResponse) -> TelemetryError:
        """Return the error for a request without a response."""
        words = self._config.hidden_in(answer.text)
        match answer.kind:
            case NoResponseKind.TOO_LARGE:
                return ResponseTooLarge(f"{path}: {words}", location=self.shown)
            case NoResponseKind.TLS | NoResponseKind.REQUEST:
                return self._wrong(path, f"failed: {words}", hint="see --http-config")
            case NoResponseKind.TIMEOUT:
                return self._late(path, f"failed: {words}")
            case _:
                return self._away(path, f"failed: {words}")

    def _accepted(self, path: str, decoded: object) -> dict[str, Any] | TelemetryError:
        if not isinstance(decoded, dict) or decoded.get("status") != "success":
            return self._wrong(
                path, "answered with something else than Prometheus' JSON", hint=_HINTS[404]
            )
        for field, word in (("warnings", DropReason.WARNINGS), ("infos", DropReason.INFOS)):
            messages = decoded.get(field)
            self.counts.add(word, len(messages) if isinstance(messages, list) else 0)
        partial = decoded.get("partial_response", decoded.get("isPartial", False))
        self.counts.add(DropReason.WARNINGS, 1 if partial is True else 0)
        return decoded

    def _response_error(self, path: str, reply: HttpResponse) -> TelemetryError:
        words = _server_words(reply.body)
        problem = f"answered {reply.status}" + (
            f": {self._config.hidden_in(words)}" if words else ""
        )
        if 300 <= reply.status < 400:
            return self._wrong(
                path,
                f"{problem}, a redirect",
                status=reply.status,
                hint="use the final URL; check whether a login page redirects",
            )
        large = reply.status == 413 or (
            reply.status in {400, 422} and any(phrase in words.lower() for phrase in _SPLIT_WORDS)
        )
        if large:
            return ResponseTooLarge(
                f"{path} {problem}",
                location=self.shown,
                status=reply.status,
                hint="narrower telemetry.matchers, or a higher --query.max-samples on the server",
            )
        slow = reply.status in _SLOW_STATUSES or (
            (reply.is_transient or reply.status == 422)
            and any(phrase in words.lower() for phrase in _SLOW_WORDS)
        )
        if slow:
            return self._late(path, problem, status=reply.status)
        if reply.is_transient:
            return self._away(path, problem, status=reply.status)
        return self._wrong(path, problem, status=reply.status, hint=_HINTS.get(reply.status, ""))

    def _wrong(self, path: str, problem: str, *, status: int = 0, hint: str = "") -> TelemetryError:
        return TelemetryError(f"{path} {problem}", location=self.shown, status=status, hint=hint)

    def _away(self, path: str, problem: str, *, status: int = 0) -> TelemetryUnavailable:
        hint = "check telemetry.prometheus, the network and the load of the server"
        return TelemetryUnavailable(
            f"{path} {problem}", location=self.shown, status=status, hint=hint
        )

    def _late(self, path: str, problem: str, *, status: int = 0) -> TelemetryError:
        """Return the error of a timeout: samples are then requested in parts, anything else once more."""
        away = self._away(path, problem, status=status)
        if path != "query":
            return away
        return ResponseTooLarge(away.message, location=self.shown, status=status, hint=away.hint)


_HINT_ADDRESS: Final = "such as http://prometheus:9090"


def _checked(address: str, config: HttpConfig) -> str:
    try:
        split = urlsplit(address)
        host = split.hostname
        _ = split.port
    except ValueError:  # Its message quotes a part of the address.
        raise TelemetryError("telemetry.prometheus is not a URL", hint=_HINT_ADDRESS) from None
    if split.scheme not in {"http", "https"} or not host:
        raise TelemetryError("telemetry.prometheus is not an HTTP URL", hint=_HINT_ADDRESS)
    if split.username is not None or split.password is not None:
        raise TelemetryError(
            "telemetry.prometheus must not contain credentials",
            hint="pass them with --http-config (basic_auth)",
        )
    if split.query or split.fragment:
        raise TelemetryError("telemetry.prometheus must not contain a query or fragment")
    if config.authorized and is_plain(address):
        raise TelemetryError(
            f"credentials for {split.netloc} would be sent unencrypted", hint="use https"
        )
    return address.rstrip("/").removesuffix("/api/v1")


def _seconds(at_ms: int) -> str:
    return f"{at_ms // 1000}.{at_ms % 1000:03d}"


def _server_words(body: bytes) -> str:
    """Return the server's error message on one line; "" for HTML pages."""
    try:
        parsed_body = bounded_json.parse(body, most_bytes=bounded_json.ANSWER)
    except bounded_json.InvalidJson:
        text = body[: 4 * _MOST_WORDS].decode("utf-8", "replace")
        parsed_body = "" if "<" in text else text
    if isinstance(parsed_body, dict):
        parsed_body = parsed_body.get("error") or parsed_body.get("message") or ""
    words = " ".join(str(parsed_body).split())
    return "".join(character for character in words if character.isprintable())[:_MOST_WORDS]


def series_of(element: object, counts: DropCounts) -> RecordedSeries | None:
    """Parse one element of a matrix; ``None`` if it has no points.

    Args:
        element: Decoded JSON.
        counts: Counts everything that is dropped.
    """
    if not isinstance(element, dict) or not isinstance(element.get("metric"), dict):
        counts.add(DropReason.BAD_LINE)
        return None
    if "histograms" in element:
        counts.add(DropReason.HISTOGRAMS)
    labels = {str(name): str(value) for name, value in element["metric"].items()}
    series = RecordedSeries.of(labels.pop("__name__", ""), labels)
    values = element.get("values")
    if isinstance(values, list):
        _append_pairs(series, values, counts)
    elif "histograms" not in element:
        counts.add(DropReason.BAD_LINE)
    return series if series.times else None


def _append_pairs(series: RecordedSeries, pairs: Sequence[Any], counts: DropCounts) -> None:
    """Append ``[seconds, "value"]`` pairs; one by one, if any of them is invalid or unusual."""
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        times = array("q", [round(at * 1000) for at, _ in pairs])
        texts = [text for _, text in pairs]
        if "_" not in "".join(texts):
            series.values.extend(array("d", map(float, texts)))
            series.times.extend(times)
            return
    for pair in pairs:
        match pair:
            case [int() | float() as at, str() as text]:
                number, moment = number_of(text), milliseconds(at)
            case _:
                number, moment = None, None
        if number is None or moment is None:
            counts.add(DropReason.BAD_VALUE if number is None else DropReason.NOT_A_TIME)
        else:
            series.append(moment, number)
