"""DescribeClientQuotas (key 48), versions 0 and 1 (KIP-546): a filter, and the entries that match it.

The caller's ``EntryLayout`` defines which entity types are slots of a key and which quota keys are columns
of a row, so that the response is decoded directly into the caller's types, without
intermediate objects. ``fast_entry_reader`` reads entries as brokers usually send them; this module reads
all others more slowly, with an exact reason for every refusal.

A wrong reading of this response would produce a wrong plan, possibly a mass removal. So these are
refused: leftover bytes, nulls, an entity or key that occurs twice, and a response with neither entries nor an
error.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

from msgspec import Struct

from reconciler.errors import DecodeError, TooManyItems
from reconciler.wire.apis import DESCRIBE_CLIENT_QUOTAS
from reconciler.wire.messages.entry_layout import (
    ENTITIES_HINT,
    ENTRY_ITEMS,
    EntryCollection,
    EntryLayout,
    Part,
    Row,
    SlotKey,
    Value,
    read_parts,
    write_parts,
)
from reconciler.wire.messages.fast_entry_reader import read_entries
from reconciler.wire.primitives import WireReader
from reconciler.wire.varints import MAX_VARINT

__all__ = [
    "Component",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "Entry",
    "EntryLayout",
]

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2
"""Match types: the exact name, the default, or any entity with the type (named or default)."""

Component: TypeAlias = tuple[str, int, str | None]
"""Entity type, match type, and the name for ``EXACT``."""

Entry: TypeAlias = tuple[tuple[Part, ...], tuple[Value, ...]]
"""An entity's components and its values, as on the wire."""


class DescribeClientQuotasRequest(Struct, frozen=True):
    """A filter: components combine with *and*; strict also forbids other types."""

    components: tuple[Component, ...]
    strict: bool


class DescribeClientQuotasResponse(Struct, frozen=True):
    """The response in the caller's layout.

    Brokers send null entries with an error; entries beside an error are decoded, too, so callers check
    ``error_code`` first.
    """

    throttle_time_ms: int  # how long the broker will not read from this connection
    error_code: int
    error_message: str | None
    # Row by key. An entity that has only foreign values has a row of None.
    entries: dict[SlotKey, Row]
    # Values whose key is no column, by entity, sorted by key.
    foreign_values: dict[SlotKey, tuple[Value, ...]]
    # Entities with a type that is no slot, verbatim: components sorted by type, values sorted by key; sorted
    # themselves.
    foreign_entities: tuple[Entry, ...]


def encode_request(version: int, request: DescribeClientQuotasRequest) -> bytes:
    """Encode the body of a request."""
    writer = DESCRIBE_CLIENT_QUOTAS.writer(version)

    def write_component(component: Component) -> None:
        entity_type, match_type, match = component
        writer.string(entity_type)
        writer.int8(match_type)
        writer.nullable_string(match)

    writer.structures(request.components, write_component)
    writer.boolean(request.strict)
    return writer.complete()


def decode_request(version: int, body: bytes) -> DescribeClientQuotasRequest:
    """Decode a request body; the filter is not validated."""
    reader = DESCRIBE_CLIENT_QUOTAS.request_reader(version, body)
    return reader.complete(
        DescribeClientQuotasRequest(
            components=reader.structures(
                lambda: (reader.string(), reader.int8(), reader.nullable_string()), least_size=4
            ),
            strict=reader.boolean(),
        )
    )


def encode_response(
    version: int,
    *,
    entries: Iterable[Entry] | None,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    error_message: str | None = None,
) -> bytes:
    """Encode the body of a response; brokers send ``entries`` None together with an error."""
    writer = DESCRIBE_CLIENT_QUOTAS.writer(version)

    def write_value(value: Value) -> None:
        writer.string(value[0])
        writer.float64(value[1])

    def write_entry(entry: Entry) -> None:
        write_parts(writer, entry[0])
        writer.structures(entry[1], write_value)

    writer.int32(throttle_time_ms)
    writer.int16(error_code)
    writer.nullable_string(error_message)
    writer.nullable_structures(entries, write_entry)
    return writer.complete()


def decode_response(
    version: int,
    body: bytes,
    layout: EntryLayout,
    *,
    most_entities: int = DESCRIBE_CLIENT_QUOTAS.answer_items,
) -> DescribeClientQuotasResponse:
    """Decode a response body into the caller's layout.

    A partial response must be an error: entries = null with code 0, a left-over byte or a duplicate entity
    would each look like removed quotas.

    Raises:
        TooManyItems: It announces more than ``most_entities``; none of them has been read.
        DecodeError: A byte is not as Kafka sends it; the whole response is discarded then.
    """
    flexible = DESCRIBE_CLIENT_QUOTAS.is_flexible(version)
    reader = WireReader(body, flexible=flexible, items=MAX_VARINT)
    throttle_time_ms, error_code = reader.int32(), reader.int16()
    error_message = reader.nullable_string()
    gathering = EntryCollection(layout=layout, most_entities=most_entities)
    count = reader.nullable_count(least_size=3)
    if count is not None and count > most_entities:
        raise TooManyItems(
            f"the answer holds {count} entities, the limit is {most_entities}",
            offset=reader.offset,
            hint=ENTITIES_HINT,
        )
    if count is None and error_code == 0:
        raise DecodeError("an answer without an error has no entries", offset=reader.offset)
    offset = _read_entries(body, reader.offset, count or 0, gathering, flexible=flexible)
    return WireReader(body, flexible=flexible, offset=offset).complete(
        DescribeClientQuotasResponse(
            throttle_time_ms=throttle_time_ms,
            error_code=error_code,
            error_message=error_message,
            entries=gathering.entries,
            foreign_values=gathering.foreign_values,
            foreign_entities=tuple(sorted(gathering.foreign.items(), key=_by_parts)),
        )
    )


def _by_parts(entry: Entry) -> list[tuple[str, bool, str]]:
    """Return the sort key of an entry by its components, the default before all names."""
    return [(entity_type, name is not None, name or "") for entity_type, name in entry[0]]


def _read_entries(
    body: bytes, offset: int, count: int, gathering: EntryCollection, *, flexible: bool
) -> int:
    """Read ``count`` entries into ``gathering`` and return the offset after them."""

    def read_any(start: int) -> int:
        reader = WireReader(body, flexible=flexible, offset=start, items=ENTRY_ITEMS)
        gathering.add(*_read_entry(reader), offset=start)
        return reader.offset

    if flexible:
        offset = read_entries(body, offset, count, gathering=gathering, read_any=read_any)
    else:
        for _ in range(count):
            offset = read_any(offset)
    if len(gathering) != count:
        raise DecodeError("the same entity occurs twice", offset=offset)
    return offset


def _read_entry(reader: WireReader) -> Entry:
    parts = read_parts(reader)
    values = reader.structures(lambda: (reader.string(), reader.float64()), least_size=10)
    return reader.structure((parts, values))
