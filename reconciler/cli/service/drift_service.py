"""``kquota drift --watch``, put together: a loop per cluster, the receivers, and Prometheus."""

import asyncio
import contextlib
import gc
import json
import random
from collections.abc import Mapping, Sequence

from reconciler.app.clusters.targets import ClusterTarget
from reconciler.app.drift.notifications import DriftNotifications
from reconciler.app.drift.watcher import (
    DriftWatcher,
    DriftWatchOptions,
)
from reconciler.app.event_loop import run
from reconciler.app.loop.cluster_loop import ClusterLoop
from reconciler.app.loop.health import hung_loops, late_loops
from reconciler.app.loop.mailbox import Mailbox
from reconciler.app.loop.task_supervisor import supervise
from reconciler.app.requests import MetricsRequest, NotificationRequest
from reconciler.base.clock import SystemClock
from reconciler.base.protocols import Clock
from reconciler.cli.framework.console import Console
from reconciler.cli.framework.exit_codes import ExitCode
from reconciler.cli.service.metrics_endpoint import (
    loops_speak,
    metrics_of,
    served,
)
from reconciler.cli.service.sandbox import USUAL_COLLECTION
from reconciler.errors import TaskDied
from reconciler.notify import ClusterDrift, Message, Notifier, document, drift_of
from reconciler.notify.message_text import headline, lines
from reconciler.quota.results.report import Reconciliation
from reconciler.render.units import instant


class ConsoleReceiver:
    """Standard output, as a receiver of messages.

    Args:
        console: Where standard output is.
        output: ``text``: a headline and a line per pair; ``json``: one message per line.
    """

    name = "standard output"

    def __init__(self, console: Console, output: str) -> None:
        self._console, self._output = console, output

    async def take(self, message: Message) -> None:
        """Print it at once: the reader may be a pipe."""
        if self._output == "json":
            self._console.fact(json.dumps(document(message), sort_keys=True))
        else:
            message_lines = [f"{instant(message.at)} {headline(message)}"]
            self._console.fact(
                "\n".join([*message_lines, *(f"  {line}" for line in lines(message))])
            )
        self._console.flush()


def watch(
    console: Console,
    targets: Sequence[ClusterTarget],
    watching: DriftWatchOptions,
    telling: NotificationRequest,
    *,
    serving: MetricsRequest,
    output: str,
) -> ExitCode:
    """Look until stopped; being stopped is the normal end, so that is exit 0."""
    gc.set_threshold(USUAL_COLLECTION)
    clock = SystemClock()
    metrics = metrics_of(serving)
    reader = Notifier([ConsoleReceiver(console, output)], remind_after=telling.remind_after)
    voice = DriftNotifications(console, telling, targets[0].root, clock)

    async def heard(reconciliation: Reconciliation) -> None:
        drift = cluster_drift(reconciliation)
        if drift is not None:
            _ = await reader.notify(drift, now=reconciliation.ended_at)
            _ = await voice.notify(drift, reconciliation.ended_at)

    lookouts = [
        DriftWatcher(console, target, watching, clock=clock, on_reconciled=heard, metrics=metrics)
        for target in targets
    ]

    async def work() -> None:
        loops = {watcher.name: _loop_of(watcher, clock) for watcher in lookouts}
        async with served(
            console,
            serving,
            metrics,
            healthy=lambda: hung_loops(loops.values(), clock.now()),
            ready=lambda: late_loops(loops.values(), clock.now()),
        ):
            await _run_loops(loops, lookouts)

    with loops_speak(console), contextlib.suppress(KeyboardInterrupt):
        try:
            run(work())
        except TaskDied as died:
            if isinstance(died.reason, BrokenPipeError):
                raise died.reason from None  # The reader of standard output is gone: no message is needed.
            raise
    console.note("stopped")
    return ExitCode.DONE


def cluster_drift(reconciliation: Reconciliation) -> ClusterDrift | None:
    """What drifts as far as a look could see; ``None`` where it saw nothing."""
    if reconciliation.error is not None or reconciliation.preview is None:
        return None
    return drift_of(
        reconciliation.cluster,
        reconciliation.preview.plan.cluster_id,
        reconciliation.observations,
        reconciliation.expired_overrides,
    )


def _loop_of(watcher: DriftWatcher, clock: Clock) -> ClusterLoop:
    return ClusterLoop(
        watcher.name,
        mailbox=Mailbox(clock=clock),
        work=watcher.turn,
        pace=watcher.rhythm,
        clock=clock,
        random=random.SystemRandom().random,
    )


async def _run_loops(loops: Mapping[str, ClusterLoop], lookouts: Sequence[DriftWatcher]) -> None:
    stop = asyncio.Event()
    try:
        await supervise({name: loop.run(stop) for name, loop in loops.items()}, stop)
    finally:
        for watcher in lookouts:
            await watcher.close()
