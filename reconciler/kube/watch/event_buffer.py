"""Buffers watch events between Kopf's thread and the operator's event loop: the newest event of each object, delivered in batches.

A burst of events takes no more memory than its objects, without fields that are never read, and the loop does other
work between two batches.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final

from reconciler.kube.api.custom_resources import Obj, document_of, uid_of
from reconciler.kube.watch.resource_cache import stripped

EventHandler = Callable[[str, Obj], object]
"""``taken(type, object)``: type is ``ADDED``, ``MODIFIED``, ``DELETED``, or "" in an initial listing."""

AT_ONCE: Final = 100
"""Events delivered before other work of the loop gets its turn."""


class EventBuffer:
    """Events of one kind of object.

    Args:
        loop: The event loop in which ``deliver`` is called.
        deliver: Receives the newest event of each object, in order of arrival.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, deliver: EventHandler) -> None:
        self._loop, self._deliver = loop, deliver
        self._lock = threading.Lock()
        self._events: dict[str, tuple[str, Obj]] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._events)

    def put(self, kind: str, obj: Obj) -> None:
        """Put an event; callable from any thread."""
        key = uid_of(obj) or document_of(obj)
        with self._lock:
            previous = self._events.pop(key, None)
            # A change remains a change if a listing reports the same object later.
            self._events[key] = kind or ("" if previous is None else previous[0]), stripped(obj)
            schedules, self._is_scheduled = not self._is_scheduled, True
        if schedules:
            with contextlib.suppress(RuntimeError):  # The loop is closed at the end of the process.
                _ = self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            keys = [key for key, _ in zip(self._events, range(AT_ONCE), strict=False)]
            events = [self._events.pop(key) for key in keys]
            self._is_scheduled = bool(self._events)
            if self._is_scheduled:
                _ = self._loop.call_soon(self._hand_over)
        for kind, obj in events:
            self._deliver(kind, obj)
