"""SaslHandshake (key 17), versions 0 and 1: which mechanism the client will use. Never flexible."""

from msgspec import Struct

from reconciler.wire.apis import SASL_HANDSHAKE


class SaslHandshakeRequest(Struct, frozen=True, kw_only=True):
    """The mechanism, by its registered name."""

    mechanism: str


class SaslHandshakeResponse(Struct, frozen=True, kw_only=True):
    """The error code, and every mechanism that this listener accepts."""

    error_code: int
    mechanisms: tuple[str, ...]


def encode_request(version: int, request: SaslHandshakeRequest) -> bytes:
    """Encode the body of a request."""
    writer = SASL_HANDSHAKE.writer(version)
    writer.string(request.mechanism)
    return writer.complete()


def decode_request(version: int, body: bytes) -> SaslHandshakeRequest:
    """Decode a request body."""
    reader = SASL_HANDSHAKE.request_reader(version, body)
    return reader.complete(SaslHandshakeRequest(mechanism=reader.string()))


def encode_response(version: int, response: SaslHandshakeResponse) -> bytes:
    """Encode the body of a response."""
    writer = SASL_HANDSHAKE.writer(version)
    writer.int16(response.error_code)
    writer.array(response.mechanisms, writer.string)
    return writer.complete()


def decode_response(version: int, body: bytes) -> SaslHandshakeResponse:
    """Decode a response body."""
    reader = SASL_HANDSHAKE.answer_reader(version, body)
    return reader.complete(
        SaslHandshakeResponse(
            error_code=reader.int16(), mechanisms=reader.array(reader.string, least_size=2)
        )
    )
