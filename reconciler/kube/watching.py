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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from reconciler.kube.access import pod_host
from reconciler.kube.kopf_alone import kopf
from reconciler.kube.resources import Obj

Taken = Callable[[str, Obj], object]
"""``taken(type, object)``: type is ``ADDED``, ``MODIFIED``, ``DELETED``, or "" in an initial listing."""

END_SECONDS: Final = 5.0
"""How long Kopf may take to end; its thread does not keep the process."""

KOPFS_FINALIZER: Final = "kafka-quotas.io/never-put-on"

BACKOFFS: Final = (0.2, 0.5, 1, 1, 2, 2, 3, 5)
"""Seconds between tries while the API server is away; Kopf's own reach 21 s, and a comeback then takes as long."""


def registry(kinds: Mapping[tuple[str, str, str], Taken]) -> kopf.OperatorRegistry:
    """Handlers for the kinds (group, version, plural) that somebody wants to hear of."""
    made = kopf.OperatorRegistry()
    for (group, version, plural), taken in kinds.items():
        _ = kopf.on.event(group=group, version=version, plural=plural, registry=made)(
            _handler(taken)
        )
    _ = kopf.on.login(registry=made, errors=kopf.ErrorsMode.IGNORED)(_login)
    return made


def _handler(taken: Taken) -> Callable[..., Any]:
    async def handle(*, event: Mapping[str, Any], **_: object) -> None:
        taken(event["type"] or "", event["object"])

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
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = True
    # Kopf takes its own finalizer off whatever no handler of deletions needs it on: ours must not be its own.
    made.persistence.finalizer = KOPFS_FINALIZER
    made.watching.chunk_size = 250
    # A worker per object, idle for 5 s by default: five thousand of them after each listing.
    made.queueing.worker_limit = 64
    made.queueing.idle_timeout = 0.1
    made.networking.error_backoffs = BACKOFFS
    made.networking.connect_timeout = 10
    made.networking.request_timeout = 60
    return made


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
        kinds: Group, version and plural -> who is told; called in our own loop.
        namespaces: Which ones; empty = all.
        stop: Ends it.

    Raises:
        Exception: What Kopf died of.
    """
    logging.getLogger("kopf").setLevel(logging.ERROR)
    ours = asyncio.get_running_loop()
    ended: asyncio.Future[None] = ours.create_future()
    halt = threading.Event()
    handlers = registry({kind: partial(_in_loop, ours, taken) for kind, taken in kinds.items()})

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
            asyncio.run(_kopf(handlers, namespaces, halt))
        except BaseException as caught:  # noqa: BLE001 - whatever it died of is told in the other thread
            error = caught
        with contextlib.suppress(RuntimeError):  # Our loop may be closed by now.
            _ = ours.call_soon_threadsafe(tell_end, error)

    threading.Thread(target=body, name="kopf", daemon=True).start()
    stopping = asyncio.ensure_future(stop.wait())
    try:
        _ = await asyncio.wait({stopping, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        _ = stopping.cancel()
        halt.set()
        _ = await asyncio.wait({ended}, timeout=END_SECONDS)
    if ended.done():
        ended.result()


def _in_loop(loop: asyncio.AbstractEventLoop, taken: Taken, kind: str, obj: Obj) -> None:
    """From Kopf's thread into our loop."""
    with contextlib.suppress(RuntimeError):  # It is closed at the end of the process.
        _ = loop.call_soon_threadsafe(taken, kind, obj)


async def _kopf(
    handlers: kopf.OperatorRegistry, namespaces: Sequence[str], halt: threading.Event
) -> None:
    await kopf.operator(
        registry=handlers,
        settings=settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=tuple(namespaces),
        stop_flag=halt,
    )
