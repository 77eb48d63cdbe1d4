"""Looking again after sending: what every broker shows, and one full describe that judges each change."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from reconciler.errors import KquotaError
from reconciler.ports import Visibility
from reconciler.quota.change import Change
from reconciler.quota.entity import Entity
from reconciler.quota.filters import ALL
from reconciler.quota.keys import same_value
from reconciler.quota.outcome import Applied, Result, Unknown
from reconciler.quota.report import PairOutcome, Seen
from reconciler.quota.state import State
from reconciler.reconcile.orders import Ports
from reconciler.reconcile.send import Sender
from reconciler.reconcile.visible import deadline_seconds

QUICK_SECONDS: Final = 2.0
"""How long brokers are looked at once somebody asked to stop: long enough for a round of answers, no longer."""


async def look_again(ports: Ports, sender: Sender) -> tuple[Visibility | None, State | None, str]:
    """What the brokers show, what is live, and why one of the two could not be had.

    Never raises for the cluster: whatever was sent has to be recorded and told in any case. Whoever asks to stop
    meanwhile gets a quick look instead, so that records and audit log learn what was done; asked again, it ends.
    """
    if not sender.was_sent:
        return None, None, ""
    task = asyncio.ensure_future(_look(ports, sender))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        again, sender.interrupted = sender.interrupted, True
        _ = task.cancel()
        _ = await asyncio.wait({task})
        if again:
            raise
    return await _look(ports, sender)


async def _look(ports: Ports, sender: Sender) -> tuple[Visibility | None, State | None, str]:
    visibility: Visibility | None = None
    try:
        if sender.witnesses.any:
            visibility = await sender.witnesses.wait(
                store=ports.store,
                clock=ports.clock,
                progress=ports.progress,
                seconds=QUICK_SECONDS
                if sender.interrupted
                else deadline_seconds(sender.acknowledged_keys),
            )
        live = await ports.store.describe(ALL)
    except KquotaError as error:
        return visibility, None, f"the result could not be looked at: {error}"
    return visibility, live, ""


def judge(
    changes: Iterable[Change],
    results: Mapping[tuple[bool, Entity], Result],
    *,
    live: State | None,
    visibility: Visibility | None,
) -> tuple[PairOutcome, ...]:
    """What became of each change, in plan order."""
    everywhere = visibility is not None and visibility.everywhere
    return tuple(
        _judged(change, results.get((change.removes, change.entity)), live, everywhere)
        for change in changes
    )


def _judged(
    change: Change,
    result: Result | None,
    live: State | None,
    everywhere: bool,  # noqa: FBT001 - private
) -> PairOutcome:
    if live is None or not isinstance(result, Applied | Unknown):
        return PairOutcome(change=change, result=result)
    found = live.value(change.entity, change.key)
    return PairOutcome(
        change=change, result=result, seen=_seen(change, result, found, everywhere), found=found
    )


def _seen(change: Change, result: Result, found: float | None, everywhere: bool) -> Seen:  # noqa: FBT001 - private
    acknowledged = isinstance(result, Applied)
    if same_value(change.key, found, change.after):
        return Seen.VISIBLE if everywhere or not acknowledged else Seen.NOT_YET
    if same_value(change.key, found, change.before) and not (acknowledged and everywhere):
        return Seen.NOT_YET
    return Seen.CHANGED
