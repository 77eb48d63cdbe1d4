"""Undoing an outcome: each before-value comes back and stays, as an override, until its document changes."""

from collections.abc import Iterable
from typing import Final

from reconciler.quota.entity import Entity
from reconciler.quota.keys import Key
from reconciler.reconcile.options import NewOverride

LONGEST_SECONDS: Final = 86_400.0
"""A rollback holds for at most a day: after that the documents speak again."""


def rollback_orders(
    before: Iterable[tuple[Entity, Key, float | None]],
    *,
    now: float,
    principal: str,
    reason: str,
    seconds: float = LONGEST_SECONDS,
) -> tuple[NewOverride, ...]:
    """Overrides that bring values back; give them to ``prepare`` as ``Orders.overrides``.

    Args:
        before: Pairs of an outcome that may have changed the cluster, with the values from before.
        now: Seconds since the epoch.
        principal: Who asks.
        reason: Why.
        seconds: How long at most; longer than a day is a day.
    """
    return tuple(
        NewOverride(
            entity=subject,
            key=key,
            value=value,
            until=now + min(seconds, LONGEST_SECONDS),
            principal=principal,
            reason=reason,
            ends_with_document=True,
        )
        for subject, key, value in before
    )
