"""Serves the loops of a process until a signal: probes, metrics, and an end in order.

Health and readiness are those of ``watch``, ``drift --watch`` and the operator:

Healthy: no reconciliation has lasted for more than half an hour. Only a restart corrects one that hangs, since every
call to a cluster has a deadline.

Ready: every loop has ended a reconciliation, and every loop and every source of its documents (the git branch, the
API server) was up to date at most three intervals ago. Whether a reconciliation succeeded does not count: another
process would not reach the cluster either. Metrics, alerts and logs report failures.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from reconciler.app.event_loop import signals_handled
from reconciler.app.loop.cluster_loop import ClusterLoop
from reconciler.app.notices import TextReceiver
from reconciler.app.requests import MetricsRequest
from reconciler.quota.results.report import Reconciliation

if TYPE_CHECKING:
    from reconciler.metrics import Metrics


class WatchMetrics(Protocol):
    """The part of ``metrics.Metrics`` that a loop over git uses."""

    def record(self, reconciliation: Reconciliation, /) -> None:
        """Record the end of a reconciliation."""

    def interval(self, cluster: str, seconds: float) -> None:
        """Set the interval of a cluster."""

    def queue(self, cluster: str, depth: int) -> None:
        """Set the number of waiting keys."""

    def batch(self, cluster: str, size: int) -> None:
        """Record the number of keys of a reconciliation."""

    def kafka(self, cluster: str, api: str, seconds: float) -> None:
        """Record the latency of a broker's response."""

    def revision(self, cluster: str, commit: str, *, is_refused: bool) -> None:
        """Set the metrics for the applied revision and for a refused newer revision."""

    def forget(self, cluster: str) -> None:
        """Remove the series of a cluster that is no longer served."""


class NoWatchMetrics:
    """Records nothing. Implements ``WatchMetrics``."""

    def _ignore(self, *_: object, **__: object) -> None:
        """Do nothing."""

    record = interval = queue = batch = kafka = revision = forget = _ignore


def metrics_of(serving: MetricsRequest) -> "Metrics | None":
    """Return the metrics, if an address was typed.

    Raises:
        UsageError: The extra is not installed.
    """
    if serving.address is None:
        return None
    from reconciler.base.installation import needs

    needs("watch", "--metrics-address")
    from reconciler.metrics import Metrics

    return Metrics(entity_labels=serving.entity_labels)


@contextlib.asynccontextmanager
async def serve_metrics(
    notices: TextReceiver,
    serving: MetricsRequest,
    metrics: "Metrics | None",
    *,
    healthy: Callable[[], Sequence[str]],
    ready: Callable[[], Sequence[str]],
) -> AsyncIterator[None]:
    """Run the server while the context lasts; do nothing if no address was typed.

    Raises:
        ConfigError: It cannot listen there.
    """
    if metrics is None or serving.address is None:
        yield
        return
    from reconciler.metrics import HealthServer, address

    endpoint = address(serving.address)
    async with HealthServer(endpoint, metrics=metrics, healthy=healthy, ready=ready) as server:
        notices.note(f"metrics and probes on {endpoint.host or '*'}:{server.port}")
        yield


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


LONGEST_SECONDS: Final = 1800.0
"""A reconciliation that lasts longer hangs."""

LATE_INTERVALS: Final = 3
"""Number of intervals without an update after which a loop or a source is late."""

GRACE_SECONDS: Final = 120.0
"""Additional time for retries, calls in flight and varying intervals."""


def hung_loops(loops: Iterable[ClusterLoop], now: float) -> list[str]:
    """Return the loops whose reconciliation does not end, for liveness probes.

    Args:
        now: Seconds since the epoch.
    """
    return [
        f"{loop.name}: a reconciliation has lasted for {now - loop.last_started:.0f} s"
        for loop in loops
        if loop.is_running
        and loop.last_started is not None
        and now - loop.last_started > LONGEST_SECONDS
    ]


def late_loops(loops: Iterable[ClusterLoop], now: float) -> list[str]:
    """Return the loops that have not reconciled yet, or not for too long, for readiness probes.

    A running reconciliation is not late: its duration is a matter of health.

    Args:
        now: Seconds since the epoch.
    """
    problems: list[str] = []
    for loop in loops:
        if loop.last_ended is None:
            problems.append(f"{loop.name}: first reconciliation pending")
        elif not loop.is_running and is_late(loop.last_ended, loop.interval, now):
            problems.append(f"{loop.name}: no reconciliation for {now - loop.last_ended:.0f} s")
    return problems


def is_late(last: float, interval: float, now: float) -> bool:
    """Whether something that should happen every ``interval`` seconds has not happened for too long."""
    return now - last > LATE_INTERVALS * interval + GRACE_SECONDS
