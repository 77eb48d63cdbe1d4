from reconciler.wire.messages import sasl_handshake
from reconciler.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def test_both_versions_have_the_same_classic_layout() -> None:
    for version in (0, 1):
        assert (
            sasl_handshake.encode_request(version, SaslHandshakeRequest(mechanism="X"))
            == b"\x00\x01X"
        )
        body = sasl_handshake.encode_response(
            version, SaslHandshakeResponse(error_code=0, mechanisms=("X",))
        )
        assert body == b"\x00\x00\x00\x00\x00\x01\x00\x01X"
