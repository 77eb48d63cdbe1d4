"""A slow, obvious reader of DescribeClientQuotas responses: the oracle for the fast one.

It shares no code with the package: a cursor, one method per wire type, one dictionary per entity. Invalid
input raises ``ValueError``.
"""

import struct
from dataclasses import dataclass, field

Part = tuple[str, "str | None"]
Value = tuple[str, float]


@dataclass
class Cursor:
    body: bytes
    flexible: bool
    at: int = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.body):
            raise ValueError("cut off")
        piece = self.body[self.at : self.at + size]
        self.at += size
        return piece

    def number(self, layout: str) -> int | float:
        return struct.unpack(">" + layout, self.take(struct.calcsize(layout)))[0]

    def varint(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            octet = self.take(1)[0]
            value += (octet % 128) << shift
            if octet < 128:
                if value >= 2**31:
                    raise ValueError("varint too large")
                return value
        raise ValueError("varint too long")

    def length(self, classic: str) -> int | None:
        length = self.varint() - 1 if self.flexible else int(self.number(classic))
        if length < -1:
            raise ValueError("negative length")
        return None if length == -1 else length

    def string(self) -> str | None:
        length = self.length("h")
        if length is None:
            return None
        if length > 32767:
            raise ValueError("string too long")
        return self.take(length).decode()

    def text(self) -> str:
        text = self.string()
        if text is None:
            raise ValueError("null")
        return text

    def count(self, least: int) -> int | None:
        count = self.length("i")
        if count is not None and count * least > len(self.body) - self.at:
            raise ValueError("count does not fit")
        return count

    def items(self, least: int) -> int:
        count = self.count(least)
        if count is None:
            raise ValueError("null array")
        return count

    def tags(self) -> None:
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self.take(self.varint())


@dataclass
class Answer:
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    entries: list[tuple[dict[str, str | None], dict[str, float]]] = field(default_factory=list)


def decode(version: int, body: bytes) -> Answer:
    """The response, entity by entity, or ValueError."""
    cursor = Cursor(body, flexible=version >= 1)
    answer = Answer(int(cursor.number("i")), int(cursor.number("h")), cursor.string())
    count = cursor.count(3)
    if count is None and answer.error_code == 0:
        raise ValueError("no entries and no error")
    identities = set()
    for _ in range(count or 0):
        entity: dict[str, str | None] = {}
        parts = cursor.items(3)
        for _ in range(parts):
            entity_type = cursor.text()
            entity[entity_type] = cursor.string()
            cursor.tags()
        values: dict[str, float] = {}
        numbers = cursor.items(10)
        for _ in range(numbers):
            key = cursor.text()
            values[key] = float(cursor.number("d"))
            cursor.tags()
        cursor.tags()
        if not parts or len(entity) != parts or len(values) != numbers:
            raise ValueError("empty or twice")
        identity = frozenset(entity.items())
        if identity in identities:
            raise ValueError("entity twice")
        identities.add(identity)
        answer.entries.append((entity, values))
    cursor.tags()
    if cursor.at != len(body):
        raise ValueError("left over")
    return answer


def lay_out(answer: Answer, slots: tuple[str, ...], columns: tuple[str, ...]) -> tuple[object, ...]:
    """The response in the shapes of ``Described``, with NaN as text so that it equals itself."""
    entries, foreign_values, foreign = {}, {}, []
    for entity, values in answer.entries:
        value_bytes = {key: _float64_bytes(value) for key, value in values.items()}
        if set(entity) <= set(slots):
            key = tuple(entity.get(slot, False) for slot in slots)
            entries[key] = tuple(value_bytes.get(column) for column in columns)
            foreign_items = tuple(
                sorted((k, v) for k, v in value_bytes.items() if k not in columns)
            )
            if foreign_items:
                foreign_values[key] = foreign_items
        else:
            foreign.append((tuple(sorted(entity.items())), tuple(sorted(value_bytes.items()))))
    return (
        answer.throttle_time_ms,
        answer.error_code,
        answer.error_message,
        entries,
        foreign_values,
        sorted(foreign, key=lambda entry: [(t, n is not None, n or "") for t, n in entry[0]]),
    )


def _float64_bytes(value: float) -> object:
    return struct.pack(">d", value)


def _value_texts(pairs: object) -> tuple[object, ...]:
    return tuple((key, _float64_bytes(value)) for key, value in pairs)


def described_values(described: object) -> tuple[object, ...]:
    """A ``Described`` in the same shape."""
    return (
        described.throttle_time_ms,
        described.error_code,
        described.error_message,
        {
            key: tuple(None if cell is None else _float64_bytes(cell) for cell in row)
            for key, row in described.entries.items()
        },
        {key: _value_texts(pairs) for key, pairs in described.foreign_values.items()},
        [(parts, _value_texts(pairs)) for parts, pairs in described.foreign_entities],
    )
