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
