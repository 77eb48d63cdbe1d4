"""Keys of changed objects that wait for the next reconciliation: bounded, each once, never lost."""

import asyncio
from dataclasses import dataclass

from reconciler.app.loop.wait import wait_for_event
from reconciler.base.protocols import Clock
from reconciler.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBatch:
    """The content of a mailbox."""

    keys: tuple[str, ...] = ()  # each key once, in order of first arrival
    # Whether keys were dropped because there were too many: anything may have changed.
    everything: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the mailbox was empty."""
        return not self.keys and not self.everything


class Mailbox:
    """A bounded set of keys for one reader. All methods belong to one event loop.

    Args:
        clock: For lingering and timeouts.
        limit: Maximum number of keys; beyond it all keys are dropped and "everything" is set.
    """

    def __init__(self, *, clock: Clock, limit: int = 10_000) -> None:
        if limit < 1:
            raise ConfigError(f"a mailbox holds at least one key, not {limit}", key="limit")
        self._clock = clock
        self._limit = limit
        self._keys: dict[str, None] = {}
        self._everything = False
        self._arrived = asyncio.Event()
        self._full = asyncio.Event()
        self._most = limit

    def put(self, key: str) -> None:
        """Add a key; never blocks, and ignores a key that is present."""
        if not self._everything and key not in self._keys:
            if len(self._keys) >= self._limit:
                self.put_everything()
                return
            self._keys[key] = None
        self._ring()

    def put_everything(self) -> None:
        """Record that anything may have changed, instead of single keys."""
        self._everything = True
        self._keys.clear()
        self._ring()

    @property
    def depth(self) -> int:
        """The number of waiting keys; the limit if they are no longer counted."""
        return self._limit if self._everything else len(self._keys)

    async def batch(self, *, linger: float, max_keys: int, timeout: float | None) -> KeyBatch:  # noqa: ASYNC109 - an empty batch means timeout
        """Return all waiting keys, once there is one.

        A reconciliation compares everything anyway, so all keys are returned: ``max_keys`` only ends the lingering.

        Returns the keys; an empty batch after the timeout. If the caller is cancelled meanwhile, every key stays.

        Args:
            linger: Seconds to wait for more after the first key.
            max_keys: Number of keys at which lingering ends.
            timeout: Seconds to wait for the first key; ``None`` = without limit, 0 or less = only present keys.
        """
        if await wait_for_event(self._clock, timeout, self._arrived):
            self._most = max_keys
            self._full.clear()
            self._ring()
            _ = await wait_for_event(self._clock, linger, self._full)
        batch = KeyBatch(keys=tuple(self._keys), everything=self._everything)
        self._keys.clear()
        self._everything = False
        self._arrived.clear()
        self._full.clear()
        return batch

    def _ring(self) -> None:
        self._arrived.set()
        if self._everything or len(self._keys) >= self._most:
            self._full.set()
