"""Evaluates the responses before a connection is ready: version negotiation and the SASL exchange.

Each function evaluates one response; ``session`` acts on the result.
"""

from enum import StrEnum
from typing import Final

from reconciler.errors import AuthenticationError, BrokerError, UnsupportedVersion
from reconciler.wire.apis import API_VERSIONS
from reconciler.wire.error_codes import (
    ILLEGAL_SASL_STATE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
    UNSUPPORTED_VERSION,
    error_code,
)
from reconciler.wire.messages import api_versions, sasl_authenticate, sasl_handshake
from reconciler.wire.sasl import DeferredStep, Mechanism
from reconciler.wire.session_events import SessionState

LEAST_RENEWAL_SECONDS: Final = 1.0
"""Minimum time until re-authentication, however short the session; franz-go has the same minimum."""

LONGEST_LIFETIME_MS: Final = 10 * 365 * 24 * 3600 * 1000
"""A session that lives longer than ten years is treated as unlimited."""


def lower_version(
    answer: api_versions.ApiVersionsResponse, *, requested_version: int, is_retry: bool
) -> int | None:
    """Return the version of ApiVersions to request instead, or None if ``answer`` can be used.

    Raises:
        UnsupportedVersion: The broker refuses a version that it offered itself.
        BrokerError: The response has another error.
    """
    if answer.error_code == UNSUPPORTED_VERSION:
        lower = api_versions.retry_after_refusal(answer)
        if is_retry or lower == requested_version:
            raise UnsupportedVersion(
                f"the broker refuses {API_VERSIONS.name} v{requested_version}, which every broker supports"
            )
        return lower
    _raise_for(answer.error_code, None)
    return None


def check_handshake(answer: sasl_handshake.SaslHandshakeResponse, mechanism: Mechanism) -> None:
    """Check the response to SaslHandshake.

    Raises:
        AuthenticationError: The listener does not support the mechanism, or does not use SASL.
        BrokerError: The response has another error.
    """
    if answer.error_code == UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationError(
            f"this listener does not accept the SASL mechanism {mechanism.name}",
            hint=f"it accepts {', '.join(answer.mechanisms) or 'none'}",
        )
    if answer.error_code == ILLEGAL_SASL_STATE:
        raise AuthenticationError(
            "this listener does not use SASL",
            hint="set security.protocol to PLAINTEXT or SSL, or choose another port",
        )
    _raise_for(answer.error_code, None)


def next_token(
    answer: sasl_authenticate.SaslAuthenticateResponse, mechanism: Mechanism
) -> bytes | DeferredStep | None:
    """Return the next token of ``mechanism`` for a response to SaslAuthenticate; None if the exchange is complete.

    Raises:
        AuthenticationError: The broker refuses the credentials, or the mechanism refuses the broker.
        BrokerError: The response has an error unrelated to the credentials.
    """
    if answer.error_code in (SASL_AUTHENTICATION_FAILED, ILLEGAL_SASL_STATE):
        message = answer.error_message or error_code(answer.error_code).sentence
        server_error = f" ({mechanism.server_error})" if mechanism.server_error else ""
        raise AuthenticationError(f"{mechanism.name} failed: {message}{server_error}")
    _raise_for(answer.error_code, answer.error_message)
    return mechanism.receive(answer.token)


def renewal(lifetime_ms: int, *, fraction: float, now: float) -> tuple[float | None, float | None]:
    """Return when to re-authenticate, and when the broker ends the session; None for never (KIP-368)."""
    if not 0 < lifetime_ms <= LONGEST_LIFETIME_MS:
        return None, None
    lifetime = lifetime_ms / 1000
    return now + max(LEAST_RENEWAL_SECONDS, lifetime * fraction), now + lifetime


class ListenerHint(StrEnum):
    """Hints that blame the port or the protocol: retries do not help, as they do while a broker is unavailable."""

    NO_RESPONSE = (
        "no response: the listener may require TLS (security.protocol SSL or SASL_SSL),"
        " or may not be a Kafka listener"
    )
    NEEDS_SASL = "the listener may require SASL (security.protocol SASL_PLAINTEXT or SASL_SSL)"
    NO_TLS = (
        "the listener does not seem to use TLS: check the port, or set security.protocol to PLAINTEXT or"
        " SASL_PLAINTEXT"
    )
    NO_ANSWER_OVER_TLS = (
        "no response: the listener may require a client certificate (ssl.keystore.*), or may not trust this client's"
        " certificate"
    )
    TIMEOUT = "check the network, and whether the listener expects TLS"


def hang_up_hint(state: SessionState, *, has_received: bool, expects_sasl: bool) -> str:
    """Return the probable cause if a broker closes the connection, "" if unknown.

    Args:
        has_received: True if any response was received before.
        expects_sasl: True if the session uses SASL, or a request was answered without it.
    """
    if state is SessionState.API_VERSIONS and not has_received:
        return ListenerHint.NO_RESPONSE
    if state in (SessionState.AUTHENTICATING, SessionState.REAUTHENTICATING):
        return "brokers may close the connection if they refuse the credentials"
    if state is SessionState.READY and not expects_sasl:
        return ListenerHint.NEEDS_SASL
    return ""


def _raise_for(code: int, message: str | None) -> None:
    if code:
        known_code = error_code(code)
        raise BrokerError(f"{known_code}: {message or known_code.sentence}", code=code)
