"""The network to the API server: latency, outages, errors, lost responses, late execution of requests, lagging watches.

A sent request may be executed after the death of its sender. Implements ``HttpTransport`` and ``Watch``.
"""

import asyncio
import contextvars
import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from reconciler.base.http.client import Route
from reconciler.base.http.messages import HttpRequest, HttpResponse, NoResponse, NoResponseKind
from reconciler.kube.watch.kopf_watcher import EventBuffer, EventHandler
from tests.simulation.kube.api_server import ApiEvent, ApiServer
from tests.simulation.processes import SimulatedProcess
from tests.simulation.virtual_loop import VirtualLoop

LATE_SECONDS = 30.0
"""Maximum delay of a slow request's execution after its arrival, below the server's storage timeout of 34 s."""

WATCH_SECONDS = 300.0
"""Mean time until the server ends a watch."""

LONGEST_PAUSE = 10.0
"""Maximum time between two events of a watch that crawls."""

LEASES = "/leases"
"""Part of the URL of requests for a Lease."""

BACKOFFS = (0.2, 0.5, 1.0, 2.0, 5.0)

_WORLD = contextvars.Context()


class ApiNetwork:
    """The network between processes and the API server.

    Attributes:
        chances: Kind of fault -> share of the requests: ``api error``, ``api lost answer``, ``api slow``.
        is_down: Whether the server is unreachable.
        isolated: Names of processes that cannot reach the server.
        isolated_leases: Names of processes whose connection for the Lease does not reach the server.
        lease_requests: Number of unfinished requests for a Lease.
        late_seconds: Seconds by which every answer is late that is not about a Lease.
        crawls: The same -> time until which the watch pauses before each event.
        lags: Name of a process and plural -> time until which its watch of a kind reports nothing.
        held_at: Watches report no revision after this one; ``None`` = all.
        dropped: Revisions that watches skip.
        on_secret: Called with the process that has read a Secret, and the response.
    """

    def __init__(self, loop: VirtualLoop, server: ApiServer, chance: random.Random) -> None:
        self.loop, self.server, self._chance = loop, server, chance
        self.chances: dict[str, float] = {}
        self.is_down = False
        self.isolated: set[str] = set()
        self.isolated_leases: set[str] = set()
        self.lease_requests = 0
        self.late_seconds = 0.0
        self.lags: dict[tuple[str, str], float] = {}
        self.crawls: dict[tuple[str, str], float] = {}
        self.generation = 0
        self.held_at: int | None = None
        self.dropped: set[int] = set()
        self.on_secret: Callable[[str, HttpResponse], None] = lambda *_: None
        self._waiting: defaultdict[str, list[asyncio.Future[None]]] = defaultdict(list)
        server.on_event = self._wake

    def heal(self) -> None:
        """End all faults."""
        self.chances.clear()
        self.late_seconds = 0.0
        self.is_down = False
        self.isolated.clear()
        self.isolated_leases.clear()
        self.lags.clear()
        self.crawls.clear()
        self.held_at = self.server.cached_at = None
        self._wake_all()

    def latency(self) -> float:
        """Return a random one-way latency in seconds."""
        return 0.001 + self._chance.random() * 0.004

    def reaches(self, process: SimulatedProcess) -> bool:
        """Whether a process can reach the server."""
        return not self.is_down and process.name not in self.isolated

    def _carries(self, process: SimulatedProcess, request: HttpRequest) -> bool:
        """Whether a request of a process can reach the server, and its response the process."""
        is_isolated = process.name in self.isolated_leases and LEASES in request.url
        return self.reaches(process) and not is_isolated

    def drop_watches(self) -> None:
        """End every watch; each restarts at its last revision."""
        self.generation += 1
        self._wake_all()

    # -- requests -----------------------------------------------------------------------------------

    def leave(
        self, process: SimulatedProcess, request: HttpRequest
    ) -> "asyncio.Future[HttpResponse | NoResponse]":
        """Send a request of a process; return a future of the response, which may never complete."""
        answer: asyncio.Future[HttpResponse | NoResponse] = self.loop.create_future()
        self.loop.call_later(
            self.latency(), self._arrive, process, request, answer, context=_WORLD.copy()
        )
        return answer

    def _arrive(
        self,
        process: SimulatedProcess,
        request: HttpRequest,
        answer: "asyncio.Future[HttpResponse | NoResponse]",
    ) -> None:
        if not self._carries(process, request):
            if self._chance.random() < 0.5:  # Otherwise the request is lost, and the sender waits.
                refused = NoResponse(kind=NoResponseKind.CONNECT, text="connection refused")
                self._return(answer, refused)
            return
        if self._befalls("api error"):
            self._return(answer, self._error())
            return
        wait = self._chance.random() * LATE_SECONDS if self._befalls("api slow") else 0.0
        context = _WORLD.copy()
        self.loop.call_later(wait, self._carry_out, process, request, answer, context=context)

    def _carry_out(
        self,
        process: SimulatedProcess,
        request: HttpRequest,
        answer: "asyncio.Future[HttpResponse | NoResponse]",
    ) -> None:
        response = self.server.answer(request, process.name)
        if self._befalls("api lost answer") or not self._carries(process, request):
            if self._chance.random() < 0.5:
                broken = NoResponse(kind=NoResponseKind.BROKEN, text="connection reset")
                self._return(answer, broken)
            return
        late_seconds = 0.0 if LEASES in request.url else self.late_seconds
        self._return(answer, response, late_seconds)

    def _return(
        self,
        answer: "asyncio.Future[HttpResponse | NoResponse]",
        response: HttpResponse | NoResponse,
        late_seconds: float = 0.0,
    ) -> None:
        def arrive() -> None:
            if not answer.done():
                answer.set_result(response)

        wait = self.latency() + late_seconds
        self.loop.call_later(wait, arrive, context=_WORLD.copy())

    def _befalls(self, kind: str) -> bool:
        share = self.chances.get(kind)
        return share is not None and self._chance.random() < share

    def _error(self) -> HttpResponse:
        status = self._chance.choice((429, 429, 500, 503, 504))
        headers = {"retry-after": str(self._chance.randint(1, 4))} if status == 429 else {}
        body = {"kind": "Status", "reason": "injected", "message": "injected"}
        return HttpResponse(status=status, headers=headers, body=json.dumps(body).encode())

    # -- watches ------------------------------------------------------------------------------------

    def _wake(self, plural: str) -> None:
        for future in self._waiting.pop(plural, ()):
            if not future.done():
                future.set_result(None)

    def _wake_all(self) -> None:
        for plural in list(self._waiting):
            self._wake(plural)

    async def news(self, plural: str, seconds: float) -> None:
        """Wait for a change of a kind, at most ``seconds``."""
        future: asyncio.Future[None] = self.loop.create_future()
        self._waiting[plural].append(future)
        _ = await asyncio.wait({future}, timeout=seconds)
        _ = future.cancel()

    def since(self, revision: int, plural: str) -> list[ApiEvent] | None:
        """Return the events that a watch reports after a revision; ``None`` = it is compacted."""
        news = self.server.since(revision, plural)
        if news is None or self.held_at is None:
            return news
        return [event for event in news if event.revision <= self.held_at]

    def bookmark(self, revision: int) -> int:
        """Return the revision from which a watch without news goes on: often a bookmark brings the current one."""
        if self.held_at is None and self._chance.random() < 0.5:
            return self.server.revision
        return revision

    def pause(self) -> float:
        """Return the random time between two events of a watch that crawls, in seconds."""
        return self._chance.random() * LONGEST_PAUSE

    def chance_of_watch(self) -> float:
        """Return the random time until the server ends a watch, in seconds."""
        return self._chance.expovariate(1 / WATCH_SECONDS) + 1.0


class ProcessTransport:
    """The HTTP transport of a process."""

    def __init__(self, network: ApiNetwork, process: SimulatedProcess) -> None:
        self._network, self._process = network, process

    async def send(
        self, request: HttpRequest, *, route: Route | None = None
    ) -> HttpResponse | NoResponse:
        """Send a request; a planned kill may occur before or after it is sent."""
        del route
        self._process.step()
        answer = self._network.leave(self._process, request)
        self._process.step()
        is_for_lease = LEASES in request.url
        self._network.lease_requests += is_for_lease
        try:
            response = await answer
        finally:
            self._network.lease_requests -= is_for_lease
        if isinstance(response, HttpResponse) and "/secrets/" in request.url:
            self._network.on_secret(self._process.name, response)
        return response

    async def close(self) -> None:
        """Do nothing."""


class ProcessWatch:
    """The watches of a process, instead of Kopf's: a list, then events, and a new list after a compaction.

    As in Kopf, a list after a gap reports no deletions.
    """

    def __init__(self, network: ApiNetwork, process: SimulatedProcess) -> None:
        self._network, self._process = network, process

    async def __call__(
        self,
        kinds: Mapping[tuple[str, str, str], EventHandler],
        *,
        namespaces: Sequence[str],
        stop: asyncio.Event,
    ) -> None:
        """Watch until ``stop`` is set."""
        loop = asyncio.get_running_loop()
        tasks = [
            asyncio.ensure_future(self._watch(plural, namespaces, EventBuffer(loop, deliver)))
            for (_, _, plural), deliver in kinds.items()
        ]
        stopping = asyncio.ensure_future(stop.wait())
        try:
            _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, *tasks):
                _ = task.cancel()
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def _watch(self, plural: str, namespaces: Sequence[str], events: EventBuffer) -> None:
        network, failures = self._network, 0
        while True:
            revision = await self._list(plural, namespaces, events)
            while revision is not None:
                revision = await self._stream(plural, namespaces, revision, events)
            await asyncio.sleep(BACKOFFS[min(failures, len(BACKOFFS) - 1)])
            failures = 0 if network.reaches(self._process) else failures + 1

    async def _list(
        self, plural: str, namespaces: Sequence[str], events: EventBuffer
    ) -> int | None:
        network = self._network
        await asyncio.sleep(network.latency())
        if not network.reaches(self._process):
            return None
        objects, revision = network.server.objects_of(plural, None), network.server.revision
        await asyncio.sleep(network.latency())
        await self._lag(plural)
        self._process.step()
        for obj in objects:
            if not namespaces or obj["metadata"]["namespace"] in namespaces:
                events.put("", obj)
        return revision

    async def _stream(
        self, plural: str, namespaces: Sequence[str], revision: int, events: EventBuffer
    ) -> int | None:
        """Run a watch; return the revision of the next one, ``None`` = it begins with a list."""
        network = self._network
        generation, until = network.generation, network.loop.time() + network.chance_of_watch()
        while True:
            if not network.reaches(self._process):
                await network.news(plural, 5.0)
                continue
            news = network.since(revision, plural)
            if news is None:
                return None
            if not news:
                revision = network.bookmark(revision)
                seconds = until - network.loop.time()
                if seconds <= 0 or generation != network.generation:
                    await asyncio.sleep(network.latency())
                    return revision
                await network.news(plural, seconds)
                continue
            await asyncio.sleep(network.latency())
            await self._lag(plural)
            if not network.reaches(self._process):
                continue
            revision = await self._deliver(news, plural, namespaces, events)

    async def _deliver(
        self, news: Sequence[ApiEvent], plural: str, namespaces: Sequence[str], events: EventBuffer
    ) -> int:
        """Report events, with pauses while the watch crawls; return the revision of the last one."""
        network = self._network
        for event in news:
            if network.crawls.get((self._process.name, plural), 0.0) > network.loop.time():
                await asyncio.sleep(network.pause())
            is_watched = not namespaces or event.place[1] in namespaces
            if is_watched and event.revision not in network.dropped:
                self._process.step()
                events.put(event.kind, event.obj)
        return news[-1].revision

    async def _lag(self, plural: str) -> None:
        """Wait until the lag of this kind has ended."""
        key = self._process.name, plural
        until = self._network.lags.get(key, 0.0)
        if until > self._network.loop.time():
            await asyncio.sleep(until - self._network.loop.time())
