"""Decisions about single responses; the session's reaction is in test_session."""

import pytest

from reconciler.errors import AuthenticationError, UnsupportedVersion
from reconciler.wire import handshake
from reconciler.wire.messages import api_versions, sasl_handshake
from reconciler.wire.sasl.plain import PlainClient
from reconciler.wire.session_events import SessionState

PLAIN = PlainClient(user="u", password="p")  # noqa: S106


def test_a_rejection_without_a_range_is_retried_once_with_version_0() -> None:
    refusal = api_versions.ApiVersionsResponse(error_code=35, apis=())
    assert handshake.lower_version(refusal, requested_version=3, is_retry=False) == 0
    with pytest.raises(UnsupportedVersion):
        handshake.lower_version(refusal, requested_version=0, is_retry=True)


def test_the_error_about_a_listener_without_mechanisms_contains_a_hint() -> None:
    answer = sasl_handshake.SaslHandshakeResponse(error_code=33, mechanisms=())
    with pytest.raises(AuthenticationError) as caught:
        handshake.check_handshake(answer, PLAIN)
    assert caught.value.hint == "it accepts none"


@pytest.mark.parametrize(
    ("state", "has_received", "expects_sasl", "word"),
    [
        (SessionState.API_VERSIONS, False, False, "TLS"),
        (SessionState.API_VERSIONS, True, False, ""),
        (SessionState.AUTHENTICATING, True, True, "credentials"),
        (SessionState.REAUTHENTICATING, True, True, "credentials"),
        (SessionState.READY, True, False, "SASL"),
        (SessionState.READY, True, True, ""),
        (SessionState.CONNECTING, False, False, ""),
    ],
)
def test_a_closed_connection_is_explained_by_its_place_in_the_handshake(
    state: SessionState, has_received: bool, expects_sasl: bool, word: str
) -> None:
    hint = handshake.hang_up_hint(state, has_received=has_received, expects_sasl=expects_sasl)
    assert word in hint
    assert bool(word) == bool(hint)
