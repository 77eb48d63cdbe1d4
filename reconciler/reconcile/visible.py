"""Waiting until every live broker shows what was acknowledged: a few last changes stand for all before them.

Brokers replay the metadata log in order, so who shows the last change has replayed every earlier one. Some last
changes are asked for together, because a write that found its value already there leaves no trace in the log; and
one that another writer changed meanwhile is dropped, because nobody will ever show it.
"""

from collections.abc import Iterable
from typing import Final

from reconciler.errors import KquotaError
from reconciler.ports import Clock, Progress, QuotaStore, Visibility
from reconciler.quota.change import Change
from reconciler.quota.entity import Entity
from reconciler.quota.filters import exactly
from reconciler.quota.keys import Key, same_value
from reconciler.quota.outcome import Alteration

AT_LEAST_SECONDS: Final = 30.0
PER_KEY_SECONDS: Final = 0.000_2
"""A broker needs about 50 µs of work per changed key after the acknowledgement; four times that is patience."""

WITNESSES: Final = 3
SLICE_SECONDS: Final = 5.0
"""After this long without success it is asked whether another writer changed a witness."""


def deadline_seconds(changed_keys: int) -> float:
    """How long to wait for this many changed keys to be visible."""
    return max(AT_LEAST_SECONDS, PER_KEY_SECONDS * changed_keys)


class Witnesses:
    """The last acknowledged changes of a run.

    Args:
        changes: The plan, for the values from before.
    """

    def __init__(self, changes: Iterable[Change]) -> None:
        self._before: dict[tuple[Entity, str], float | None] = {
            (change.entity, str(change.key)): change.before for change in changes
        }
        self._last: list[Alteration] = []

    def add(self, acknowledged: Alteration) -> None:
        """The newest acknowledged alteration."""
        self._last = [one for one in self._last if one.entity != acknowledged.entity]
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
        asked = list(self._last)
        while True:
            left = deadline - clock.monotonic()
            seen = await store.wait_visible(asked, timeout=max(min(left, SLICE_SECONDS), 0.0))
            progress("visible", len(seen.visible), len(seen.visible) + len(seen.lagging))
            if seen.everywhere or left <= SLICE_SECONDS:
                return seen
            asked = await self._undisturbed(asked, store, seen) or asked

    async def _undisturbed(
        self, asked: list[Alteration], store: QuotaStore, seen: Visibility
    ) -> list[Alteration]:
        """The witnesses whose values nobody else has touched, as the first lagging broker shows them."""
        node = seen.lagging[0] if seen.lagging else None
        kept: list[Alteration] = []
        for one in asked:
            try:
                state = await store.describe(exactly(one.entity), node=node)
            except KquotaError:
                return asked  # the broker went away just now; the next slice tells
            if all(
                same_value(Key(key), (live := state.value(one.entity, Key(key))), value)
                or same_value(Key(key), live, self._before.get((one.entity, key)))
                for key, value in one.operations
            ):
                kept.append(one)
        return kept
