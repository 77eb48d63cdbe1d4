"""Statuses that wait to be written by tasks of their own: of each document the newest one; namespaces take turns."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.base.protocols import Clock

_LOG: Final = logging.getLogger("reconciler.kube")

IN_FLIGHT: Final = 16
"""Concurrent writes: measured on two cores, more of them only wait in the API server."""

LONGEST_RETRY_SECONDS: Final = 300.0

StatusKey: TypeAlias = tuple[str, str]
"""A QuotaCluster and a document: a document that selects clusters has a status for each."""


class _WaitingStatus(Struct, kw_only=True, eq=False):
    """A status to write."""

    namespace: str
    key: StatusKey
    write: Callable[[], Awaitable[bool]]
    failures: int = 0  # failed attempts


class StatusQueue:
    """The statuses that one operator has to write."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        # By namespace, in the order of their turns.
        self._waiting: dict[str, dict[StatusKey, _WaitingStatus]] = {}
        # What is waiting, being written, or tried again later.
        self._newest: dict[StatusKey, _WaitingStatus] = {}
        self._writing: set[StatusKey] = set()
        self._arrived = asyncio.Event()

    def put(self, namespace: str, key: StatusKey, write: Callable[[], Awaitable[bool]]) -> None:
        """Add a status; it replaces an earlier one of the same document.

        Args:
            namespace: Namespaces take turns.
            key: One write of a key at a time.
            write: Computes and writes the status; returns whether it is done. Otherwise it is called again later.
        """
        self._place(_WaitingStatus(namespace=namespace, key=key, write=write))

    async def run(self) -> None:
        """Write statuses until cancelled."""
        self._arrived = asyncio.Event()
        self._arrived.set()
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                _ = group.create_task(self._write_next(group))

    async def _write_next(self, group: asyncio.TaskGroup) -> None:
        while True:
            _ = await self._arrived.wait()
            status = self._take()
            if status is None:
                self._arrived.clear()
                continue
            self._writing.add(status.key)
            try:
                is_done = await status.write()
            except Exception:  # noqa: BLE001 - the status of one document must not end those of others
                _LOG.exception("the status of %s failed; it is tried again", status.key[1])
                is_done = False
            finally:
                self._writing.discard(status.key)
                self._arrived.set()  # A newer one may have waited for this one.
            if self._newest.get(status.key) is not status:
                continue
            if is_done:
                del self._newest[status.key]
            else:
                _ = group.create_task(self._try_again(status))

    async def _try_again(self, status: _WaitingStatus) -> None:
        wait = min(2.0**status.failures, LONGEST_RETRY_SECONDS)
        await self._clock.sleep(wait)
        if self._newest.get(status.key) is status:
            status.failures = min(status.failures + 1, 16)
            self._place(status)

    def _place(self, status: _WaitingStatus) -> None:
        self._newest[status.key] = status
        self._waiting.setdefault(status.namespace, {})[status.key] = status
        self._arrived.set()

    def _take(self) -> _WaitingStatus | None:
        """Return the next status; of each namespace one in turn."""
        for namespace in list(self._waiting):
            statuses = self._waiting.pop(namespace)
            key = next((key for key in statuses if key not in self._writing), None)
            status = None if key is None else statuses.pop(key)
            if statuses:
                self._waiting[namespace] = statuses
            if status is not None:
                return status
        return None
