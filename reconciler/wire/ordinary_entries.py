"""The fast reader of describe entries: short, flat, untagged, by prediction. Everything else is handed back.

An *ordinary* entry has one or two components whose types are slots of the layout, values whose keys
are columns of it, lengths in one byte where Kafka sends one byte, and no tagged field. Whatever is not
ordinary (or not even valid) goes to the caller's slow reader, so this file decides only what is fast,
never what is right. Three ideas carry it:

* **Template.** Apart from its numbers, the bytes of a values array follow from the order of its keys. After
  the same order was met twice in a row, two ``struct`` calls read an array: one fetches the constant pieces for
  comparison, one the numbers. Adopted after one meeting, mixed answers would pay for wrong guesses.
* **Memo.** The encoding delimits itself, so equal bytes are an equal parse. Limits that come in tiers are
  looked up by their raw bytes and share one row. Given up when it does not pay.
* **Late checks.** Every slice is followed by a read at its end, so a length beyond the buffer cannot
  pass; the exceptions of Python itself send the entry to the slow reader, which says what is wrong.
"""

import struct
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

from reconciler.errors import DecodeError
from reconciler.wire.layout import ABSENT, Gathering, Layout, Row, SlotKey
from reconciler.wire.primitives import MAX_STRING_BYTES, read_varint

MEMO_LIMIT: Final = 4096
"""Rows that the memo keeps; more tiers than this are not tiers."""

MEMO_TRIAL: Final = 2048
"""Entries after which the memo must have answered every other question, or goes."""

_FLOAT64: Final = struct.Struct(">d")
_UNUSUAL: Final = (KeyError, IndexError, UnicodeDecodeError, struct.error)

_KeyPlacer = Callable[[tuple[Any, ...]], SlotKey]
_RowPlacer = Callable[[tuple[Any, ...]], Row]


def _heads(layout: Layout) -> dict[bytes, tuple[dict[bytes, _KeyPlacer] | None, _KeyPlacer]]:
    """By the bytes of component count and first type: what may follow, and where names go.

    The placers take (first name, second name, ABSENT).
    """
    heads: dict[bytes, tuple[dict[bytes, _KeyPlacer] | None, _KeyPlacer]] = {}
    for first, first_type in enumerate(layout.slots):
        text = _prefixed(first_type)
        alone = _placer({first: 0}, len(layout.slots), other=2)
        heads[b"\x02" + text] = None, alone
        seconds = {
            b"\x00" + _prefixed(second_type): _placer(
                {first: 0, second: 1}, len(layout.slots), other=2
            )
            for second, second_type in enumerate(layout.slots)
            if second != first
        }
        heads[b"\x03" + text] = seconds, alone
    return heads


def _prefixed(text: str) -> bytes:
    octets = text.encode()
    return bytes((len(octets) + 1,)) + octets


def _placer(sources: dict[int, int], size: int, *, other: int) -> Callable[[tuple[Any, ...]], Any]:
    """Picks item ``sources[i]`` for place ``i`` of ``size`` places, and item ``other`` elsewhere."""
    return itemgetter(*(sources.get(place, other) for place in range(size)))


class _Template:
    """How a values array with a certain order of keys reads."""

    __slots__ = ("constants", "numbers_at", "place", "size", "steady", "steady_at")

    def __init__(self, layout: Layout, order: tuple[int, ...]) -> None:
        pieces = [_prefixed(layout.columns[column]) for column in order]
        pieces = [b"\x00" + piece for piece in pieces]  # the tag byte of what comes before
        pieces[0] = b"\x00" + bytes((len(order) + 1,)) + pieces[0][1:]
        pieces.append(b"\x00\x00")
        steady = "8x".join(f"{len(piece)}s" for piece in pieces)
        numbers = "d".join(f"{len(piece)}x" for piece in pieces)
        self.constants = tuple(pieces)
        self.steady_at = struct.Struct(f">{steady}").unpack_from
        self.numbers_at = struct.Struct(f">{numbers}").unpack_from
        self.size = struct.calcsize(f">{numbers}")
        self.place = _placer(
            {column: index for index, column in enumerate(order)},
            len(layout.columns),
            other=len(order),
        )


def read_entries(
    body: bytes,
    offset: int,
    count: int,
    *,
    gathering: Gathering,
    read_any: Callable[[int], int],
) -> int:
    """The offset after ``count`` entries of version 1, which are gathered.

    An entity that occurs twice may pass here; the caller sees it by the number of entities.

    Args:
        read_any: Reads and gathers the entry at an offset and gives the offset after it.
    """
    layout = gathering.layout
    entries = gathering.entries
    heads = _heads(layout)
    columns = {_prefixed(name): index for index, name in enumerate(layout.columns)}
    blank: list[float | None] = [None] * len(layout.columns)
    none = (None,)
    number_at = _FLOAT64.unpack_from
    memo: dict[bytes, Row] | None = {}
    misses = 0
    guess = 0
    template: _Template | None = None
    size = -1
    constants = steady_at = numbers_at = place_row = None
    previous: tuple[int, ...] = ()

    for index in range(count):
        try:
            end = offset + 1 + body[offset + 1]
            seconds, place = heads[body[offset:end]]
            length = body[end]
            start = end + 1
            if length > 127:
                length, start = _long(body, end)
            if length:
                end = start + length - 1
                first = body[start:end].decode()
            else:
                end = start
                first = None
            if seconds is None:
                key = place((first, None, False))
            else:
                start = end + 2 + body[end + 1] - 1 + 0
                start = end + 1 + body[end + 1]
                place = seconds[body[end:start]]
                length = body[start]
                start += 1
                if length > 127:
                    length, start = _long(body, start - 1)
                if length:
                    end = start + length - 1
                    key = place((first, body[start:end].decode(), False))
                else:
                    end = start
                    key = place((first, None, False))
            if memo is not None:
                row = memo.get(body[end : end + guess])
                if row is not None:
                    entries[key] = row
                    offset = end + guess
                    continue
            if template is not None and steady_at(body, end) == constants:
                row = place_row(numbers_at(body, end) + none)
                offset = end + size
            else:
                at = end + 2
                many = body[end + 1]
                if body[end] or not many:
                    raise KeyError
                cells = blank.copy()
                order = []
                for _ in range(many - 1):
                    start = at + body[at]
                    column = columns[body[at:start]]
                    if cells[column] is not None:
                        raise KeyError
                    cells[column] = number_at(body, start)[0]
                    order.append(column)
                    at = start + 9
                    if body[start + 8]:
                        raise KeyError
                if body[at]:
                    raise KeyError
                offset = at + 1
                row = tuple(cells)
                found = tuple(order)
                if found == previous and found:
                    template = _Template(layout, found)
                    size = template.size
                    constants, steady_at = template.constants, template.steady_at
                    numbers_at, place_row = template.numbers_at, template.place
                previous = found
            entries[key] = row
            if memo is not None:
                misses += 1
                guess = offset - end
                if index >= MEMO_TRIAL and misses * 2 > index:
                    memo = None
                elif len(memo) < MEMO_LIMIT:
                    memo[body[end:offset]] = row
        except _UNUSUAL:
            offset = read_any(offset)
    return offset


def _long(body: bytes, offset: int) -> tuple[int, int]:
    """A length of more than one byte (as on the wire: the length + 1) and the offset after it."""
    length, start = read_varint(body, offset)
    if length > MAX_STRING_BYTES + 1:
        raise DecodeError(f"a string of {length - 1} bytes is above Kafka's limit", offset=offset)
    return length, start
