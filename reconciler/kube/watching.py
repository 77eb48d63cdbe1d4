"""Kopf as the watcher, and nothing else: handlers of a few lines that take note and wake a loop.

Measured reasons (Kopf 1.45): handlers by cause cost three writes an object and lose what happens in Kafka; indexes
start in quadratic time; timers and daemons put a finalizer on every object; errors of ``on.event`` are forgotten. So
every handler here only enqueues, retries are the loop's, and a resync lists everything again.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import kopf

from reconciler.kube.resources import CLIENT_QUOTAS, FINALIZER, GROUP, QUOTA_CLUSTERS, VERSION, Obj

Taken = Callable[[str, Obj], None]
"""``taken(type, object)``: type is ``ADDED``, ``MODIFIED``, ``DELETED``, or "" in an initial listing."""

BACKOFFS: Final = (0.2, 0.5, 1, 1, 2, 2, 3, 5)
"""Seconds between tries while the API server is away; Kopf's own reach 21 s, and a comeback then takes as long."""


def registry(
    *,
    client_quota: Taken | None = None,
    quota_cluster: Taken | None = None,
    secret: Taken | None = None,
) -> kopf.OperatorRegistry:
    """Handlers for the kinds that somebody wants to hear of."""
    made = kopf.OperatorRegistry()
    for taken, group, version, plural in (
        (client_quota, GROUP, VERSION, CLIENT_QUOTAS),
        (quota_cluster, GROUP, VERSION, QUOTA_CLUSTERS),
        (secret, "", "v1", "secrets"),
    ):
        if taken is not None:
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
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(
        settings=settings
    )


def settings(*, namespaced: bool) -> kopf.OperatorSettings:
    """Kopf's settings for a watcher that writes nothing.

    Args:
        namespaced: Whether only some namespaces are watched: then the cluster is not scanned for resources and
            namespaces, for which there may be no right (the first event would come after 54 s).
    """
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    made.scanning.disabled = namespaced
    made.persistence.finalizer = FINALIZER
    made.watching.chunk_size = 500
    made.networking.error_backoffs = BACKOFFS
    made.networking.connect_timeout = 10
    made.networking.request_timeout = 60
    return made


async def watch(
    handlers: kopf.OperatorRegistry, *, namespaces: Sequence[str], stop: asyncio.Event
) -> None:
    """Watch until ``stop`` is set.

    Args:
        handlers: From :func:`registry`.
        namespaces: Which ones; empty = all.
        stop: Ends it.
    """
    logging.getLogger("kopf").setLevel(logging.WARNING)
    await kopf.operator(
        registry=handlers,
        settings=settings(namespaced=bool(namespaces)),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=tuple(namespaces),
        stop_flag=stop,
    )
