"""Parses a listing while it is received: of each object only the kept part stays in memory."""

import codecs
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from reconciler.base import bounded_json
from reconciler.base.bounded_json import is_deep
from reconciler.kube.api.custom_resources import Obj

Keep: TypeAlias = Callable[[Obj], Mapping[str, Any]]
"""Returns what is kept of an object of a listing."""

ITEMS: Final = '"items":['
"""Begins the objects of a listing. What precedes it is not written by users."""

LARGEST_OBJECT: Final = 4 * 1024 * 1024
"""Maximum characters of one object; the API server stores at most 3 MiB."""


class ListingParser:
    """The objects of one compact listing of custom resources.

    Give every part of the response to :meth:`feed`, then call :meth:`listing`. Errors are kept until then.

    Args:
        keep: Returns what is kept of each object.
    """

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._json = json.JSONDecoder()
        self._items: list[Obj] = []
        self._head = ""  # the text up to the objects; "" = they have not begun
        self._text = ""  # the text that is not parsed yet
        self._is_readable = True

    def feed(self, part: bytes) -> None:
        """Parse the objects that this part completes."""
        if not self._is_readable:
            return
        try:
            self._text += self._decode(part)
            self._take_head()
            self._take_objects()
            self._is_readable = len(self._text) <= LARGEST_OBJECT
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self._is_readable = False
        if not self._is_readable:
            self._text = ""

    def listing(self) -> tuple[list[Obj], str] | None:
        """Return all objects and the resource version; ``None`` if the response is no complete listing in compact JSON."""
        if not (self._is_readable and self._head and self._text.startswith("]")):
            return None
        try:
            envelope = bounded_json.parse(self._head + self._text, most_bytes=bounded_json.SMALL)
            metadata = envelope["metadata"]
            version, is_complete = str(metadata["resourceVersion"]), not metadata.get("continue")
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return (self._items, version) if is_complete else None

    def _take_head(self) -> None:
        begin = -1 if self._head else self._text.find(ITEMS)
        if begin >= 0:
            begin += len(ITEMS)
            self._head, self._text = self._text[:begin], self._text[begin:]

    def _take_objects(self) -> None:
        text, at = self._text, 0
        while self._head and not text.startswith("]", at):
            try:
                item, end = self._json.raw_decode(text, at + text.startswith(",", at))
            except json.JSONDecodeError:
                break  # its end is not received yet, or it is no JSON: then it never ends
            _ = item.get("metadata", {}).pop("managedFields", None)
            if is_deep(item):
                raise ValueError("nested too deep")
            self._items.append(dict(self._keep(item)))
            at = end
        self._text = text[at:]
