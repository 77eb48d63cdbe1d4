"""``SyncQuotaClient``: a blocking client for callers without an event loop, or whose event loop must not be used.

with SyncQuotaClient(ClientConfig.from_properties("client.properties")) as client:
    state = client.describe()
"""

import asyncio
import threading
from collections.abc import (
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from concurrent import futures
from typing import Any, Self, TypeVar

from reconciler.base.protocols import Progress
from reconciler.client.client_config import ClientConfig
from reconciler.client.cluster_info import ScramCredential
from reconciler.client.events import SILENT, ClientEvents
from reconciler.client.quota_client import VISIBLE_SECONDS, QuotaClient
from reconciler.errors import AuthenticationError, QuotaValueError, WrongCluster
from reconciler.quota.entity import Entity, EntityParts
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.precedence import Principal, Resolution
from reconciler.quota.state import (
    ALL,
    Alteration,
    Cluster,
    ClusterDescription,
    Filter,
    OpenAlteration,
    QuotaState,
    Result,
    Visibility,
)

_Answer = TypeVar("_Answer")


class SyncQuotaClient:
    """:class:`QuotaClient` with blocking methods of the same names, arguments, results and errors. Safe for many threads.

    An event loop in its own thread does the work, so that it can be used where another loop runs: a notebook, an
    Ansible module, a web handler. The caller's thread blocks, and so does its loop. Callbacks (events, progress)
    are called in the client's thread and must not call this client. Ctrl-C cancels the call, and the call ends before
    ``KeyboardInterrupt`` is raised again, so that the ``results`` of :meth:`alter` are final.

    Create it after a fork, not before. The thread ends with :meth:`close`, or with the process.

    Args:
        config: How to reach the cluster.
        events: Callbacks for connections, requests, retries.
    """

    def __init__(self, config: ClientConfig, *, events: ClientEvents = SILENT) -> None:
        self._client = QuotaClient(config, events=events)
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._is_closed = False
        self._starting = threading.Lock()  # no call is started once the loop is stopping
        self._calls: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name="kafka-quotas", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel calls, close all connections and end the thread permanently. A second close does nothing."""
        self._check_thread()
        with self._starting:
            if not self._is_closed:
                self._is_closed = True
                _ = self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    @property
    def login_error(self) -> AuthenticationError | None:
        """See :attr:`QuotaClient.login_error`."""
        return self._client.login_error

    @property
    def other_cluster(self) -> WrongCluster | None:
        """See :attr:`QuotaClient.other_cluster`."""
        return self._client.other_cluster

    def cluster(self, *, timeout: float | None = None) -> Cluster:
        """See :meth:`QuotaClient.cluster`."""
        return self._run(self._client.cluster(timeout=timeout))

    def observe(
        self, *, scram_users: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """See :meth:`QuotaClient.observe`."""
        return self._run(self._client.observe(scram_users=scram_users, timeout=timeout))

    def describe(
        self, filter_: Filter = ALL, *, node: int | None = None, timeout: float | None = None
    ) -> QuotaState:
        """See :meth:`QuotaClient.describe`."""
        return self._run(self._client.describe(filter_, node=node, timeout=timeout))

    def resolve(
        self,
        principals: Iterable[Principal],
        *,
        keys: Collection[Key] = COLUMNS,
        timeout: float | None = None,
    ) -> Mapping[Principal, Resolution | QuotaValueError]:
        """See :meth:`QuotaClient.resolve`."""
        return self._run(self._client.resolve(principals, keys=keys, timeout=timeout))

    def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        """See :meth:`QuotaClient.alter`."""
        return self._run(
            self._client.alter(
                alterations,
                validate_only=validate_only,
                timeout=timeout,
                progress=progress,
                results=results,
            )
        )

    def alter_open(
        self,
        alterations: Sequence[OpenAlteration],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> Mapping[EntityParts, Result]:
        """See :meth:`QuotaClient.alter_open`."""
        return self._run(
            self._client.alter_open(alterations, validate_only=validate_only, timeout=timeout)
        )

    def wait_visible(
        self, expected: Sequence[Alteration], *, timeout: float = VISIBLE_SECONDS
    ) -> Visibility:
        """See :meth:`QuotaClient.wait_visible`."""
        return self._run(self._client.wait_visible(expected, timeout=timeout))

    def scram_users(
        self, names: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> Mapping[str, tuple[ScramCredential, ...]]:
        """See :meth:`QuotaClient.scram_users`."""
        return self._run(self._client.scram_users(names, timeout=timeout))

    def quota_callback(self, *, timeout: float | None = None) -> str | None:
        """See :meth:`QuotaClient.quota_callback`."""
        return self._run(self._client.quota_callback(timeout=timeout))

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_closed())

    async def _until_closed(self) -> None:
        _ = await self._stopped.wait()
        for task in self._calls:
            _ = task.cancel()
        _ = await asyncio.gather(*self._calls, return_exceptions=True)
        await self._client.close()

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a callable of this client must not call the client: it would wait for itself"
            )

    def _start(self, start: Callable[[], None]) -> None:
        self._check_thread()
        with self._starting:
            if self._is_closed:
                raise RuntimeError("this client is closed")
            _ = self._loop.call_soon_threadsafe(start)

    def _run(self, call: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a coroutine on the client's loop; returns or raises only after it has ended."""
        ended: futures.Future[_Answer] = futures.Future()
        tasks: list[asyncio.Task[_Answer]] = []

        def start() -> None:
            task = self._loop.create_task(call)
            tasks.append(task)
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
            task.add_done_callback(lambda task: _hand_over(task, ended))

        def stop() -> None:
            _ = tasks[0].cancel()

        try:
            self._start(start)
        except RuntimeError:
            call.close()
            raise
        try:
            return ended.result()
        except BaseException:
            if not ended.done():
                _ = self._loop.call_soon_threadsafe(stop)
                _ = futures.wait([ended])
            raise


def _hand_over(task: asyncio.Task[_Answer], ended: futures.Future[_Answer]) -> None:
    """Pass the result of a task to the thread that waits for it."""
    if task.cancelled():
        ended.set_exception(RuntimeError("this client was closed during the call"))
    elif (error := task.exception()) is not None:
        ended.set_exception(error)
    else:
        ended.set_result(task.result())
