"""Serves the loops of a process until a signal: probes, metrics, and an end in order."""

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from reconciler.app.event_loop import signals_handled
from reconciler.app.loop.metrics_endpoint import serve_metrics
from reconciler.app.notices import TextReceiver
from reconciler.app.requests import MetricsRequest

if TYPE_CHECKING:
    from reconciler.metrics import Metrics

_LOG: Final = logging.getLogger("reconciler.watch")


class ServedLoops(Protocol):
    """The loops of a process."""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set.

        Raises:
            TaskDied: A loop ended or failed.
        """

    def enqueue(self, key: str) -> None:
        """Request a reconciliation of everything."""

    def healthy(self) -> Sequence[str]:
        """Return what a restart would correct."""
        ...

    def ready(self) -> Sequence[str]:
        """Return what is not up to date."""
        ...


def serve_loops(
    notices: TextReceiver,
    loops: ServedLoops,
    serving: MetricsRequest,
    metrics: "Metrics | None",
    *,
    subject: str,
) -> signal.Signals:
    """Run the loops until a signal is received; return the signal.

    Args:
        subject: What is watched, for the log.

    Raises:
        ConfigError: The address of metrics and probes cannot be used.
        TaskDied: A loop ended or failed.
        KeyboardInterrupt: A second signal was received.
    """
    try:
        return asyncio.run(_serve(notices, loops, serving, metrics, subject))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _serve(
    notices: TextReceiver,
    loops: ServedLoops,
    serving: MetricsRequest,
    metrics: "Metrics | None",
    subject: str,
) -> signal.Signals:
    stop, signals = asyncio.Event(), [signal.SIGTERM]
    with signals_handled(_signal_handlers(loops, stop, signals)):
        async with serve_metrics(
            notices, serving, metrics, healthy=loops.healthy, ready=loops.ready
        ):
            _LOG.info("watching %s", subject)
            await loops.run(stop)
    _LOG.info("stopped")
    return signals[-1]


def _signal_handlers(
    loops: ServedLoops, stop: asyncio.Event, signals: list[signal.Signals]
) -> Mapping[signal.Signals, Callable[[], object]]:
    """SIGTERM and Ctrl-C stop gracefully, a second one at once; SIGHUP requests a reconciliation."""
    task = asyncio.current_task()

    def end(received: signal.Signals) -> None:
        if stop.is_set() and task is not None:
            _ = task.cancel()
            return
        _LOG.info("%s: ending after the request under way", received.name)
        signals.append(received)
        stop.set()

    return {
        signal.SIGTERM: partial(end, signal.SIGTERM),
        signal.SIGINT: partial(end, signal.SIGINT),
        signal.SIGHUP: partial(loops.enqueue, "SIGHUP"),
    }
