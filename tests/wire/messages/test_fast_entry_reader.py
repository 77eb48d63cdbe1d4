"""Decisions of the fast reader: which entries are ordinary, when it uses its memory and when it stops. Correct results
are tested in test_describe_client_quotas."""

import struct
from collections.abc import Sequence

import pytest

from reconciler.errors import DecodeError
from reconciler.wire.apis import MAX_ENTITIES
from reconciler.wire.messages import describe_client_quotas, fast_entry_reader
from reconciler.wire.messages.describe_client_quotas import Entry
from reconciler.wire.messages.entry_layout import EntryCollection, EntryLayout
from reconciler.wire.primitives import WireReader
from tests.wire import samples

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"


def read(
    entries: Sequence[Entry], layout: EntryLayout = samples.LAYOUT
) -> tuple[EntryCollection, int]:
    """The entries of the fast reader, and how many of them the slow reader parsed."""
    body = describe_client_quotas.encode_response(1, entries=entries)
    return read_body(body, layout)


def read_body(body: bytes, layout: EntryLayout = samples.LAYOUT) -> tuple[EntryCollection, int]:
    reader = WireReader(body, flexible=True, offset=7)
    count = reader.varint() - 1
    gathering, handed = EntryCollection(layout=layout, most_entities=MAX_ENTITIES), 0

    def read_any(offset: int) -> int:
        nonlocal handed
        handed += 1
        slow = WireReader(body, flexible=True, offset=offset)
        parts, values = describe_client_quotas._read_entry(slow)
        gathering.add(parts, values, offset=offset)
        return slow.offset

    end = fast_entry_reader.read_entries(
        body, reader.offset, count, gathering=gathering, read_any=read_any
    )
    assert end == len(body) - 1
    return gathering, handed


def user(name: str | None, *values: tuple[str, float]) -> Entry:
    return (("user", name),), values


@pytest.mark.parametrize(
    "entry",
    [
        ((("group", "g"),), ()),
        ((("user", "u"), ("group", "g")), ()),
        ((("user", "u"), ("client-id", "c"), ("ip", "i")), ()),
        user("u", ("future_rate", 1.0)),
    ],
)
def test_entries_outside_the_layout_are_left_to_the_general_reader(entry: Entry) -> None:
    plain = user("known", (PRODUCER, 1.0))
    gathering, handed = read([plain, entry, user("other", (PRODUCER, 2.0))])
    assert (len(gathering), handed) == (3, 1)


def test_a_damaged_entry_is_left_to_the_general_reader_for_its_reason() -> None:
    body = describe_client_quotas.encode_response(1, entries=[user("abc", (PRODUCER, 1.0))])
    for size in range(9, len(body) - 1):
        with pytest.raises(DecodeError):
            read_body(body[:size])
    too_long = body.replace(b"\x04abc", b"\x81\x80\x02" + b"x" * 32768)
    with pytest.raises(DecodeError, match="above Kafka's limit"):
        read_body(too_long)
    twice = describe_client_quotas.encode_response(
        1, entries=[user("abc", (PRODUCER, 1.0), (PRODUCER, 1.0))]
    )
    with pytest.raises(DecodeError, match="the same key twice"):
        read_body(twice)


def test_rows_preserve_every_bit_of_a_double() -> None:
    odd = struct.unpack(">d", b"\x7f\xf8\x00\x00\x00\x00\x12\x34")[0]
    gathering, _ = read([user(f"u{n}", (PRODUCER, odd)) for n in range(5)])
    for row in gathering.entries.values():
        assert struct.pack(">d", row[0] or 0.0) == b"\x7f\xf8\x00\x00\x00\x00\x12\x34"


def rows_of(values: list[float]) -> list[int]:
    gathering, handed = read([user(f"u{n}", (PRODUCER, value)) for n, value in enumerate(values)])
    assert handed == 0
    assert [row[0] for row in gathering.entries.values()] == values
    return [id(row) for row in gathering.entries.values()]


def test_the_memo_is_dropped_when_values_do_not_repeat() -> None:
    trial = fast_entry_reader.MEMO_TRIAL
    unique = [float(n) for n in range(trial + 2)]
    rows = rows_of([*unique, 1.0, 1.0])
    assert rows[-1] != rows[-2]


def test_the_memo_is_kept_when_values_repeat_and_stops_growing_at_its_limit() -> None:
    limit = fast_entry_reader.MEMO_LIMIT
    tiers = [float(n // 3) for n in range(3 * limit + 30)]
    rows = rows_of([*tiers, 1.0, 1.0, float(limit + 5), float(limit + 5)])
    assert rows[-3] == rows[-4]
    assert rows[-1] != rows[-2]
