"""SaslHandshake (key 17), versions 0 and 1: which mechanism the client will use. Never flexible."""

from dataclasses import dataclass

from reconciler.wire.apis import SASL_HANDSHAKE
from reconciler.wire.primitives import Reader, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The mechanism, by its registered name."""

    mechanism: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The verdict, and every mechanism that this listener accepts."""

    error_code: int
    mechanisms: tuple[str, ...]


def encode_request(version: int, request: Request) -> bytes:
    """The body of a request."""
    writer = Writer(flexible=SASL_HANDSHAKE.is_flexible(version))
    writer.string(request.mechanism)
    return writer.to_bytes()


def decode_request(version: int, body: bytes) -> Request:
    """The request in ``body``."""
    reader = Reader(body, flexible=SASL_HANDSHAKE.is_flexible(version))
    request = Request(mechanism=reader.string())
    reader.end()
    return request


def encode_response(version: int, response: Response) -> bytes:
    """The body of an answer."""
    writer = Writer(flexible=SASL_HANDSHAKE.is_flexible(version))
    writer.int16(response.error_code)
    writer.array(response.mechanisms, writer.string)
    return writer.to_bytes()


def decode_response(version: int, body: bytes) -> Response:
    """The answer in ``body``."""
    reader = Reader(
        body, flexible=SASL_HANDSHAKE.is_flexible(version), items=SASL_HANDSHAKE.answer_items
    )
    response = Response(
        error_code=reader.int16(), mechanisms=reader.array(reader.string, least_size=2)
    )
    reader.end()
    return response
