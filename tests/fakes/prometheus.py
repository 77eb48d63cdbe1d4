"""A Prometheus on loopback with samples in memory and injected faults: the part of its HTTP API that reads raw samples.

It parses queries independently of the product, so that an invalid query is an error.
"""

import asyncio
import json
import re
import ssl
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Self

from aiohttp import web

Labels = Mapping[str, str]
QUERY = re.compile(r"(\{.*\})\[(\d+)ms\]", re.DOTALL)
TIME = itemgetter(0)
MATCHER = re.compile(r'([a-zA-Z_]\w*)(=~|!~|!=|=)("(?:[^"\\\n]|\\.)*")(,|$)', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The response to one request instead of a success."""

    status: int = 200
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False  # half of the body, then the connection is reset
    half: bool = False  # half of the body as a complete response
    reset: bool = False  # the connection is reset without a response
    hang: bool = False  # no response, and the connection stays open


TOO_MANY = "query processing would load too many samples into memory in query execution"


class FakePrometheus:
    """The server, as an async context manager; `asked` lists every request."""

    def __init__(self, *, closed: bool = True, tls: ssl.SSLContext | None = None) -> None:
        self.samples: list[tuple[dict[str, str], list[tuple[int, str]]]] = []
        self.faults: list[Fault] = []
        self.extra: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.headers: list[dict[str, str]] = []
        self.max_samples = 10**9
        self.refused = Fault(status=422, text=error(TOO_MANY, "execution"))
        self.running = self.most_running = 0
        self._closed = closed
        self._tls = tls
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def put(self, name: str, points: Sequence[tuple[int, str]], **labels: str) -> None:
        self.samples.append(({"__name__": name, **labels}, sorted(points, key=TIME)))

    def queries(self) -> list[str]:
        return [
            parameters["query"][0] for path, parameters in self.asked if path.endswith("/query")
        ]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        posted = await request.post()
        pairs = [*request.query.items(), *((name, str(value)) for name, value in posted.items())]
        parameters: dict[str, list[str]] = {}
        for name, value in pairs:
            parameters.setdefault(name, []).append(value)
        self.asked.append((request.path, parameters))
        self.headers.append(dict(request.headers))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            fault = self.faults.pop(0) if self.faults else None
            if fault is not None and not (fault.cut or fault.half):
                return await self._broken(request, fault)
            answer = self._api(request, parameters)
            if isinstance(answer, Fault):
                return await self._broken(request, answer)
            text = json.dumps({"status": "success", "data": answer, **self.extra})
            if fault is None:
                return web.Response(text=text, content_type="application/json")
            if fault.half:
                return web.Response(text=text[: len(text) // 2], content_type="application/json")
            return await self._half(request, text)
        finally:
            self.running -= 1

    async def _broken(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.hang:
            await asyncio.Event().wait()
        if fault.reset:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=fault.status, text=fault.text, headers=dict(fault.headers))

    async def _half(self, request: web.Request, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(text))})
        await response.prepare(request)
        await response.write(text[: len(text) // 2].encode())
        assert request.transport is not None
        request.transport.abort()
        return response

    def _api(self, request: web.Request, parameters: dict[str, list[str]]) -> Any:
        match request.method, request.path:
            case _, "/api/v1/query":
                return self._query(
                    parameters["query"][0], round(float(parameters["time"][0]) * 1000)
                )
            case _, "/api/v1/series":
                return [labels for labels, _ in self._selected(parameters)]
            case "GET", "/api/v1/label/__name__/values":
                return sorted({labels["__name__"] for labels, _ in self._selected(parameters)})
            case _:
                return Fault(status=404, text="404 page not found\n")

    def _selected(
        self, parameters: dict[str, list[str]]
    ) -> list[tuple[dict[str, str], list[tuple[int, str]]]]:
        start, end = (float(parameters[text][0]) * 1000 for text in ("start", "end"))
        return [
            (labels, points)
            for labels, points in self.samples
            if any(fits(selector, labels) for selector in parameters["match[]"])
            and bisect_left(points, start, key=TIME) < bisect_right(points, end, key=TIME)
        ]

    def _query(self, query: str, time: int) -> Any:
        match = QUERY.fullmatch(query)
        if match is None:
            return Fault(status=400, text=error(f"parse error: {query}", "bad_data"))
        start = time - int(match[2])
        result = []
        for labels, points in self.samples:
            first = (bisect_left if self._closed else bisect_right)(points, start, key=TIME)
            end = bisect_right(points, time, key=TIME)
            if first < end and fits(match[1], labels):
                values = [[at / 1000, value] for at, value in points[first:end]]
                result.append({"metric": labels, "values": values})
        if sum(len(series["values"]) for series in result) > self.max_samples:
            return self.refused
        return {"resultType": "matrix", "result": result}


def error(words: str, kind: str) -> str:
    return json.dumps({"status": "error", "errorType": kind, "error": words})


def fits(selector: str, labels: Labels) -> bool:
    inner, at = selector.strip()[1:-1], 0
    while at < len(inner):
        match = MATCHER.match(inner, at)
        assert match is not None, selector
        name, operator, text, _ = match.groups()
        expected, value = json.loads(text), labels.get(name, "")
        same = re.fullmatch(expected, value) is not None if "~" in operator else expected == value
        if same is operator.startswith("!"):
            return False
        at = match.end()
    return True
