"""The configuration of a test broker: one node's `server.properties` as a mapping. No I/O.

Every node is a combined broker and controller (KRaft) on loopback. Clients use the listeners of
`Listener`; brokers and controllers use two separate listeners, so that a fault proxy in front of a client
listener does not affect the cluster itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

CONTROLLER, INTERNAL = "CONTROLLER", "INTERNAL"
CALLBACK_KEY = "client.quota.callback.class"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

USERS: Mapping[str, str] = {
    "admin": "admin-secret",
    "alice": "alice-secret",
    "bob": "bob-secret",
    "planner": "planner-secret",
    "applier": "applier-secret",
}

# A broker that only serves quotas needs few threads and writes no metadata while it is idle.
QUICK = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.replica.fetchers": "1",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "group.initial.rebalance.delay.ms": "0",
    "metadata.max.idle.interval.ms": "0",  # records without content would take a third of the time of an idle broker
}


class Listener(StrEnum):
    """A client listener; all but the last are named after their security protocol."""

    PLAINTEXT = "PLAINTEXT"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SSL = "SSL"  # client certificates are requested, not required
    SASL_SSL = "SASL_SSL"
    OAUTHBEARER = "OAUTHBEARER"  # SASL_PLAINTEXT with OAUTHBEARER as its only mechanism

    @property
    def protocol(self) -> str:
        """The security protocol of the listener."""
        return "SASL_PLAINTEXT" if self is Listener.OAUTHBEARER else self.value

    @property
    def encrypted(self) -> bool:
        """Whether the listener uses TLS."""
        return self in {Listener.SSL, Listener.SASL_SSL}

    @property
    def passwords(self) -> bool:
        """Whether the listener accepts PLAIN and SCRAM."""
        return self in {Listener.SASL_PLAINTEXT, Listener.SASL_SSL}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """How the broker validates bearer tokens: signature keys and two required claims."""

    jwks: Path
    issuer: str
    audience: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of a broker: key, certificate and CA in one file, and the CA of clients."""

    keystore: Path
    truststore: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The ports of one node on 127.0.0.1, and the advertised ports that differ."""

    controller: int
    internal: int
    clients: Mapping[Listener, int]
    advertised: Mapping[Listener, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """One node of a cluster."""

    version: str
    node: int
    ports: NodePorts
    voters: Mapping[int, int]  # node -> controller port
    data: Path
    users: Mapping[str, str] = field(default_factory=lambda: USERS)
    acls: bool = False
    tls: TlsFiles | None = None
    tokens: TokenRules | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


def scram_supported(version: str) -> bool:
    """Whether KRaft brokers of `version` support SCRAM (KIP-900: 3.5 and newer)."""
    major, minor, *_ = version.split(".")
    return (int(major), int(minor)) >= (3, 5)


def mechanisms(version: str) -> tuple[str, ...]:
    """Return the SASL mechanisms of the password listeners."""
    scram = ("SCRAM-SHA-256", "SCRAM-SHA-512") if scram_supported(version) else ()
    return ("PLAIN", *scram)


def server_properties(settings: NodeSettings) -> dict[str, str]:
    """Return the node's `server.properties`; `extra` takes precedence."""
    return {
        **QUICK,
        **_addresses(settings),
        "log.dirs": str(settings.data),
        **(
            _passwords(settings)
            if any(client.passwords for client in settings.ports.clients)
            else {}
        ),
        **(_tls(settings.tls) if settings.tls else {}),
        **(_tokens(settings.tokens) if settings.tokens else {}),
        **(_acls() if settings.acls else {}),
        **settings.extra,
    }


def login(mechanism: str, user: str, password: str) -> str:
    """Return the `sasl.jaas.config` of a client with a password."""
    return f'{LOGIN_MODULES[mechanism]} required username="{user}" password="{password}";'


def to_text(properties: Mapping[str, str]) -> str:
    """Return Java `.properties` text; values are escaped, keys need no escapes."""
    lines = (
        f"{key}={value.replace(chr(92), chr(92) * 2).replace(chr(10), chr(92) + 'n')}\n"
        for key, value in properties.items()
    )
    return "".join(lines)


def _addresses(settings: NodeSettings) -> dict[str, str]:
    ports = settings.ports
    inside = {INTERNAL: ports.internal}
    clients = {listener.value: port for listener, port in ports.clients.items()}
    advertised = {listener.value: port for listener, port in ports.advertised.items()}
    protocols = {CONTROLLER: "PLAINTEXT", INTERNAL: "PLAINTEXT"} | {
        listener.value: listener.protocol for listener in ports.clients
    }
    return {
        "process.roles": "broker,controller",
        "node.id": str(settings.node),
        "controller.quorum.voters": ",".join(
            f"{node}@127.0.0.1:{port}" for node, port in settings.voters.items()
        ),
        "listeners": _endpoints(inside | clients | {CONTROLLER: ports.controller}),
        "advertised.listeners": _endpoints(inside | clients | advertised),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
    }


def _endpoints(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _passwords(settings: NodeSettings) -> dict[str, str]:
    offered = mechanisms(settings.version)
    accounts = " ".join(f'user_{name}="{word}"' for name, word in settings.users.items())
    properties = {}
    for listener in settings.ports.clients:
        prefix = f"listener.name.{listener.lower()}"
        if listener.passwords:
            properties[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(offered)
            for mechanism in offered:
                options = f" {accounts}" if mechanism == "PLAIN" else ""
                properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = (
                    f"{LOGIN_MODULES[mechanism]} required{options};"
                )
    return properties


def _tls(files: TlsFiles) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.truststore),
        # Without the listener's prefix, the SASL_SSL listener logs a warning that it ignores this.
        "listener.name.ssl.ssl.client.auth": "requested",
    }


def _tokens(rules: TokenRules) -> dict[str, str]:
    prefix = "listener.name.oauthbearer"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.oauthbearer.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
            f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": rules.jwks.as_uri(),
        f"{prefix}.sasl.oauthbearer.expected.issuer": rules.issuer,
        f"{prefix}.sasl.oauthbearer.expected.audience": rules.audience,
    }


def _acls() -> dict[str, str]:
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # The brokers themselves are ANONYMOUS on the plaintext listeners.
        "super.users": "User:admin;User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
    }
