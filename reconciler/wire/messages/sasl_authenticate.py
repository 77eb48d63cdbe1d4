"""SaslAuthenticate (key 36), versions 0 to 2: one step of a SASL exchange, in either direction.

Tokens contain credentials, so no ``repr`` shows them.
"""

from msgspec import Struct

from reconciler.wire.apis import SASL_AUTHENTICATE


class SaslAuthenticateRequest(Struct, frozen=True, kw_only=True):
    """The client's token."""

    token: bytes

    def __repr__(self) -> str:
        return "SaslAuthenticateRequest(...)"


class SaslAuthenticateResponse(Struct, frozen=True, kw_only=True):
    """The broker's result and token."""

    error_code: int = 0
    error_message: str | None = None
    token: bytes = b""
    # Milliseconds after which the broker closes the connection unless the client authenticates again (KIP-368); 0
    # means never. Version 1 and later.
    session_lifetime_ms: int = 0

    def __repr__(self) -> str:
        return f"SaslAuthenticateResponse({self.error_code}, {self.error_message!r})"


def encode_request(version: int, request: SaslAuthenticateRequest) -> bytes:
    """Encode the body of a request."""
    writer = SASL_AUTHENTICATE.writer(version)
    writer.binary(request.token)
    return writer.complete()


def decode_request(version: int, body: bytes) -> SaslAuthenticateRequest:
    """Decode a request body."""
    reader = SASL_AUTHENTICATE.request_reader(version, body)
    return reader.complete(SaslAuthenticateRequest(token=reader.binary()))


def encode_response(version: int, response: SaslAuthenticateResponse) -> bytes:
    """Encode the body of a response."""
    writer = SASL_AUTHENTICATE.writer(version)
    writer.int16(response.error_code)
    writer.nullable_string(response.error_message)
    writer.binary(response.token)
    if version >= 1:
        writer.int64(response.session_lifetime_ms)
    return writer.complete()


def decode_response(version: int, body: bytes) -> SaslAuthenticateResponse:
    """Decode a response body."""
    reader = SASL_AUTHENTICATE.answer_reader(version, body)
    return reader.complete(
        SaslAuthenticateResponse(
            error_code=reader.int16(),
            error_message=reader.nullable_string(),
            token=reader.binary(),
            session_lifetime_ms=reader.int64() if version >= 1 else 0,
        )
    )
