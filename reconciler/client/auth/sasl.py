"""Login configurations: one class per mechanism. ``sasl_settings`` creates them from settings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from reconciler.base.protocols import Clock
from reconciler.base.secret import Secret
from reconciler.client.auth.token import TokenSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """SASL PLAIN (RFC 4616)."""

    username: str
    password: Secret

    @property
    def mechanism(self) -> str:
        """Kafka's name."""
        return "PLAIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scram:
    """SCRAM-SHA-256 or -512 (RFC 5802)."""

    mechanism: str
    username: str
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthBearer:
    """OAUTHBEARER (RFC 7628); ``source`` creates the token source with a clock."""

    source: Callable[[Clock], TokenSource]

    @property
    def mechanism(self) -> str:
        """Kafka's name."""
        return "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gssapi:
    """Kerberos with the machine's ticket cache or keytab; ``principal`` "" = that of the cache."""

    service: str
    principal: str = ""

    @property
    def mechanism(self) -> str:
        """Kafka's name."""
        return "GSSAPI"


Sasl: TypeAlias = Plain | Scram | OAuthBearer | Gssapi
