"""Kopf as the watcher, and nothing else: handlers of a few lines that take note and wake a loop.

Measured reasons (Kopf 1.45): handlers by cause cost three writes an object and lose what happens in Kafka; indexes
start in quadratic time; timers and daemons put a finalizer on every object; errors of ``on.event`` are forgotten. So
every handler here only enqueues, retries are the loop's, and a resync lists everything again.
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
from reconciler.kube.watch.event_buffer import EventBuffer, Taken
from reconciler.kube.watch.kopf_seam import (
    NoDifferences,
    NoProgress,
    error_text,
    kopf,
    watch_end,
)

END_SECONDS: Final = 5.0
"""How long Kopf may take to end; its thread does not keep the process."""

KOPFS_FINALIZER: Final = "kafka-quotas.io/never-put-on"

FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 60.0
"""Seconds before everything is watched anew: first, and at most."""

_LOG: Final = logging.getLogger("reconciler.kube")

BACKOFFS: Final = (0.2, 0.5, 1, 1, 2, 2, 3, 5)
"""Seconds between tries while the API server is away; Kopf's own reach 21 s, and a comeback then takes as long."""


def registry(kinds: Mapping[tuple[str, str, str], Taken]) -> kopf.OperatorRegistry:
    """Handlers for the kinds (group, version, plural) that are watched."""
    operator_registry = kopf.OperatorRegistry()
    for (group, version, plural), deliver in kinds.items():
        _ = kopf.on.event(group=group, version=version, plural=plural, registry=operator_registry)(
            _handler(deliver)
        )
    _ = kopf.on.login(registry=operator_registry, errors=kopf.ErrorsMode.IGNORED)(_login)
    return operator_registry


def _handler(deliver: Taken) -> Callable[..., Any]:
    async def handle(*, event: Mapping[str, Any], **_: object) -> None:
        deliver(event["type"] or "", event["object"])

    return handle


def _login(*, settings: kopf.OperatorSettings, **_: object) -> kopf.ConnectionInfo | None:
    """As the pod that we are, unless a kubeconfig was named; read anew whenever the server knows us no more."""
    pod = None
    if "KUBECONFIG" not in os.environ:
        pod = kopf.login_with_service_account(settings=settings)
        if pod is not None and (host := pod_host()):
            # Kopf goes by a name: watching would hang on the cluster's DNS, which nothing else here needs.
            pod = replace(pod, server=host)
    return pod or kopf.login_with_kubeconfig(settings=settings)


def settings() -> kopf.OperatorSettings:
    """Kopf's settings for a watcher that writes nothing.

    It does not watch for new kinds and namespaces: the chart gives no right to, and Kopf would ask nine times.
    """
    operator_settings = kopf.OperatorSettings()
    operator_settings.posting.enabled = False
    operator_settings.scanning.disabled = True
    # Kopf takes its own finalizer off whatever no handler of deletions needs it on: ours must not be its own.
    operator_settings.persistence.diffbase_storage = NoDifferences()
    operator_settings.persistence.progress_storage = NoProgress()
    operator_settings.persistence.finalizer = KOPFS_FINALIZER
    # Kopf reads objects whole, annotations and all; how large they are is up to their authors.
    operator_settings.watching.chunk_size = 50
    # A worker per object, idle for 5 s by default: five thousand of them after each listing.
    operator_settings.queueing.worker_limit = 64
    operator_settings.queueing.idle_timeout = 0.1
    operator_settings.networking.error_backoffs = BACKOFFS
    operator_settings.networking.connect_timeout = 10
    operator_settings.networking.request_timeout = 60
    return operator_settings


async def watch(
    kinds: Mapping[tuple[str, str, str], Taken],
    *,
    namespaces: Sequence[str],
    stop: asyncio.Event,
) -> None:
    """Watch until ``stop`` is set.

    Kopf has a thread and a loop of its own: at its end it cancels whatever task it did not begin itself, and in a
    main thread it takes over the signals.

    Args:
        kinds: Group, version and plural -> the handler; called in our own loop.
        namespaces: Which ones; empty = all.
        stop: Ends it.

    Raises:
        Exception: What Kopf died of.
    """
    logging.getLogger("kopf").setLevel(logging.CRITICAL)  # What matters of it we say ourselves.
    caller_loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = caller_loop.create_future()
    halt: Future[None] = Future()
    handlers = registry(
        {kind: EventBuffer(caller_loop, deliver).put for kind, deliver in kinds.items()}
    )

    def tell_end(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def body() -> None:
        error: BaseException | None = None
        try:
            _run_with_restarts(handlers, [kind[2] for kind in kinds], namespaces, halt)
        except BaseException as caught:  # noqa: BLE001 - whatever it died of is raised in the other thread
            error = caught
        with contextlib.suppress(RuntimeError):  # Our loop may be closed by now.
            _ = caller_loop.call_soon_threadsafe(tell_end, error)

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


def _run_with_restarts(
    handlers: kopf.OperatorRegistry,
    plurals: Sequence[str],
    namespaces: Sequence[str],
    halt: "Future[None]",
) -> None:
    """Watch until it is halted, and anew whenever a part of it ended.

    Kopf ends a watch for good over a right that is missing for a while or a kind that is not served, and goes on
    without it, or ends as a whole: nothing would be heard any more, whatever happens. One that is begun anew lists
    first, so that nothing is missed but deletions, which complete listings find.
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
        _LOG.warning("%s; everything is watched anew in %g s", reason, pause)
        _ = wait_for({halt}, timeout=pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _kopf(
    handlers: kopf.OperatorRegistry,
    plurals: Sequence[str],
    namespaces: Sequence[str],
    halt: "Future[None]",
) -> str:
    """Watch until it is halted or one of its watches ended; which one, and why."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()

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
            standalone=True,
            clusterwide=not namespaces,
            namespaces=tuple(namespaces),
            stop_flag=over,
        )
    finally:
        over.set()
        reason = await ending
    return reason
