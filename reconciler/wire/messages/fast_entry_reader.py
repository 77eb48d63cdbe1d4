"""The fast reader of describe entries; predicts the usual layout and passes all other entries to a slower reader.

An *ordinary* entry has one or two components whose types are slots of the layout, values whose keys
are columns of it, lengths in one byte where Kafka sends one byte, and no tagged field. Every other
(or invalid) entry goes to the caller's slow reader, so this module affects only the speed,
never the result. It uses four techniques:

* **Prediction.** An entity most likely has the types of the one before, in the same order.
* **Template.** Apart from its numbers, the bytes of a values array follow from the order of its keys. After
  the same order occurred twice in a row, two ``struct`` calls read an array: one fetches the constant pieces for
  comparison, one the numbers. With a template after a single occurrence, mixed responses would be slower.
* **Memo.** The encoding is self-delimiting, so equal bytes decode to equal values. Limits that come in tiers are
  looked up by their raw bytes and share one row. Disabled if it has too few hits.
* **Late checks.** Every slice is followed by a read at its end, so a length beyond the buffer is
  detected; Python's own exceptions send the entry to the slow reader, which reports the error.
"""

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from reconciler.wire.messages.entry_layout import EntryCollection, EntryLayout, Row, SlotKey
from reconciler.wire.primitives import MAX_STRING_BYTES
from reconciler.wire.varints import read_varint

MEMO_LIMIT: Final = 4096
"""Maximum rows in the memo; more distinct rows are not tiers."""

MEMO_TRIAL: Final = 2048
"""Entries after which the memo is disabled unless at least half of the lookups were hits."""

_FLOAT64: Final = struct.Struct(">d")

_UNUSUAL: Final = (KeyError, IndexError, UnicodeDecodeError, struct.error)
"""Exceptions that Python raises if bytes are not those of an ordinary entry."""

_UNMATCHED: Final = b""
"""A prediction that no slice of one byte equals."""

_NONE: Final = (None,)

_Names: TypeAlias = tuple[str | None, str | None, Literal[False]]
"""First name, second name, and the value of an absent slot."""

_Place: TypeAlias = Callable[[_Names], SlotKey] | None
"""Puts names into their slots; None if they are already in place."""

_Seconds: TypeAlias = dict[bytes, _Place]
"""By the bytes between two names (a tag count and the second type): the function that places the names."""

_Unpack: TypeAlias = Callable[[bytes, int], tuple[Any, ...]]


def read_entries(  # noqa: C901, PLR0912, PLR0915 - one loop: a call per entry would cost a tenth
    body: bytes,
    offset: int,
    count: int,
    *,
    gathering: EntryCollection,
    read_any: Callable[[int], int],
) -> int:
    """Read ``count`` entries of version 1 into ``gathering`` and return the offset after them.

    An entity that occurs twice may pass here; the caller detects it by the number of entities.

    Args:
        count: Number of entries; already checked against the size.
        read_any: Reads the entry at an offset into the collection, and returns the offset after it.
    """
    entries = gathering.entries
    heads = _heads(gathering.layout)
    rows = _RowReader(gathering.layout)
    template = rows.template
    steady_at, constants, numbers_at = template.steady_at, template.constants, template.numbers_at
    memo: dict[bytes, Row] | None = {}
    misses = 0
    section = 0  # size of the values section read last: the memo is looked up with as many bytes
    head = middle = _UNMATCHED
    head_size = middle_size = 1
    seconds: _Seconds | None = None
    place: _Place = None

    for index in range(count):
        try:
            # The entity: component count and type, name; tag count and type, name. ``end`` moves on.
            end = offset + head_size
            if body[offset:end] != head:
                end = offset + 1 + body[offset + 1]
                seconds, place = heads[body[offset:end]]
                head, head_size = body[offset:end], end - offset
                middle, middle_size = _UNMATCHED, 1
            length = body[end]
            if 0 < length < 128:
                first = body[end + 1 : (end := end + length)].decode()
            elif length:
                first, end = _long_name(body, end)
            else:
                first, end = None, end + 1
            second = None
            if seconds is not None:
                start = end + middle_size
                if body[end:start] != middle:
                    start = end + 1 + body[end + 1]
                    place = seconds[body[end:start]]
                    middle, middle_size = body[end:start], start - end
                length = body[start]
                if 0 < length < 128:
                    second = body[start + 1 : (end := start + length)].decode()
                elif length:
                    second, end = _long_name(body, start)
                else:
                    end = start + 1
            key = (first, second, False) if place is None else place((first, second, False))

            # The values: from the tag count of the last component to that of the entry.
            if memo is not None:
                row = memo.get(body[end : end + section])
                if row is not None:
                    entries[key] = row
                    offset = end + section
                    continue
                misses += 1
                if index >= MEMO_TRIAL and misses * 2 > index:
                    memo = None
            if steady_at(body, end) == constants:
                entries[key] = row = template.place(numbers_at(body, end) + _NONE)
                offset = end + template.size
            else:
                row, offset = rows.read(body, end)
                entries[key] = row
                template = rows.template
                steady_at, constants = template.steady_at, template.constants
                numbers_at = template.numbers_at
            if memo is not None:
                section = offset - end
                if len(memo) < MEMO_LIMIT:
                    memo[body[end:offset]] = row
        except _UNUSUAL:
            offset = read_any(offset)
    return offset


class _Template(Struct, frozen=True, kw_only=True):
    """Reads a values section whose keys have a certain order."""

    constants: tuple[bytes, ...]  # every piece of it except the numbers: tags, lengths, keys
    steady_at: _Unpack  # fetches those pieces
    numbers_at: _Unpack  # fetches the numbers
    # Builds a row from the numbers followed by None.
    place: Callable[[tuple[float | None, ...]], Row]
    size: int  # bytes of the section


def _template(layout: EntryLayout, order: tuple[int, ...]) -> _Template:
    keys = [_encode_short(layout.columns[column]) for column in order]
    pieces = [b"\x00" + key for key in keys]  # the tag count of the value before it
    pieces[0] = b"\x00" + bytes((len(order) + 1,)) + keys[0]  # of the last component
    pieces.append(b"\x00\x00")  # of the last value and of the entry
    steady = struct.Struct(">" + "8x".join(f"{len(piece)}s" for piece in pieces))
    numbers = struct.Struct(">" + "d".join(f"{len(piece)}x" for piece in pieces))
    sources = {column: index for index, column in enumerate(order)}
    return _Template(
        constants=tuple(pieces),
        steady_at=steady.unpack_from,
        numbers_at=numbers.unpack_from,
        place=_placer(sources, size=len(layout.columns), default=len(order)),
        size=numbers.size,
    )


def _nothing_at(_body: bytes, _offset: int) -> tuple[()]:
    return ()


_NO_TEMPLATE: Final = _Template(
    constants=(b"",),  # equals nothing that is read
    steady_at=_nothing_at,
    numbers_at=_nothing_at,
    place=tuple,
    size=0,
)


class _RowReader:
    """Reads values sections key by key, and builds a template once an order of keys occurred twice in a row."""

    def __init__(self, layout: EntryLayout) -> None:
        self._layout = layout
        self._columns = {_encode_short(name): index for index, name in enumerate(layout.columns)}
        self._blank: list[float | None] = [None] * len(layout.columns)
        self._latest: tuple[int, ...] = ()
        self.template = _NO_TEMPLATE

    def read(self, body: bytes, offset: int) -> tuple[Row, int]:
        """Return the row of the section at ``offset``, and the offset after it.

        Raises:
            KeyError: The section is not ordinary.
        """
        columns = self._columns
        cells = self._blank.copy()
        order: list[int] = []
        count = body[offset + 1]
        end = offset + 2
        tags = body[offset]
        for _ in range(count - 1):
            start = end + body[end]
            column = columns[body[end:start]]
            tags |= body[start + 8] | (cells[column] is not None)
            cells[column] = _FLOAT64.unpack_from(body, start)[0]
            order.append(column)
            end = start + 9
        if tags or body[end] or not 0 < count < 128:
            raise KeyError
        key_order = tuple(order)
        if key_order and key_order == self._latest:
            self.template = _template(self._layout, key_order)
        self._latest = key_order
        return tuple(cells), end + 1


def _heads(layout: EntryLayout) -> dict[bytes, tuple[_Seconds | None, _Place]]:
    """Map the bytes of component count and first type to the possible next bytes and the place of a single name."""
    size = len(layout.slots)
    heads: dict[bytes, tuple[_Seconds | None, _Place]] = {}
    for first, first_type in enumerate(layout.slots):
        seconds: _Seconds = {}
        for second, second_type in enumerate(layout.slots):
            if second != first:
                sources = {first: 0, second: 1}
                is_identity = size == 3 and sources == {0: 0, 1: 1}
                place = None if is_identity else _placer(sources, size=size, default=2)
                seconds[b"\x00" + _encode_short(second_type)] = place
        heads[b"\x02" + _encode_short(first_type)] = None, _placer({first: 0}, size=size, default=2)
        heads[b"\x03" + _encode_short(first_type)] = seconds, None
    return heads


def _encode_short(text: str) -> bytes:
    """Encode a short compact string."""
    octets = text.encode()
    return bytes((len(octets) + 1,)) + octets


def _placer(
    sources: dict[int, int], *, size: int, default: int
) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function that builds a tuple of ``size`` items: at ``i`` item ``sources[i]``, elsewhere item ``default``."""
    return itemgetter(*(sources.get(place, default) for place in range(size)))


def _long_name(body: bytes, offset: int) -> tuple[str, int]:
    """Return a name whose length has more than one byte, and the offset after it."""
    length, start = read_varint(body, offset)
    if not 0 < length <= MAX_STRING_BYTES + 1:  # null in a long form, or too long: not ordinary
        raise KeyError
    end = start + length - 1
    return body[start:end].decode(), end
