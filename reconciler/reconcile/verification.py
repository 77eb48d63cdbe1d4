"""Verification after sending: waits for visibility on every broker, then compares one full describe with each change."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from reconciler.errors import KquotaError
from reconciler.quota.keys import same_value
from reconciler.quota.ownership import Pair
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.results.report import PairOutcome, PairVisibility
from reconciler.quota.state import ALL, Applied, QuotaState, Result, Unknown, Visibility
from reconciler.reconcile.options import ReconcilePorts
from reconciler.reconcile.sender import PlanSender
from reconciler.reconcile.visibility import deadline_seconds

QUICK_SECONDS: Final = 2.0
"""Maximum wait for visibility after a request to stop: enough for one round of responses."""


async def observe_again(
    ports: ReconcilePorts, sender: PlanSender
) -> tuple[Visibility | None, QuotaState | None, str]:
    """Return the visibility on brokers, the live quotas, and why one of them is missing.

    Kafka has no compare-and-set for quotas: values are read right before writing and compared
    again afterwards. Changes by other writers in between are reported.

    Never raises for errors of the cluster: sent changes must be recorded and reported in any case. A request to stop
    shortens the wait, so that records and audit log still get the result; a second one ends it.
    """
    if not sender.was_sent:
        return None, None, ""
    task = asyncio.ensure_future(_observe(ports, sender))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        was_interrupted, sender.interrupted = sender.interrupted, True
        _ = task.cancel()
        _ = await asyncio.wait({task})
        if was_interrupted:
            raise
    return await _observe(ports, sender)


async def _observe(
    ports: ReconcilePorts, sender: PlanSender
) -> tuple[Visibility | None, QuotaState | None, str]:
    visibility: Visibility | None = None
    try:
        if sender.probes.any:
            visibility = await sender.probes.wait(
                QUICK_SECONDS if sender.interrupted else deadline_seconds(sender.acknowledged_keys)
            )
        live = await ports.store.describe(ALL)
    except KquotaError as error:
        return visibility, None, f"the result could not be verified: {error}"
    return visibility, live, ""


def judge(
    changes: Iterable[QuotaChange],
    results: Mapping[Pair, Result],
    *,
    live: QuotaState | None,
    visibility: Visibility | None,
) -> tuple[PairOutcome, ...]:
    """Return the outcome of each change, in plan order."""
    everywhere = visibility is not None and visibility.everywhere
    return tuple(
        _judge(change, results.get((change.entity, change.key)), live, everywhere)
        for change in changes
    )


def _judge(
    change: QuotaChange,
    result: Result | None,
    live: QuotaState | None,
    everywhere: bool,  # noqa: FBT001 - private
) -> PairOutcome:
    if live is None or not isinstance(result, Applied | Unknown):
        return PairOutcome(change=change, result=result)
    live_value = live.value(change.entity, change.key)
    return PairOutcome(
        change=change,
        result=result,
        visibility=_visibility_of(change, result, live_value, everywhere=everywhere),
        observed_value=live_value,
    )


def _visibility_of(
    change: QuotaChange, result: Result, live_value: float | None, *, everywhere: bool
) -> PairVisibility:
    acknowledged = isinstance(result, Applied)
    if same_value(change.key, live_value, change.after):
        return PairVisibility.VISIBLE if everywhere or not acknowledged else PairVisibility.NOT_YET
    if same_value(change.key, live_value, change.before) and not (acknowledged and everywhere):
        return PairVisibility.NOT_YET
    return PairVisibility.CHANGED
