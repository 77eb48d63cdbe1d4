"""Uses Kopf as a watcher only: its handlers enqueue events and wake a loop.

Measured reasons (Kopf 1.45): handlers by cause cost three writes per object and miss changes in Kafka; indexes start
in quadratic time; timers and daemons add a finalizer to every object; errors of ``on.event`` are lost. So every
handler here only enqueues, the loop retries, and a resync lists everything again.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import replace
from typing import Any, Final

from reconciler.kube.api.access import pod_host
from reconciler.kube.api.custom_resources import Obj, Resource, parsed
from reconciler.kube.watch.kopf_seam import (
    NoDifferences,
    NoMemories,
    NoProgress,
    error_text,
    kopf,
    watch_end,
)

EventHandler = Callable[[str, Resource], object]
"""``taken(type, object)``: type is ``ADDED``, ``MODIFIED``, ``DELETED``, or "" in an initial listing."""

RawHandler = Callable[[str, Obj], object]
"""The same with the object as Kopf has it."""

AT_ONCE: Final = 100
"""Events delivered before other work of the loop gets its turn."""


class EventBuffer:
    """Events of one kind of object, from Kopf's thread to the operator's loop: the newest of each object, in batches.

    A burst of events takes no more memory than its objects, and the loop does other
    work between two batches.

    Args:
        loop: The event loop in which ``deliver`` is called.
        deliver: Receives the newest event of each object, in order of arrival.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: EventHandler) -> None:
        self._loop, self._deliver = loop, deliver
        self._lock = threading.Lock()
        self._events: dict[str, tuple[str, Resource]] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._events)

    def put(self, kind: str, obj: Obj) -> None:
        """Put an event; callable from any thread, in which the object is parsed."""
        resource = parsed(obj)
        key = resource.uid or resource.document
        with self._lock:
            previous = self._events.pop(key, None)
            # A change remains a change if a listing reports the same object later.
            self._events[key] = kind or ("" if previous is None else previous[0]), resource
            schedules, self._is_scheduled = not self._is_scheduled, True
        if schedules:
            with contextlib.suppress(RuntimeError):  # The loop is closed at the end of the process.
                _ = self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            keys = [key for key, _ in zip(self._events, range(AT_ONCE), strict=False)]
            events = [self._events.pop(key) for key in keys]
            self._is_scheduled = bool(self._events)
            if self._is_scheduled:
                _ = self._loop.call_soon(self._hand_over)
        for kind, obj in events:
            self._deliver(kind, obj)


END_SECONDS: Final = 5.0
"""Seconds that Kopf may take to end; its daemon thread does not block the exit of the process."""

KOPFS_FINALIZER: Final = "kafka-quotas.io/never-put-on"

FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 60.0
"""Seconds before all watches restart: first, and maximum."""

_LOG: Final = logging.getLogger("reconciler.kube")

BACKOFFS: Final = (0.2, 0.5, 1, 1, 2, 2, 3, 5)
"""Seconds between attempts while the API server is unavailable; Kopf's default reaches 21 s, which delays recovery."""


def registry(kinds: Mapping[tuple[str, str, str], RawHandler]) -> kopf.OperatorRegistry:
    """Return handlers for the watched kinds (group, version, plural)."""
    operator_registry = kopf.OperatorRegistry()
    for (group, version, plural), deliver in kinds.items():
        _ = kopf.on.event(group=group, version=version, plural=plural, registry=operator_registry)(
            _handler(deliver)
        )
    _ = kopf.on.login(registry=operator_registry, errors=kopf.ErrorsMode.IGNORED)(_login)
    return operator_registry


def _handler(deliver: RawHandler) -> Callable[..., Any]:
    async def handle(*, event: Mapping[str, Any], **_: object) -> None:
        deliver(event["type"] or "", event["object"])

    return handle


def _login(*, settings: kopf.OperatorSettings, **_: object) -> kopf.ConnectionInfo | None:
    """Log in as the pod's service account, unless KUBECONFIG is set; Kopf calls it again after a 401."""
    pod = None
    if "KUBECONFIG" not in os.environ:
        pod = kopf.login_with_service_account(settings=settings)
        if pod is not None and (host := pod_host()):
            # Kopf uses a host name: watching would depend on the cluster's DNS, which nothing else here needs.
            pod = replace(pod, server=host)
    return pod or kopf.login_with_kubeconfig(settings=settings)


def settings() -> kopf.OperatorSettings:
    """Return Kopf's settings for a watcher that writes nothing.

    Kopf does not watch for new kinds and namespaces: the chart grants no permission, and Kopf would retry nine times.
    """
    operator_settings = kopf.OperatorSettings()
    operator_settings.posting.enabled = False
    operator_settings.scanning.disabled = True
    # Kopf removes its own finalizer from objects without deletion handlers: it must not be the operator's finalizer.
    operator_settings.persistence.diffbase_storage = NoDifferences()
    operator_settings.persistence.progress_storage = NoProgress()
    operator_settings.persistence.finalizer = KOPFS_FINALIZER
    # Kopf reads whole objects, annotations included; their authors decide how large they are.
    operator_settings.watching.chunk_size = 50
    # By default one worker per object, idle for 5 s: thousands after each listing. The objects of a listing wait for
    # a worker as they were parsed, so idle workers would keep most of a large listing in memory.
    operator_settings.queueing.worker_limit = 64
    operator_settings.queueing.idle_timeout = 0.005
    # A stop drops the events that wait for a worker, thousands after a listing: the next process lists.
    operator_settings.queueing.exit_timeout = 0.0
    operator_settings.networking.error_backoffs = BACKOFFS
    operator_settings.networking.connect_timeout = 10
    operator_settings.networking.request_timeout = 60
    return operator_settings


async def watch(
    kinds: Mapping[tuple[str, str, str], EventHandler],
    *,
    namespaces: Sequence[str],
    stop: asyncio.Event,
) -> None:
    """Watch until ``stop`` is set.

    Kopf runs in its own thread and loop: at its end it cancels every task that it did not start, and in a main thread
    it replaces the signal handlers.

    Args:
        kinds: Handlers by group, version and plural; called in the caller's loop.
        namespaces: The watched namespaces; empty = all.
        stop: Ends the watch.

    Raises:
        Exception: The error that ended Kopf.
    """
    logging.getLogger("kopf").setLevel(logging.CRITICAL)  # We log the relevant events ourselves.
    caller_loop = asyncio.get_running_loop()
    halt, end = Future[None](), Future[None]()
    handlers = registry(
        {kind: EventBuffer(caller_loop, deliver).put for kind, deliver in kinds.items()}
    )

    def body() -> None:
        try:
            _run_with_restarts(handlers, [kind[2] for kind in kinds], namespaces, halt)
        except BaseException as error:  # noqa: BLE001 - raised again in the other thread
            end.set_exception(error)
        else:
            end.set_result(None)

    _ = end.set_running_or_notify_cancel()  # A caller that does not wait any more cannot cancel it.
    ended = asyncio.wrap_future(end)
    threading.Thread(target=body, name="kopf", daemon=True).start()
    stopping = asyncio.ensure_future(stop.wait())
    try:
        _ = await asyncio.wait({stopping, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        _ = stopping.cancel()
        halt.set_result(None)
        _ = await asyncio.wait({ended}, timeout=END_SECONDS)
    if ended.done():
        ended.result()
    else:
        _ = ended.cancel()  # The thread may end after this loop.


def _run_with_restarts(
    handlers: kopf.OperatorRegistry,
    plurals: Sequence[str],
    namespaces: Sequence[str],
    halt: "Future[None]",
) -> None:
    """Watch until ``halt`` is done; restart whenever a watch ends.

    If a permission is missing for a while or a kind is not served, Kopf ends a watch permanently and continues
    without it, or ends as a whole: events would be missed silently. A restart lists first, so only deletions are
    missed, which complete listings find.
    """
    pause = FIRST_PAUSE
    while not halt.done():
        started = time.monotonic()
        try:
            reason = asyncio.run(_kopf(handlers, plurals, namespaces, halt))
        except Exception as error:  # noqa: BLE001 - of which class is Kopf's own business
            reason = f"the watch ended: {error_text(error)}"
        if halt.done() or not reason:
            return
        if time.monotonic() - started > LONGEST_PAUSE:
            pause = FIRST_PAUSE
        _LOG.warning("%s; watches restart in %g s", reason, pause)
        _ = wait_for({halt}, timeout=pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def ignore_abandoned_tasks(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle an error of Kopf's loop as usual, unless it is the exception of a task that Kopf left.

    A stop closes Kopf's connections, and requests under way fail, such as those for the served kinds at the start. The
    failure of a watch is returned by :func:`reconciler.kube.watch.kopf_seam.watch_end`.
    """
    if not isinstance(context.get("future"), asyncio.Task):
        loop.default_exception_handler(context)


async def _kopf(
    handlers: kopf.OperatorRegistry,
    plurals: Sequence[str],
    namespaces: Sequence[str],
    halt: "Future[None]",
) -> str:
    """Watch until ``halt`` is done or a watch ended; return which one, and why."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(ignore_abandoned_tasks)

    def stop(_: "Future[None]") -> None:
        with contextlib.suppress(RuntimeError):  # Kopf's loop is closed: it ended before.
            loop.call_soon_threadsafe(over.set)

    async def until_end() -> str:
        reason = await watch_end(plurals, over)
        over.set()
        return reason

    halt.add_done_callback(stop)
    ending = asyncio.ensure_future(until_end())
    try:
        await kopf.operator(
            registry=handlers,
            settings=settings(),
            memories=NoMemories(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=tuple(namespaces),
            stop_flag=over,
        )
    finally:
        over.set()
        reason = await ending
    return reason
