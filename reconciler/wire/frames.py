"""Frames: the length field, and the headers of requests and responses.

The version of a header depends only on the API and its version (``ApiMessageTypeGenerator`` at
Kafka 4.4.0): flexible requests have header v2 and flexible responses header v1, all others v1 and v0.
Two exceptions: the response to ApiVersions always has header v0, so that a client which does not support the
version can still read it (KIP-511); and the client id of header v2 stays a classic nullable string
with an int16 length, although the rest of the header is flexible.
"""

import struct
from typing import Final

from msgspec import Struct

from reconciler.errors import DecodeError, FrameTooLarge, ProtocolError
from reconciler.wire.apis import API_VERSIONS, BY_KEY, KafkaApi
from reconciler.wire.primitives import WireReader, WireWriter
from reconciler.wire.varints import skip_tags

LENGTH_BYTES: Final = 4
"""A frame begins with its size as an int32 that does not count itself."""

DEFAULT_LIMIT: Final = 32 * 1024 * 1024
"""Largest frame accepted, in bytes. 100,000 entities with three limits each have 8 to 16 MB. A text may need
four times its bytes in memory, so a larger frame could fill the 256 MiB of the operator's pod by its names alone.
"""

_SIZE: Final = struct.Struct(">i")
_CORRELATION: Final = struct.Struct(">i")
_LEAST_ANSWER: Final = 4

_HINTS: Final = (
    (b"HTTP", "an HTTP server answers there; that is not a Kafka listener"),
    (b"\x15\x03", "the peer expects TLS: set security.protocol to SSL or SASL_SSL"),
    (b"\x16\x03", "the peer uses TLS: set security.protocol to SSL or SASL_SSL"),
    (b"SSH-", "an SSH server answers there; that is not a Kafka listener"),
)
"""First bytes of other protocols, which would be read as a frame size."""


class RequestHeader(Struct, frozen=True):
    """The header of a request; a null client id is None."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def misconnect_hint(head: bytes) -> str:
    """Return the protocol of the peer by its first four bytes; "" if unknown."""
    return next((hint for start, hint in _HINTS if head.startswith(start)), "")


def frame_size(head: bytes, *, limit: int = DEFAULT_LIMIT) -> int:
    """Return the number of bytes that follow the four bytes of ``head``.

    Raises:
        ProtocolError: The size is negative or too small for a header.
        FrameTooLarge: It is above ``limit``; nothing has been allocated for it.
    """
    size: int = _SIZE.unpack(head)[0]
    if size > limit:
        raise FrameTooLarge(
            f"the peer announces a frame of {size} bytes, the limit is {limit}",
            size=size,
            limit=limit,
            hint=misconnect_hint(head),
        )
    if size < _LEAST_ANSWER:
        raise ProtocolError(
            f"the peer announces a frame of {size} bytes", hint=misconnect_hint(head)
        )
    return size


def answer_limit(api: KafkaApi, limit: int) -> int:
    """Return the maximum bytes of a response of ``api`` on a connection with ``limit``."""
    return limit if api.answer_bytes is None else min(limit, api.answer_bytes)


def size_hint(limit: int, configured: int) -> str:
    """Return what to do about a frame above ``limit``; raising the setting helps only if it is this limit."""
    if limit == configured:
        return "raise receive.message.max.bytes if that size can be right"
    return (
        "Kafka brokers do not send responses of this size to this request; check bootstrap.servers"
    )


def check_answer(api: KafkaApi, frame: bytes | bytearray, *, limit: int) -> None:
    """Check a response against the limit of its own API; the frame buffer may have allowed a larger pending one.

    Raises:
        FrameTooLarge: It has more bytes.
    """
    accepted = answer_limit(api, limit)
    if len(frame) > accepted:
        raise FrameTooLarge(
            f"the answer to {api.name} has {len(frame)} bytes, the limit is {accepted}",
            size=len(frame),
            limit=accepted,
            hint=size_hint(accepted, limit),
        )


def encode_request(
    api: KafkaApi, version: int, *, correlation_id: int, client_id: str | None, body: bytes
) -> bytes:
    """Encode a complete request frame."""
    writer = WireWriter(flexible=False)  # the client id is classic even in header v2
    writer.int16(api.key)
    writer.int16(version)
    writer.int32(correlation_id)
    writer.nullable_string(client_id)
    return _frame(writer.to_bytes() + (b"\x00" if api.is_flexible(version) else b""), body)


def decode_request(frame: bytes) -> tuple[RequestHeader, bytes]:
    """Return header and body of a request frame without its length, of any version.

    An unsupported higher version of ApiVersions is read like the newest one: brokers do the same, because they
    must answer it with error 35 instead of closing the connection.

    Raises:
        ProtocolError: The API is not in the table; a broker closes the connection then.
        DecodeError: The header cannot be read.
    """
    reader = WireReader(frame, flexible=False)
    api_key, api_version = reader.int16(), reader.int16()
    api = BY_KEY.get(api_key)
    if api is None:
        raise ProtocolError(f"a request has the unknown API key {api_key}")
    header = RequestHeader(
        api_key=api_key,
        api_version=api_version,
        correlation_id=reader.int32(),
        client_id=reader.nullable_string(),
    )
    start = reader.offset
    return header, frame[skip_tags(frame, start) if api.is_flexible(api_version) else start :]


def encode_response(api: KafkaApi, version: int, *, correlation_id: int, body: bytes) -> bytes:
    """Encode a complete response frame."""
    tags = b"\x00" if _has_response_tags(api, version) else b""
    return _frame(_CORRELATION.pack(correlation_id) + tags, body)


def correlation_id_of(frame: bytes | bytearray) -> int:
    """Return the correlation id of a response frame without its length."""
    return WireReader(bytes(frame[:_LEAST_ANSWER]), flexible=False).int32()


def response_body(api: KafkaApi, version: int, frame: bytes | bytearray) -> bytes:
    """Return the body of a response frame without its length, copied once.

    Raises:
        DecodeError: The header cannot be read.
    """
    start = _LEAST_ANSWER
    if len(frame) < start:
        raise DecodeError("an answer is too short for its header", offset=len(frame))
    if _has_response_tags(api, version):
        start = skip_tags(frame, start)
    return bytes(memoryview(frame)[start:])


def _has_response_tags(api: KafkaApi, version: int) -> bool:
    return api.is_flexible(version) and api.key != API_VERSIONS.key


def _frame(header: bytes, body: bytes) -> bytes:
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))


SMALL_BYTES: Final = 64 * 1024
"""Frames up to this size, including the length field, share one buffer that is allocated once."""


class FrameBuffer:
    """A buffer from bytes to frames, both in order, for asyncio's ``BufferedProtocol``.

    A large frame is received directly into a buffer of its size, in a fifth of the time that appending to one buffer
    takes. Memory is allocated only after the size was checked against the limit.
    """

    def __init__(self, *, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit  # largest frame accepted, in bytes; may be changed between frames
        # Why the stream cannot be split any further (the size is invalid or above the limit). Frames completed before
        # it have been returned.
        self.failure: ProtocolError | None = None
        self._small = bytearray(SMALL_BYTES)
        self._filled = 0
        self._large: bytearray | None = None
        self._large_filled = 0

    def __repr__(self) -> str:
        return f"FrameBuffer(limit={self.limit})"

    @property
    def is_empty(self) -> bool:
        """Whether no frame is incomplete."""
        return self._large is None and not self._filled

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._small)[self._filled :]

    def buffer_updated(self, count: int) -> list[bytes | bytearray]:
        """Return the frames, without their lengths, that ``count`` more bytes complete; none after a failure."""
        if self._large is None:
            self._filled += count
            return self._cut()
        self._large_filled += count
        if self._large_filled < len(self._large):
            return []
        frame, self._large = self._large, None
        return [frame]

    def feed(self, stream: bytes) -> list[bytes | bytearray]:
        """Return the frames that ``stream`` completes; for callers without a buffered protocol."""
        frames: list[bytes | bytearray] = []
        unread = memoryview(stream)
        while unread and self.failure is None:
            room = self.get_buffer()
            size = min(len(room), len(unread))
            room[:size] = unread[:size]
            frames += self.buffer_updated(size)
            unread = unread[size:]
        return frames

    def _cut(self) -> list[bytes | bytearray]:
        frames: list[bytes | bytearray] = []
        start = 0
        while self.failure is None and self._filled - start >= LENGTH_BYTES:
            frame = self._next(start + LENGTH_BYTES)
            if frame is None:
                break
            frames.append(frame)
            start += LENGTH_BYTES + len(frame)
        remainder = self._small[start : self._filled] if self._large is None else b""
        self._small[: len(remainder)] = remainder
        self._filled = len(remainder)
        return frames

    def _next(self, begin: int) -> bytes | None:
        """Return the frame whose bytes begin at ``begin``; None if it is incomplete or its size is invalid."""
        try:
            size = frame_size(bytes(self._small[begin - LENGTH_BYTES : begin]), limit=self.limit)
        except ProtocolError as error:
            self.failure = error
            return None
        present = self._filled - begin
        if present >= size:
            return bytes(self._small[begin : begin + size])
        if LENGTH_BYTES + size > SMALL_BYTES:
            self._large = bytearray(size)
            self._large[:present] = self._small[begin : self._filled]
            self._large_filled = present
        return None
