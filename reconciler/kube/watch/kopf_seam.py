"""Everything assumed of Kopf beyond its documentation; `tests/kube/watch/test_kopf_seam.py` checks each assumption.

- Kopf imports the official Kubernetes client for two of its classes. Not importing it saves 19 MB of a pod's memory;
  the classes matter only to handlers that receive the client's objects.
- Its storages compare each object with an earlier copy: three deep copies per event, a third of all CPU if events are
  responses to the operator's status writes. The storages here compare and store nothing.
- It remembers an entry of 650 bytes for each object. The memories here remember nothing.
- A watch that fails permanently ends its task, and Kopf continues without it. The tasks are identified by name only.
"""

import asyncio
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

CLIENT: Final = "kubernetes"

WATCHER: Final = "watcher for "
"""Prefix of the names of the tasks in which Kopf watches, one per kind and namespace."""

START_SECONDS: Final = 20.0
"""Maximum time until every kind is watched."""

POLL_SECONDS: Final = 0.25
"""Seconds between two checks for the tasks, until every kind has one."""


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Within the context the package cannot be imported, unless it was imported before."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # as importlib documents it: the import fails
    try:
        yield
    finally:
        del sys.modules[name]


with _without(CLIENT):
    import kopf
    from kopf._cogs.structs.ephemera import AnyMemo
    from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory


# Kopf stores and decides nothing: docs/adr/kopf-as-watcher.md.
class NoDifferences(kopf.DiffBaseStorage):
    """Every object compares as empty."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> Any:  # noqa: ANN401, ARG002 - Kopf's
        """Return an empty essence."""
        return {}

    def fetch(self, *, body: kopf.Body) -> None:  # noqa: ARG002 - Kopf's
        """Return no earlier state."""
        return

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: Any) -> None:  # noqa: ANN401 - Kopf's
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """Stores no progress: no handler is ever interrupted."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None:  # noqa: ANN401, ARG002 - Kopf's
        """Return no progress."""
        return

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:  # noqa: ANN401 - Kopf's
        """Store nothing."""

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:  # noqa: ANN401 - Kopf's
        """Do nothing: nothing is stored."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: Any) -> None:  # noqa: ANN401 - Kopf's
        """Write nothing."""

    def clear(self, *, essence: Any) -> Any:  # noqa: ANN401 - Kopf's
        """Return the essence unchanged: it contains nothing of this storage."""
        return essence


class NoMemories(ResourceMemories):
    """Remembers no object: timers, daemons and indexes need memories, and handlers of events do not."""

    async def recall(
        self,
        raw_body: kopf.RawBody,
        *,
        memobase: AnyMemo | None = None,
        noticed_by_listing: bool = False,
        ephemeral: bool = True,
    ) -> ResourceMemory:
        """Return a new memory for each event."""
        del ephemeral
        return await super().recall(
            raw_body, memobase=memobase, noticed_by_listing=noticed_by_listing, ephemeral=True
        )


async def watch_end(plurals: Collection[str], stop: asyncio.Event) -> str:
    """Wait until one of Kopf's watches ends; polls until the tasks exist, then waits for them.

    Args:
        stop: Set when Kopf has to stop.

    Returns:
        Which watch ended, and why; "" = ``stop`` was set first.
    """
    stopping = asyncio.ensure_future(stop.wait())
    try:
        tasks = await _watch_tasks(plurals, stopping)
        missing = [plural for plural in plurals if not _are_watched(plural, tasks)]
        if not missing and not stopping.done():
            _ = await asyncio.wait({*tasks.values(), stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        _ = stopping.cancel()
    if stop.is_set():
        return ""
    for name, task in tasks.items():
        if task.done():
            error = None if task.cancelled() else task.exception()
            return f"the {name} ended: {error_text(error)}"
    return f"the API server does not serve {', '.join(missing)}"


async def _watch_tasks(
    plurals: Collection[str], stopping: "asyncio.Task[object]"
) -> "Mapping[str, asyncio.Task[object]]":
    """Return the watch tasks by name once every kind has one, one of them ended, or the time is up."""
    tasks: dict[str, asyncio.Task[object]] = {}
    until = time.monotonic() + START_SECONDS
    while True:
        for task in asyncio.all_tasks():
            if task.get_name().startswith(WATCHER):
                tasks[task.get_name()] = task
        complete = all(_are_watched(plural, tasks) for plural in plurals)
        ended = any(task.done() for task in tasks.values())
        if complete or ended or stopping.done() or time.monotonic() > until:
            return tasks
        _ = await asyncio.wait({stopping}, timeout=POLL_SECONDS)


def _are_watched(plural: str, names: Collection[str]) -> bool:
    return any(name.startswith(WATCHER + plural) for name in names)


def error_text(error: BaseException | None) -> str:
    """Return the first argument of Kopf's error: the rest is the complete response of the API server."""
    if error is None:
        return "it was cancelled"
    return str(error.args[0]) if error.args else type(error).__name__


__all__ = [
    "WATCHER",
    "NoDifferences",
    "NoMemories",
    "NoProgress",
    "error_text",
    "kopf",
    "watch_end",
]
