from reconciler.wire.messages import sasl_authenticate
from reconciler.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def test_tokens_are_in_no_repr() -> None:
    for message in (
        SaslAuthenticateRequest(token=b"hunter2"),
        SaslAuthenticateResponse(token=b"hunter2"),
    ):
        assert "hunter2" not in repr(message)


def test_a_lifetime_is_decoded_from_version_1_on() -> None:
    for version, lifetime in ((0, 0), (1, 5), (2, 5)):
        body = sasl_authenticate.encode_response(
            version, SaslAuthenticateResponse(session_lifetime_ms=5)
        )
        assert sasl_authenticate.decode_response(version, body).session_lifetime_ms == lifetime
