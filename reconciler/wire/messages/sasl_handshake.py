"""SaslHandshake (key 17), versions 0 and 1: which mechanism the client will use. Never flexible."""

from dataclasses import dataclass

from reconciler.wire.apis import SASL_HANDSHAKE
from reconciler.wire.primitives import WireReader, WireWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest:
    """The mechanism, by its registered name."""

    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse:
    """The error code, and every mechanism that this listener accepts."""

    error_code: int
    mechanisms: tuple[str, ...]


def encode_request(version: int, request: SaslHandshakeRequest) -> bytes:
    """Encode the body of a request."""
    writer = WireWriter(flexible=SASL_HANDSHAKE.is_flexible(version))
    writer.string(request.mechanism)
    return writer.to_bytes()


def decode_request(version: int, body: bytes) -> SaslHandshakeRequest:
    """Decode a request body."""
    reader = WireReader(body, flexible=SASL_HANDSHAKE.is_flexible(version))
    request = SaslHandshakeRequest(mechanism=reader.string())
    reader.end()
    return request


def encode_response(version: int, response: SaslHandshakeResponse) -> bytes:
    """Encode the body of a response."""
    writer = WireWriter(flexible=SASL_HANDSHAKE.is_flexible(version))
    writer.int16(response.error_code)
    writer.array(response.mechanisms, writer.string)
    return writer.to_bytes()


def decode_response(version: int, body: bytes) -> SaslHandshakeResponse:
    """Decode a response body."""
    reader = WireReader(
        body, flexible=SASL_HANDSHAKE.is_flexible(version), items=SASL_HANDSHAKE.answer_items
    )
    response = SaslHandshakeResponse(
        error_code=reader.int16(), mechanisms=reader.array(reader.string, least_size=2)
    )
    reader.end()
    return response
