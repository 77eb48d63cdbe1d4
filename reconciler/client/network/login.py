"""Creates a SASL mechanism for each exchange from the configured login; adds nonces and tokens."""

from typing import Final

from reconciler.base.protocols import Clock
from reconciler.base.redaction import SecretScrubber, remember
from reconciler.client.auth.sasl import (
    CachedTokenSource,
    OAuthBearer,
    Plain,
    Scram,
    TokenSource,
)
from reconciler.client.client_config import ClientConfig
from reconciler.errors import AuthenticationError, KquotaError
from reconciler.wire.sasl import Mechanism

_TOKENS_REMEMBERED: Final = 2
"""A broker's message may contain the previous token while another connection logs in with the next one."""


class Login:
    """Creates SASL mechanisms; keeps the token source, which caches its token."""

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._sasl = config.sasl
        self._secrets = config.secrets
        self._sent: tuple[str, ...] = ()
        self._scrub = self._scrubber()
        self._tokens: TokenSource | None = (
            self._sasl.source(clock) if isinstance(self._sasl, OAuthBearer) else None
        )

    @property
    def is_needed(self) -> bool:
        """Whether the listener requires a login."""
        return self._sasl is not None

    def scrubbed(self, text: str) -> str:
        """Remove credentials that were sent, and other secrets of the configuration, from a broker's message."""
        return self._scrub(text)

    def _scrubber(self) -> SecretScrubber:
        hidden = [secret.reveal() for secret in self._secrets]
        secrets: list[str] = []
        match self._sasl:
            case Plain(username=user, password=password):
                hidden.append(password.reveal())
                secrets = [f"\0{user}\0{password.reveal()}", f"{user}\0{password.reveal()}"]
            case Scram(password=password):
                hidden.append(password.reveal())
            case _:
                hidden += self._sent
        remember(*hidden)
        return SecretScrubber(hidden, complete=secrets)

    async def stepper(self) -> Mechanism:
        """Return a new mechanism for one exchange.

        Raises:
            AuthenticationError: No token is available.
        """
        match self._sasl:
            case Plain(username=user, password=password):
                from reconciler.wire.sasl import plain

                return plain.PlainClient(user=user, password=password.reveal())
            case Scram(mechanism=name, username=user, password=password):
                import secrets

                from reconciler.wire.sasl import scram

                nonce = secrets.token_urlsafe(24)
                return scram.ScramClient(name, user=user, password=password.reveal(), nonce=nonce)
            case _:
                return await self._bearer()

    async def _bearer(self) -> Mechanism:
        if self._tokens is None:
            raise AuthenticationError("no credentials are configured")
        try:
            token = await self._tokens()
        except KquotaError:
            raise
        except Exception as error:  # noqa: BLE001 - a callable of the caller; its error may contain the token
            raise AuthenticationError(
                f"the token source failed: {type(error).__name__}",
                hint="call it separately to see the error; its message is not shown, because it may contain secrets",
            ) from None
        self._sent = (*self._sent, token.value.reveal())[-_TOKENS_REMEMBERED:]
        self._scrub = self._scrubber()
        from reconciler.wire.sasl import oauthbearer

        return oauthbearer.OAuthBearerClient(
            token=token.value.reveal(), extensions=dict(token.extensions)
        )

    def forget_token(self) -> bool:
        """Drop a cached token that the broker refused; return whether another attempt can use a new one."""
        return isinstance(self._tokens, CachedTokenSource) and self._tokens.forget()
