"""An HTTP server with configurable responses, for the API client. Without knowledge of Kubernetes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

from reconciler.kube.api.access import ApiAccess

PLANTED = "t0ken-planted"
Answering = Callable[["ReceivedRequest"], Any]


class ReceivedRequest:
    """A received request."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self.method = request.method
        self.path = request.rel_url.raw_path
        self.query = dict(request.rel_url.query)
        self.headers = request.headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def status(code: int, reason: str, message: str = "", **headers: str) -> web.Response:
    """An error in the format of an API server."""
    body = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return web.json_response(body, status=code, headers=headers)


class Server:
    """`answers` returns one response per request: a dict (200), a response, or "hang" for none."""

    def __init__(self, answers: Answering) -> None:
        self._answers = answers
        self.requests: list[ReceivedRequest] = []
        self._open = asyncio.Event()

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._open.set()
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        received_request = ReceivedRequest(request, await request.read())
        self.requests.append(received_request)
        answer = self._answers(received_request)
        if answer == "hang":
            await self._open.wait()
            return web.Response(status=500)
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)

    def access(self, authorization: Callable[[], Awaitable[str]] | None = None) -> ApiAccess:
        async def planted() -> str:
            return f"Bearer {PLANTED}"

        return ApiAccess(
            host=self.url,
            tls=None,
            server_name=None,
            proxy=None,
            authorization=authorization or planted,
        )
