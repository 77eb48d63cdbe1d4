"""Waiting until every live broker shows what was acknowledged: a few last changes stand for all before them.

Brokers replay the metadata log in order, so who shows the last change has replayed every earlier one. Some last
changes are asked for together, because a write that found its value already there leaves no trace in the log; and
one that another writer changed meanwhile is dropped, because no broker will ever show it.
"""

from collections.abc import Iterable
from typing import Final

from reconciler.base.protocols import Clock, Progress
from reconciler.errors import KquotaError
from reconciler.ports import QuotaStore
from reconciler.quota.cluster import Visibility
from reconciler.quota.entity import Entity
from reconciler.quota.filters import exactly
from reconciler.quota.keys import Key, same_value
from reconciler.quota.outcome import Alteration
from reconciler.quota.planner.plan import QuotaChange

AT_LEAST_SECONDS: Final = 30.0
PER_KEY_SECONDS: Final = 0.000_2
"""A broker needs about 50 µs of work per changed key after the acknowledgement; four times that is patience."""

WITNESSES: Final = 3
SLICE_SECONDS: Final = 5.0
"""After this long without success it is asked whether another writer changed a witness."""


def deadline_seconds(changed_keys: int) -> float:
    """How long to wait for this many changed keys to be visible."""
    return max(AT_LEAST_SECONDS, PER_KEY_SECONDS * changed_keys)


class VisibilityProbes:
    """The last acknowledged changes of a run.

    Args:
        changes: The plan, for the values from before.
    """

    def __init__(self, changes: Iterable[QuotaChange]) -> None:
        self._before: dict[tuple[Entity, str], float | None] = {
            (change.entity, str(change.key)): change.before for change in changes
        }
        self._last: list[Alteration] = []

    def add(self, acknowledged: Alteration) -> None:
        """The newest acknowledged alteration."""
        self._last = [
            alteration for alteration in self._last if alteration.entity != acknowledged.entity
        ]
        self._last.append(acknowledged)
        del self._last[:-WITNESSES]

    @property
    def any(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self._last)

    async def wait(
        self, *, store: QuotaStore, clock: Clock, progress: Progress, seconds: float
    ) -> Visibility:
        """What the brokers show, as soon as all live ones show everything, else at the deadline.

        Raises:
            ClientError: Not even the list of brokers could be had.
        """
        deadline = clock.monotonic() + seconds
        pending = list(self._last)
        while True:
            remaining = deadline - clock.monotonic()
            visibility_result = await store.wait_visible(
                pending, timeout=max(min(remaining, SLICE_SECONDS), 0.0)
            )
            progress(
                "visible",
                len(visibility_result.visible),
                len(visibility_result.visible) + len(visibility_result.lagging),
            )
            if visibility_result.everywhere or remaining <= SLICE_SECONDS:
                return visibility_result
            pending = await self._undisturbed(pending, store, visibility_result) or pending

    async def _undisturbed(
        self, pending: list[Alteration], store: QuotaStore, visibility_result: Visibility
    ) -> list[Alteration]:
        """The witnesses whose values no other writer has changed, as the first lagging broker shows them."""
        node = visibility_result.lagging[0] if visibility_result.lagging else None
        remaining: list[Alteration] = []
        for alteration in pending:
            try:
                state = await store.describe(exactly(alteration.entity), node=node)
            except KquotaError:
                return pending  # the broker went away just now; the next slice shows
            if all(
                same_value(Key(key), (live := state.value(alteration.entity, Key(key))), value)
                or same_value(Key(key), live, self._before.get((alteration.entity, key)))
                for key, value in alteration.operations
            ):
                remaining.append(alteration)
        return remaining
