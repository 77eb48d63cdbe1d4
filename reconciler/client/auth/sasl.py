"""Login configurations: one class per mechanism. ``sasl_settings`` creates them from settings."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import ClassVar, Final, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from reconciler.base.protocols import Clock
from reconciler.base.secret import Secret
from reconciler.errors import ConfigError

_TOKEN: Final = re.compile(r"[-._~+/A-Za-z0-9]+=*")
"""RFC 6750 b68token; also what OAuthBearerClientInitialResponse of Kafka 4.3 accepts."""

_NAME: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_RESERVED: Final = "auth"


class BearerToken(Struct, frozen=True, kw_only=True):
    """A bearer token.

    Attributes:
        expires_at: Seconds since the epoch; None = unknown, so it is fetched again for every connection.
        extensions: SASL extensions (KIP-342), for example ``logicalCluster`` of a cloud.
    """

    value: Secret
    expires_at: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.value.reveal()):
            raise ConfigError("the token is not of the form that RFC 6750 allows")
        check_extensions(self.extensions)


TokenSource: TypeAlias = Callable[[], Awaitable[BearerToken]]
"""Returns a token that is valid now. Called once per authentication; it may cache a token."""


@runtime_checkable
class CachedTokenSource(Protocol):
    """A token source that caches its token."""

    async def __call__(self) -> BearerToken:
        """Return a token that is valid now."""
        ...

    def forget(self) -> bool:
        """Drop the cached token, because the broker refused it; return whether one was cached."""
        ...


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Check the syntax of SASL extensions (RFC 7628, KIP-342).

    Raises:
        ConfigError: A name does not consist of letters or is ``auth``, or a value has control characters.
    """
    for name, value in extensions.items():
        if not _NAME.fullmatch(name) or name == _RESERVED:
            raise ConfigError(
                f"the SASL extension name {name!r} must be letters and not {_RESERVED!r}"
            )
        if not _VALUE.fullmatch(value):
            raise ConfigError(
                f"the value of the SASL extension {name!r} is empty or has characters that are not allowed"
            )


class Plain(Struct, frozen=True, kw_only=True):
    """SASL PLAIN (RFC 4616)."""

    username: str
    password: Secret
    mechanism: ClassVar = "PLAIN"


class Scram(Struct, frozen=True, kw_only=True):
    """SCRAM-SHA-256 or -512 (RFC 5802)."""

    mechanism: str
    username: str
    password: Secret


class OAuthBearer(Struct, frozen=True, kw_only=True):
    """OAUTHBEARER (RFC 7628); ``source`` creates the token source with a clock."""

    source: Callable[[Clock], TokenSource]
    mechanism: ClassVar = "OAUTHBEARER"


SENT: Final[Mapping[str, str]] = {
    "PLAIN": "the password",
    "OAUTHBEARER": "the token",
    "AWS_MSK_IAM": "the token",
}
"""Mechanisms that send a credential itself to the server, and which."""

Sasl: TypeAlias = Plain | Scram | OAuthBearer
