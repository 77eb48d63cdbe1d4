"""``kquota drift --watch``, put together: a loop per cluster, whoever is told, and Prometheus."""

import asyncio
import contextlib
import gc
import json
import random
from collections.abc import Sequence

from reconciler.cli.console import Console
from reconciler.cli.exits import Exit
from reconciler.cli.lookout import Lookout, Watching, stuck, unready
from reconciler.cli.notifying import Telling, Voice
from reconciler.cli.running import run
from reconciler.cli.sandbox import USUAL_COLLECTION
from reconciler.cli.serving import Serving, loops_speak, metrics_of, served
from reconciler.cli.where import Target
from reconciler.client.clock import SystemClock
from reconciler.errors import TaskDied
from reconciler.loop.cluster_loop import ClusterLoop
from reconciler.loop.mailbox import Mailbox
from reconciler.loop.supervise import supervise
from reconciler.notify import Drift, Message, Notifier, document, drift_of
from reconciler.notify.words import headline, lines
from reconciler.ports import Clock
from reconciler.quota.report import Pass
from reconciler.render.units import instant


class Reader:
    """Whoever reads standard output, as a receiver of messages.

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
            told = [f"{instant(message.at)} {headline(message)}"]
            self._console.fact("\n".join([*told, *(f"  {line}" for line in lines(message))]))
        self._console.flush()


def watch(
    console: Console,
    targets: Sequence[Target],
    watching: Watching,
    telling: Telling,
    *,
    serving: Serving,
    output: str,
) -> Exit:
    """Look until somebody stops it; being stopped is what it is for, so that is exit 0."""
    gc.set_threshold(USUAL_COLLECTION)
    clock = SystemClock()
    metrics = metrics_of(serving)
    reader = Notifier([Reader(console, output)], remind_after=telling.remind_after)
    voice = Voice(console, telling, targets[0].root, clock)

    async def heard(made: Pass) -> None:
        found = found_by(made)
        if found is not None:
            _ = await reader.look(found, now=made.ended_at)
            _ = await voice.tell(found, made.ended_at)

    lookouts = [
        Lookout(console, one, watching, clock=clock, heard=heard, metrics=metrics)
        for one in targets
    ]

    async def work() -> None:
        healthy, ready = (lambda: stuck(lookouts, clock.now())), (lambda: unready(lookouts))
        async with served(console, serving, metrics, healthy=healthy, ready=ready):
            await _looking(lookouts, clock)

    with loops_speak(console), contextlib.suppress(KeyboardInterrupt):
        try:
            run(work())
        except TaskDied as died:
            if isinstance(died.reason, BrokenPipeError):
                raise died.reason from None  # Whoever read standard output went away: no reason for words.
            raise
    console.note("stopped")
    return Exit.DONE


def found_by(made: Pass) -> Drift | None:
    """What drifts as far as a look could see; ``None`` where it saw nothing."""
    if made.error is not None or made.preview is None:
        return None
    return drift_of(
        made.cluster, made.preview.plan.cluster_id, made.sightings, made.expired_overrides
    )


async def _looking(lookouts: Sequence[Lookout], clock: Clock) -> None:
    stop = asyncio.Event()
    loops = {
        one.name: ClusterLoop(
            one.name,
            mailbox=Mailbox(clock=clock),
            work=one.turn,
            pace=one.rhythm,
            clock=clock,
            random=random.SystemRandom().random,
        )
        for one in lookouts
    }
    try:
        await supervise({name: loop.run(stop) for name, loop in loops.items()}, stop)
    finally:
        for one in lookouts:
            await one.close()
