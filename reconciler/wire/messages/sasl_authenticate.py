"""SaslAuthenticate (key 36), versions 0 to 2: one step of a SASL exchange, in either direction.

Tokens contain credentials, so no ``repr`` shows them.
"""

from dataclasses import dataclass, field

from reconciler.wire.apis import SASL_AUTHENTICATE
from reconciler.wire.primitives import WireReader, WireWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateRequest:
    """The client's token."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """The broker's result and token."""

    error_code: int = 0
    error_message: str | None = None
    token: bytes = field(default=b"", repr=False)
    # Milliseconds after which the broker closes the connection unless the client authenticates again (KIP-368); 0
    # means never. Version 1 and later.
    session_lifetime_ms: int = 0


def encode_request(version: int, request: SaslAuthenticateRequest) -> bytes:
    """Encode the body of a request."""
    writer = WireWriter(flexible=SASL_AUTHENTICATE.is_flexible(version))
    writer.binary(request.token)
    writer.tags()
    return writer.to_bytes()


def decode_request(version: int, body: bytes) -> SaslAuthenticateRequest:
    """Decode a request body."""
    reader = WireReader(body, flexible=SASL_AUTHENTICATE.is_flexible(version))
    request = SaslAuthenticateRequest(token=reader.binary())
    reader.skip_tags()
    reader.end()
    return request


def encode_response(version: int, response: SaslAuthenticateResponse) -> bytes:
    """Encode the body of a response."""
    writer = WireWriter(flexible=SASL_AUTHENTICATE.is_flexible(version))
    writer.int16(response.error_code)
    writer.nullable_string(response.error_message)
    writer.binary(response.token)
    if version >= 1:
        writer.int64(response.session_lifetime_ms)
    writer.tags()
    return writer.to_bytes()


def decode_response(version: int, body: bytes) -> SaslAuthenticateResponse:
    """Decode a response body."""
    reader = WireReader(body, flexible=SASL_AUTHENTICATE.is_flexible(version))
    response = SaslAuthenticateResponse(
        error_code=reader.int16(),
        error_message=reader.nullable_string(),
        token=reader.binary(),
        session_lifetime_ms=reader.int64() if version >= 1 else 0,
    )
    reader.skip_tags()
    reader.end()
    return response
