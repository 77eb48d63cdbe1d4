"""The settings of a sandbox: listeners, brokers, users, permissions, release line. Values only."""

import ssl
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct, field

from reconciler.base.redaction import QuietRepr
from reconciler.errors import ConfigError
from reconciler.sandbox.authorizer import OPEN, Authorizer
from reconciler.sandbox.broker_rules.profiles import NEWEST, BrokerProfile
from reconciler.sandbox.sasl_session import MECHANISMS


class ListenerProtocol(StrEnum):
    """Kafka's security protocols."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        """Whether the connection begins with a TLS handshake."""
        return self in (ListenerProtocol.SSL, ListenerProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Whether a client must authenticate with SASL."""
        return self in (ListenerProtocol.SASL_PLAINTEXT, ListenerProtocol.SASL_SSL)


class Listener(Struct, frozen=True, kw_only=True):
    """One listener of every broker."""

    name: str = "PLAINTEXT"
    protocol: ListenerProtocol = ListenerProtocol.PLAINTEXT
    host: str = "127.0.0.1"
    port: int = 0  # port of the first broker, the next broker uses the next port; 0 = free ones
    # Context of the server, for the protocols with TLS. A verified client certificate determines the principal on an
    # SSL listener.
    tls: ssl.SSLContext | None = None
    mechanisms: tuple[str, ...] = MECHANISMS

    def __post_init__(self) -> None:
        if self.protocol.uses_tls != (self.tls is not None):
            raise ConfigError(
                f"listener {self.name}: {self.protocol} needs a TLS context"
                if self.protocol.uses_tls
                else f"listener {self.name}: {self.protocol} has no use for a TLS context"
            )
        unknown = set(self.mechanisms) - set(MECHANISMS)
        if unknown:
            raise ConfigError(f"the sandbox does not support {', '.join(sorted(unknown))}")


def tls_context(certificate: Path, key: Path | None, client_ca: Path | None) -> ssl.SSLContext:
    """Return the TLS context of a listener.

    Args:
        certificate: PEM chain, the server's own certificate first.
        key: PEM private key, not encrypted; ``None`` if it is in the same file.
        client_ca: PEM authorities of client certificates, which determine the principal; ``None`` = no client
            certificates.

    Raises:
        ConfigError: A file cannot be read, or is not PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the TLS files cannot be used: {error}", key="tls") from error
    return context


class SandboxSettings(QuietRepr, Struct, frozen=True, kw_only=True):
    """The settings of a sandbox, fixed while it runs."""

    profile: BrokerProfile = NEWEST
    nodes: tuple[int, ...] = (1,)  # ids of its brokers, which share one image
    # Listeners of each broker; the first is the default of tools.
    listeners: tuple[Listener, ...] = (Listener(),)
    # Passwords by name, for PLAIN and SCRAM.
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    authorizer: Authorizer = OPEN
    cluster_id: str = ""  # 22 characters of base64; "" = a random one
    session_lifetime: float = 0.0  # seconds after which a SASL session must be renewed, 0 for never
    # Seconds by node id by which a broker shows alterations after they were acknowledged.
    lag: Mapping[int, float] = field(default_factory=dict[int, float])
    # Static settings in DescribeConfigs, for example `client.quota.callback.class`.
    broker_settings: Mapping[str, str] = field(default_factory=dict[str, str])
    # Seconds by which the response to a wrong password is delayed (`connection.failed.authentication.delay.ms`).
    failed_authentication_delay: float = 0.1

    def __post_init__(self) -> None:
        if not self.nodes or len(set(self.nodes)) != len(self.nodes):
            raise ConfigError("a sandbox needs one or more brokers with different ids")
        names = [listener.name for listener in self.listeners]
        if not names or len(set(names)) != len(names):
            raise ConfigError("a sandbox needs one or more listeners with different names")
        if self.cluster_id and len(self.cluster_id) != 22:
            raise ConfigError("a cluster id has 22 characters", key="cluster-id")
        if not self.users and any(listener.protocol.uses_sasl for listener in self.listeners):
            raise ConfigError("a SASL listener without users admits no client", key="users")
