"""A receiver on loopback with configurable responses that records requests, and messages to send to it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from msgspec.structs import replace

from reconciler.notify.message import ClusterDrift, DriftedPair, DriftEvent, Message
from reconciler.quota.entity import entity
from reconciler.quota.keys import Key

NOW = 1_700_000_000.0
PATH = "/services/T0SECRET/B0SECRET"

ALICE = DriftedPair(
    entity=entity(user="alice"),
    key=Key.PRODUCER_BYTE_RATE,
    expected=1048576.0,
    live=7.0,
    since=NOW - 60,
)
BOB = DriftedPair(
    entity=entity(user="bob"), key=Key.REQUEST_PERCENTAGE, expected=50.0, live=None, since=NOW - 600
)


def drift(*pairs: DriftedPair, cluster: str = "prod") -> ClusterDrift:
    return ClusterDrift(cluster=cluster, cluster_id="id-1", pairs=pairs)


def message(
    *pairs: DriftedPair, event: DriftEvent = DriftEvent.BEGAN, cluster: str = "prod"
) -> Message:
    cluster_drift = drift(*pairs, cluster=cluster)
    return Message(
        event=event,
        drift=cluster_drift,
        at=NOW,
        since=NOW - 600,
        digest=cluster_drift.digest,
        resolved=0 if pairs else 2,
    )


def named(user: str) -> DriftedPair:
    return replace(ALICE, entity=entity(user=user))


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """A received POST request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Answer:
    """The response to one POST request."""

    status: int = 200
    text: str = "ok"
    headers: dict[str, str] = field(default_factory=dict)


class Receiver:
    """Sends one response after the other, then the last one repeatedly. An async context manager."""

    def __init__(self, *answers: Answer) -> None:
        self.answers: Sequence[Answer] = answers or (Answer(),)
        self.got: list[Got] = []
        application = web.Application()
        application.router.add_post("/{rest:.*}", self._take)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PATH}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        answer = self.answers[min(len(self.got), len(self.answers) - 1)]
        self.got.append(
            Got(path=request.path, headers=dict(request.headers), body=await request.read())
        )
        return web.Response(status=answer.status, text=answer.text, headers=answer.headers)
