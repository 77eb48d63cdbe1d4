"""Waits until every live broker shows the acknowledged changes, by checking a few of the last ones.

Brokers replay the metadata log in order, so a broker that shows the last change has replayed every earlier one. Several
last changes are checked together, because a write of the value that was already set leaves no record in the log; and
a change that another writer replaced meanwhile is dropped, because no broker will ever show it.
"""

from collections.abc import Sequence
from typing import Final

from reconciler.errors import KquotaError
from reconciler.quota.keys import Key, same_value
from reconciler.quota.planner.plan import QuotaChange
from reconciler.quota.state import Alteration, Visibility, exactly
from reconciler.reconcile.options import ReconcilePorts

AT_LEAST_SECONDS: Final = 30.0
PER_KEY_SECONDS: Final = 0.000_2
"""A broker needs about 50 µs per changed key after the acknowledgement; this is four times as much."""

WITNESSES: Final = 3
SLICE_SECONDS: Final = 5.0
"""After this time without success, a describe checks whether another writer changed one of the last changes."""


def deadline_seconds(changed_keys: int) -> float:
    """Return how long to wait until this many changed keys are visible, in seconds."""
    return max(AT_LEAST_SECONDS, PER_KEY_SECONDS * changed_keys)


class VisibilityProbes:
    """The last acknowledged changes of a run, whose visibility proves that of all earlier ones.

    Args:
        changes: The plan, for the earlier values.
    """

    def __init__(self, ports: ReconcilePorts, changes: Sequence[QuotaChange]) -> None:
        self._store, self._clock, self._progress = ports.store, ports.clock, ports.progress
        self._changes = changes
        self._last: list[Alteration] = []

    def add(self, acknowledged: Alteration) -> None:
        """Add the newest acknowledged alteration."""
        self._last = [
            alteration for alteration in self._last if alteration.entity != acknowledged.entity
        ]
        self._last.append(acknowledged)
        del self._last[:-WITNESSES]

    @property
    def any(self) -> bool:
        """Whether there is a change to wait for."""
        return bool(self._last)

    async def wait(self, seconds: float) -> Visibility:
        """Wait until all live brokers show the changes, or until the deadline; return what they show.

        Raises:
            ClientError: The list of brokers is not available.
        """
        deadline = self._clock.monotonic() + seconds
        pending = list(self._last)
        while True:
            remaining = deadline - self._clock.monotonic()
            visibility = await self._store.wait_visible(
                pending, timeout=max(min(remaining, SLICE_SECONDS), 0.0)
            )
            visible = len(visibility.visible)
            self._progress("visible", visible, visible + len(visibility.lagging))
            if visibility.everywhere or remaining <= SLICE_SECONDS:
                return visibility
            pending = await self._unchanged_by_others(pending, visibility) or pending

    async def _unchanged_by_others(
        self, pending: list[Alteration], visibility: Visibility
    ) -> list[Alteration]:
        """Return the alterations that no other writer has changed, according to the first lagging broker."""
        node = visibility.lagging[0] if visibility.lagging else None
        before = {(change.entity, str(change.key)): change.before for change in self._changes}
        remaining: list[Alteration] = []
        for alteration in pending:
            try:
                state = await self._store.describe(exactly(alteration.entity), node=node)
            except KquotaError:
                return pending  # the broker is unreachable now; check again in the next slice
            if all(
                same_value(Key(key), (live := state.value(alteration.entity, Key(key))), value)
                or same_value(Key(key), live, before.get((alteration.entity, key)))
                for key, value in alteration.operations
            ):
                remaining.append(alteration)
        return remaining
