"""Unsecured tokens for development, from JAAS options, as in Kafka's default OAUTHBEARER login.

Source: ``OAuthBearerUnsecuredLoginCallbackHandler`` of Kafka 4.3. Brokers accept these only with
their unsecured validator, which Kafka's documentation calls unsuitable for production.
"""

import base64
import json
from collections.abc import Mapping
from typing import Final

from reconciler.base.protocols import Clock
from reconciler.base.secret import Secret
from reconciler.client.auth.token import BearerToken
from reconciler.errors import ConfigError

_STRING: Final = "unsecuredLoginStringClaim_"
_NUMBER: Final = "unsecuredLoginNumberClaim_"
_LIST: Final = "unsecuredLoginListClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"
_DEFAULT_LIFETIME: Final = 3600.0


def is_unsecured_login(options: Mapping[str, Secret]) -> bool:
    """Whether the options of a login module request such a token."""
    return any(name.startswith("unsecuredLogin") for name in options)


class UnsecuredTokens:
    """A token source that signs nothing and contacts no server."""

    def __init__(
        self, options: Mapping[str, Secret], extensions: Mapping[str, str], clock: Clock
    ) -> None:
        """Read the options.

        Raises:
            ConfigError: A value is not a number, or the claim of the principal is missing.
        """
        self._claims: dict[str, object] = {}
        for name, secret in options.items():
            text = secret.reveal()
            if name.startswith(_STRING):
                self._claims[name.removeprefix(_STRING)] = text
            elif name.startswith(_NUMBER):
                self._claims[name.removeprefix(_NUMBER)] = _number(_NUMBER, text)
            elif name.startswith(_LIST):
                separator, remainder = text[:1] or ",", text[1:]
                self._claims[name.removeprefix(_LIST)] = remainder.split(separator)
        principal = options.get("unsecuredLoginPrincipalClaimName", Secret("sub")).reveal()
        if not self._claims.get(principal):
            claim_names = (
                f"{_STRING}sub" if principal == "sub" else f"a claim {_STRING}... for the principal"
            )
            raise ConfigError(f"sasl.jaas.config: {claim_names} is missing", key="sasl.jaas.config")
        lifetime = options.get(_LIFETIME)
        self._lifetime = (
            _DEFAULT_LIFETIME if lifetime is None else _number(_LIFETIME, lifetime.reveal())
        )
        self._extensions = extensions
        self._clock = clock

    async def __call__(self) -> BearerToken:
        """Return a token issued now."""
        now = self._clock.now()
        claims = {**self._claims, "iat": now, "exp": now + self._lifetime}
        return BearerToken(
            value=Secret(f"{_part({'alg': 'none'})}.{_part(claims)}."),
            expires_at=now + self._lifetime,
            extensions=self._extensions,
        )


def _part(claims: Mapping[str, object]) -> str:
    text = json.dumps(claims, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode("ascii").rstrip("=")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(
            f"sasl.jaas.config: an option that begins with {name} is not a number",
            key="sasl.jaas.config",
        ) from None
