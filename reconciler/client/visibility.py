"""Waits until brokers show altered quotas: polls every live broker with exact filters until a deadline.

KRaft brokers replay the metadata log asynchronously (no read-your-writes), in order: a broker that shows the
last change has replayed all before it. *Visible* is not *enforced*, and a change by another writer hides the value.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct, field

from reconciler.base.backoff import Backoff, Deadline
from reconciler.base.protocols import Clock
from reconciler.errors import ClientError
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMNS, Key, same_value
from reconciler.quota.state import (
    ALL,
    NO_LIMITS,
    Alteration,
    Filter,
    Node,
    QuotaState,
    Visibility,
    exactly,
)

POLL: Final = Backoff(first=0.02, cap=0.1)
"""A broker shows a change 10 ms to 1 s after the acknowledgement; describing one entity is cheap for it."""
LIST_SECONDS: Final = 2.0
"""Timeout of one broker for the list of brokers, before another one is queried; responses take milliseconds."""

TRY_SECONDS: Final = 10.0
"""After this time without a response, Metadata is checked for whether the broker is still live."""

FEW: Final = 5
"""Up to this many entities are described one by one; more are described in one full describe."""

_KEYS: Final = {str(key): key for key in COLUMNS}

Describe = Callable[[Filter, int, Deadline], Awaitable[QuotaState]]
"""``describe(filter, node, deadline)``."""


class _BrokerView(Struct, kw_only=True):
    """What one broker has shown."""

    visible: bool = False
    answered: bool = False
    error_text: str = ""


class VisibilityWait(Struct, frozen=True, kw_only=True):
    """One wait for visibility."""

    expected: Sequence[Alteration]  # alterations to wait for, in the order of sending
    describe: Describe
    # Returns the brokers of a new Metadata response.
    live: Callable[[Deadline], Awaitable[Sequence[Node]]]
    deadline: Deadline
    clock: Clock
    views_by_broker: dict[int, _BrokerView] = field(default_factory=dict[int, _BrokerView])

    async def run(self) -> Visibility:
        """Poll every broker at the same time.

        Raises:
            ClientError: The list of brokers is not available.
        """
        nodes = await self._brokers()
        self.views_by_broker.update({node.id: _BrokerView() for node in nodes})
        _ = await asyncio.gather(*(self._watch(node.id) for node in nodes))
        views = [(node, self.views_by_broker[node]) for node in sorted(self.views_by_broker)]
        return Visibility(
            visible=tuple(node for node, view in views if view.visible),
            lagging=tuple(node for node, view in views if view.answered and not view.visible),
            unreachable={
                node: view.error_text or "no answer before the deadline"
                for node, view in views
                if not view.answered
            },
        )

    async def _brokers(self) -> Sequence[Node]:
        """Return the brokers in Metadata. A broker that does not answer costs a short timeout, then another one is queried."""
        tries = 0
        while True:
            tries += 1
            now = self.clock.monotonic()
            try:
                return await self.live(Deadline(at=now + self.deadline.within(now, LIST_SECONDS)))
            except ClientError as error:
                if not error.retriable or self.deadline.passed(self.clock.monotonic()):
                    raise
            pause = POLL.pause(tries, random.random)
            await self.clock.sleep(self.deadline.within(self.clock.monotonic(), pause))

    async def _watch(self, node: int) -> None:
        view = self.views_by_broker[node]
        polls = 0
        while not self.deadline.passed(self.clock.monotonic()):
            polls += 1
            try:
                view.visible = await self._shows_all(node)
                view.answered, view.error_text = True, ""
            except ClientError as error:
                if view.answered and self.deadline.passed(self.clock.monotonic()):
                    return  # The deadline ended the request; the broker answered earlier ones.
                view.answered, view.error_text = False, error.message
                if await self._is_gone(node):
                    return
            if view.visible:
                return
            pause = POLL.pause(polls, random.random)
            await self.clock.sleep(self.deadline.within(self.clock.monotonic(), pause))

    async def _shows_all(self, node: int) -> bool:
        """Whether a broker shows all alterations. Checks the last one first: brokers replay changes in order."""
        now = self.clock.monotonic()
        soon = Deadline(at=now + self.deadline.within(now, TRY_SECONDS))
        if not self.expected:
            _ = await self.describe(exactly(_NO_ENTITY), node, soon)
            return True
        last = self.expected[-1]
        if not shows(await self.describe(exactly(last.entity), node, soon), last):
            return False
        if len(self.expected) > FEW:
            state = await self.describe(ALL, node, self.deadline)
            return all(shows(state, expected_alteration) for expected_alteration in self.expected)
        for alteration in self.expected[:-1]:
            if not shows(await self.describe(exactly(alteration.entity), node, soon), alteration):
                return False
        return True

    async def _is_gone(self, node: int) -> bool:
        """Whether Metadata no longer lists a broker that does not answer."""
        try:
            return all(broker_node.id != node for broker_node in await self.live(self.deadline))
        except ClientError:
            return False


_NO_ENTITY: Final = Entity(("", False, False))
"""Kafka refuses the empty name, so no broker has it: the cheapest describe."""


def shows(state: QuotaState, expected: Alteration) -> bool:
    """Whether a state contains every operation of an alteration."""
    limits = state.limits.get(expected.entity, NO_LIMITS)
    foreign = dict(state.foreign_values.get(expected.entity, ()))
    for name, value in expected.operations:
        key: Key | None = _KEYS.get(name)
        if key is None:
            if foreign.get(name) != value:
                return False
        elif not same_value(key, limits[COLUMNS.index(key)], value):
            return False
    return True
