"""Decoding and encoding of equal results by this project and its peers. Each function runs in a separate process.

The describe response is encoded here, so that no candidate decodes its own output; both peers decode it to
the same dictionary as this project.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENTRIES = 100_000
ENTITIES = 10_000
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
COLUMNS = (*KEYS, "controller_mutation_rate", "connection_creation_rate")


def string(text: str) -> bytes:
    """A compact string, as in KIP-482."""
    raw = text.encode()
    return varint(len(raw) + 1) + raw


def varint(number: int) -> bytes:
    buffer = bytearray()
    while number > 0x7F:
        buffer.append(number & 0x7F | 0x80)
        number >>= 7
    buffer.append(number)
    return bytes(buffer)


def describe_answer(path: Path) -> None:
    """100,000 entries of user and client-id with three values each, all names unique: 13 MB, v1, body only."""
    import struct

    chunks = [b"\x00\x00\x00\x00", b"\x00\x00", b"\x00", varint(ENTRIES + 1)]
    for number in range(ENTRIES):
        chunks.append(b"\x03" + string("user") + string(f"user-{number:06d}") + b"\x00")
        chunks.append(string("client-id") + string(f"client-{number:06d}") + b"\x00")
        chunks.append(b"\x04")
        for column, key in enumerate(KEYS):
            value = float(1_000_000 + number) if column < 2 else 50.0 + number / 1000
            chunks.append(string(key) + struct.pack(">d", value) + b"\x00")
        chunks.append(b"\x00")
    chunks.append(b"\x00")
    path.write_bytes(b"".join(chunks))


def decode_ours(body: bytes) -> dict[Any, Any]:
    from reconciler.client.wire_translation import LAYOUT
    from reconciler.wire.messages import describe_client_quotas

    return describe_client_quotas.decode_response(1, body, LAYOUT).entries


def _limits(pairs: dict[str, float]) -> tuple[float | None, ...]:
    return tuple(pairs.get(column) for column in COLUMNS)


def decode_kafka_python(body: bytes) -> dict[Any, Any]:
    from kafka.protocol.admin import DescribeClientQuotasResponse

    answer = DescribeClientQuotasResponse.decode(body, version=1)
    limits = {}
    for entry in answer.entries:
        parts = {part.entity_type: part.entity_name for part in entry.entity}
        key = tuple(parts.get(kind, False) for kind in ("user", "client-id", "ip"))
        limits[key] = _limits({value.key: value.value for value in entry.values})
    return limits


def decode_kio(body: bytes) -> dict[Any, Any]:
    from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
    from kio.serial import entity_reader

    read = entity_reader(DescribeClientQuotasResponse)
    answer, _ = read(body, 0)
    limits = {}
    for entry in answer.entries:
        parts = {part.entity_type: part.entity_name for part in entry.entity}
        key = tuple(parts.get(kind, False) for kind in ("user", "client-id", "ip"))
        limits[key] = _limits({value.key: value.value for value in entry.values})
    return limits


def alterations() -> list[tuple[tuple[tuple[str, str], ...], tuple[tuple[str, float], ...]]]:
    """10,000 entities with three operations each, as plain tuples: the input of every candidate."""
    return [
        (
            (("user", f"user-{number:05d}"), ("client-id", f"client-{number:05d}")),
            tuple((key, float(1000 + number + column)) for column, key in enumerate(KEYS)),
        )
        for number in range(ENTITIES)
    ]


def encode_ours(entries: list[Any]) -> bytes:
    from reconciler.wire.messages import alter_client_quotas

    return alter_client_quotas.encode_request(1, entries, validate_only=False)


def encode_kafka_python(alterations: list[Any]) -> bytes:
    from kafka.protocol.admin import AlterClientQuotasRequest

    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[
                    entry.EntityData(entity_type=kind, entity_name=name) for kind, name in parts
                ],
                ops=[entry.OpData(key=key, value=value, remove=False) for key, value in operations],
            )
            for parts, operations in alterations
        ],
        validate_only=False,
        version=1,
    )
    return bytes(request.encode(version=1))


def encode_kio(alterations: list[Any]) -> bytes:
    from kio.schema.alter_client_quotas.v1 import request as v1
    from kio.serial import entity_writer
    from kio.static.primitive import f64

    message = v1.AlterClientQuotasRequest(
        entries=tuple(
            v1.EntryData(
                entity=tuple(
                    v1.EntityData(entity_type=kind, entity_name=name) for kind, name in parts
                ),
                ops=tuple(
                    v1.OpData(key=key, value=f64(value), remove=False) for key, value in operations
                ),
            )
            for parts, operations in alterations
        ),
        validate_only=False,
    )
    buffer = io.BytesIO()
    entity_writer(v1.AlterClientQuotasRequest)(buffer, message)
    return buffer.getvalue()


DECODERS: dict[str, Callable[[bytes], dict[Any, Any]]] = {
    "ours": decode_ours,
    "kafka-python": decode_kafka_python,
    "kio": decode_kio,
}
ENCODERS: dict[str, Callable[[list[Any]], bytes]] = {
    "ours": encode_ours,
    "kafka-python": encode_kafka_python,
    "kio": encode_kio,
}
