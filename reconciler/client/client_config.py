"""The client's configuration: one frozen value, from a Java ``.properties`` file, librdkafka keys or any mapping.

Defaults are those of Kafka's admin client 4.3 if it has the setting; others have the reason beside them.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from reconciler.base import properties
from reconciler.base.backoff import Backoff
from reconciler.base.secret import Secret
from reconciler.client.auth.sasl import SENT, Sasl, TokenSource
from reconciler.client.configuration.keys import KEYS, ValueKind
from reconciler.client.configuration.references import NOTHING, AllowedReferences
from reconciler.client.configuration.settings import ClientSettings, Setting, collect
from reconciler.client.secret_values import hide_values, secrets_of
from reconciler.errors import ConfigError
from reconciler.wire.apis import MAX_ENTITIES
from reconciler.wire.frames import DEFAULT_LIMIT

if TYPE_CHECKING:
    from reconciler.client.tls.context import Tls

ALTER_SECONDS: Final = 65.0
"""Timeout of an alter request: the broker itself retries for 60 s (BrokerServer, 4.3)."""

ALTER_DEADLINE: Final = 90.0
DEFAULT_CLIENT_ID: Final = "kquota"
IDLE_SECONDS: Final = 180.0
"""Cloud load balancers cut idle connections after 4 to 6 minutes, brokers after 10."""

RETRY: Final = Backoff(first=0.1, cap=1.0)
RECONNECT: Final = Backoff(first=0.05, cap=1.0)
SETUP: Final = Backoff(first=10.0, cap=30.0)


class SecurityProtocol(StrEnum):
    """Values of ``security.protocol``."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class Address(Struct, frozen=True, kw_only=True):
    """Host and port of a listener."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


REFUSED_SECONDS: Final = 4.0
"""Long enough for a broker that is starting, short enough for a user with a wrong port."""


class ClientConfig(Struct, frozen=True, kw_only=True):
    """How to reach a cluster and authenticate. Times in seconds; secrets are hidden in every text form.

    Attributes:
        bootstrap: Bootstrap addresses.
        protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        client_id: Sent with every request; the broker may have a quota for it.
        tls: Set exactly with SSL and SASL_SSL.
        sasl: Set exactly with SASL_PLAINTEXT and SASL_SSL.
        request_seconds: Timeout of one response, except of alter (:data:`ALTER_SECONDS`).
        call_seconds: Deadline of a whole call with all its retries.
        refused_seconds: When a call fails if every address refuses and none ever accepted a connection.
        retry: Waits between attempts of a call.
        reconnect: Waits between connections to one node.
        setup: Timeout for setting up a connection; it grows with failures (KIP-601).
        idle_seconds: The client closes a connection that is unused for this time.
        frame_limit: Largest response accepted, in bytes.
        most_entities: Maximum entities in one response.
        canonical_names: Resolve bootstrap names to canonical host names first, which certificates then have to name.
        address_family: ``any``, ``v4`` or ``v6``.
        rebootstrap: Use ``bootstrap`` again if every known node failed (KIP-899).
        rebootstrap_seconds: Also after this time without any response (KIP-1102); 0 = never.
        proxy: ``socks5://`` or ``http://`` URL; needs the extra ``proxy``.
        secrets: Further secrets of the settings, to hide in messages of a peer.
        warnings: Warnings about the user's file; never an error.
    """

    bootstrap: tuple[Address, ...]
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    client_id: str = DEFAULT_CLIENT_ID
    tls: "Tls | None" = None
    sasl: Sasl | None = None
    request_seconds: float = 30.0
    call_seconds: float = 60.0
    refused_seconds: float = REFUSED_SECONDS
    retry: Backoff = RETRY
    reconnect: Backoff = RECONNECT
    setup: Backoff = SETUP
    idle_seconds: float = IDLE_SECONDS
    frame_limit: int = DEFAULT_LIMIT
    most_entities: int = MAX_ENTITIES
    canonical_names: bool = False
    address_family: str = "any"
    rebootstrap: bool = True
    rebootstrap_seconds: float = 300.0
    proxy: Secret | None = None
    secrets: tuple[Secret, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.bootstrap:
            raise ConfigError("bootstrap.servers: is missing", key="bootstrap.servers")
        if (self.tls is not None) != self.protocol.endswith("SSL"):
            raise ConfigError(
                f"security.protocol: {self.protocol} and TLS settings contradict each other",
                key="security.protocol",
            )
        if (self.sasl is not None) != self.protocol.startswith("SASL"):
            raise ConfigError(
                f"security.protocol: {self.protocol} and SASL settings do not fit together",
                key="security.protocol",
            )

    @classmethod
    def from_properties(
        cls,
        path: Path | str,
        *,
        overrides: Mapping[str, str] | None = None,
        allowed: AllowedReferences = NOTHING,
        token: TokenSource | None = None,
    ) -> "ClientConfig":
        """Read a file as Kafka's tools take it with ``--command-config``.

        Args:
            overrides: Keys with priority over the file, for example ``bootstrap.servers`` of a command line.
            allowed: What ``${env:...}``, ``${file:...}`` and ``${directory:...}`` may read.
            token: Your own source of OAUTHBEARER tokens.

        Raises:
            ConfigError: The file or a setting is wrong; the message has file, line and key.
        """
        settings = [
            Setting(name=pair.key, text=pair.value, location=f"{path}:{pair.line}")
            for pair in properties.read(Path(path))
        ]
        settings += _settings(overrides or {}, "")
        return _configure(settings, allowed, str(path), token)

    @classmethod
    def from_mapping(
        cls,
        mapping: Mapping[str, object],
        *,
        location: str = "",
        allowed: AllowedReferences = NOTHING,
        token: TokenSource | None = None,
    ) -> "ClientConfig":
        """Read keys of Java or librdkafka; values may be texts, numbers, booleans or lists.

        Args:
            mapping: The settings.
            location: Name of their source in errors.
            allowed: What references may read.
            token: Your own source of OAUTHBEARER tokens.

        Raises:
            ConfigError: A setting is wrong; the message has its key.
        """
        return _configure(_settings(mapping, location), allowed, location, token)

    @classmethod
    def from_librdkafka(
        cls, mapping: Mapping[str, object], *, token: TokenSource | None = None
    ) -> "ClientConfig":
        """Read a configuration dictionary of confluent-kafka.

        librdkafka uses SASL only with ``sasl.mechanisms``, whose default is GSSAPI, as in Java.

        Raises:
            ConfigError: A setting is wrong; the message has its key.
        """
        return cls.from_mapping(mapping, token=token)

    def at(self, *addresses: Address) -> "ClientConfig":
        """Return the same configuration with other bootstrap addresses."""
        return structs.replace(self, bootstrap=addresses)


def parse_addresses(texts: Iterable[str], settings: ClientSettings) -> tuple[Address, ...]:
    """Parse ``host:port`` texts; a listener name before it (``SSL://host:port``) is dropped, as in Kafka.

    Raises:
        ConfigError: A text is not an address.
    """
    addresses = []
    for text in texts:
        host, _, port = text.rpartition("://")[2].rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= 65535:
            raise settings.error(
                "bootstrap.servers",
                f"{text!r} is not host:port",
                hint="for example broker1:9092,broker2:9092",
            )
        addresses.append(Address(host=host, port=int(port)))
    return tuple(dict.fromkeys(addresses))


def static_problems(properties: Mapping[str, str]) -> Iterator[str]:
    """Yield problems of properties whose references are not resolved: unknown keys about TLS and login, wrong addresses."""
    for setting in _settings(properties, ""):
        if setting.name in KEYS and "${" in setting.text:
            continue
        try:
            settings = collect([setting], allowed=NOTHING)
            _ = parse_addresses(settings.items("bootstrap.servers"), settings)
        except ConfigError as error:
            yield f"{error}; {error.hint}" if error.hint else str(error)


def literal_secrets(properties: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys of secrets that are written out in place of a reference."""
    for name, text in properties.items():
        rule = KEYS.get(name)
        if rule is not None and rule.kind is ValueKind.HIDDEN and text.strip() and "${" not in text:
            yield name


def _settings(mapping: Mapping[str, object], location: str) -> list[Setting]:
    settings = []
    for key, value in mapping.items():
        if value is None:
            continue
        if isinstance(value, bool):
            text = str(value).lower()
        elif isinstance(value, Secret):
            text = value.reveal()
        elif isinstance(value, list | tuple):
            text = ",".join(str(part) for part in value)
        else:
            text = str(value)
        settings.append(Setting(name=key, text=text, location=location))
    return settings


def _configure(
    settings: Iterable[Setting],
    allowed: AllowedReferences,
    location: str,
    token: TokenSource | None,
) -> ClientConfig:
    values: list[str] = []
    try:
        return _build(collect(settings, allowed=allowed, location=location, values=values), token)
    except ConfigError as error:
        hide_values(error, values)
        raise


def _build(settings: ClientSettings, token: TokenSource | None) -> ClientConfig:
    protocol = SecurityProtocol(settings.lowered("security.protocol", "plaintext").upper())
    if "bootstrap.servers" not in settings:
        raise settings.error("bootstrap.servers", "is missing")
    addresses = parse_addresses(settings.items("bootstrap.servers"), settings)
    if not addresses:
        raise settings.error("bootstrap.servers", "is empty")
    request, call = _timeouts(settings)
    return ClientConfig(
        bootstrap=addresses,
        protocol=protocol,
        client_id=settings.text("client.id") or DEFAULT_CLIENT_ID,
        tls=_tls(settings) if protocol.endswith("SSL") else None,
        sasl=_login(settings, token) if protocol.startswith("SASL") else None,
        request_seconds=request,
        call_seconds=call,
        refused_seconds=call if "default.api.timeout.ms" in settings else REFUSED_SECONDS,
        retry=_backoff(settings, "retry.backoff", RETRY),
        reconnect=_backoff(settings, "reconnect.backoff", RECONNECT),
        setup=_backoff(settings, "socket.connection.setup.timeout", SETUP),
        idle_seconds=settings.seconds("connections.max.idle.ms", IDLE_SECONDS),
        frame_limit=settings.count("receive.message.max.bytes", DEFAULT_LIMIT),
        most_entities=settings.count("receive.max.entities", MAX_ENTITIES),
        canonical_names=settings.lowered("client.dns.lookup", "").startswith("resolve_canonical"),
        address_family=settings.lowered("broker.address.family", "any"),
        rebootstrap=settings.lowered("metadata.recovery.strategy", "rebootstrap") == "rebootstrap",
        rebootstrap_seconds=settings.seconds("metadata.recovery.rebootstrap.trigger.ms", 300.0),
        proxy=settings.secret("proxy.url"),
        secrets=secrets_of(settings),
        warnings=(*settings.warnings, *_setting_warnings(settings, protocol)),
    )


def _login(settings: ClientSettings, token: TokenSource | None) -> Sasl:
    """Return the login; its module loads JAAS and OAuth, which a listener without SASL does not need."""
    from reconciler.client.auth import sasl_settings

    return sasl_settings.from_settings(settings, token)


def _tls(settings: ClientSettings) -> "Tls":
    from reconciler.client.tls import context

    return context.from_settings(settings)


def _timeouts(settings: ClientSettings) -> tuple[float, float]:
    """Return request and call timeout; Java refuses the second below the first if both are set (KIP-533)."""
    request_key, call_key = "request.timeout.ms", "default.api.timeout.ms"
    request, call = settings.seconds(request_key, 30.0), settings.seconds(call_key, 60.0)
    for key, value in ((request_key, request), (call_key, call)):
        if value <= 0:
            raise settings.error(key, "must be above 0")
    if call < request and call_key in settings:
        if request_key in settings:
            raise settings.error(call_key, f"is below {request_key}")
        request = call
    return request, max(call, request)


def _backoff(settings: ClientSettings, name: str, default: Backoff) -> Backoff:
    """Return a backoff; if only one of its two settings is set, the other one is adjusted to it."""
    first_key, cap_key = f"{name}.ms", f"{name}.max.ms"
    given_first = settings.seconds(first_key, default.first)
    given_cap = settings.seconds(cap_key, default.cap)
    if given_cap < given_first:
        if first_key in settings and cap_key in settings:
            raise settings.error(cap_key, f"is below {first_key}")
        if cap_key in settings:
            given_first = given_cap
        else:
            given_cap = given_first
    return Backoff(first=given_first, cap=given_cap)


def _setting_warnings(settings: ClientSettings, protocol: SecurityProtocol) -> Iterable[str]:
    """Yield warnings about settings that are probably unintended."""
    if not settings.switch("enable.ssl.certificate.verification", default=True):
        yield "enable.ssl.certificate.verification=false: an attacker on the network can read the password"
    families = {"ssl.": protocol.endswith("SSL"), "sasl.": protocol.startswith("SASL")}
    for family in (name for name, is_used in families.items() if not is_used):
        unused = sorted(key for key in settings.entries if key.startswith(family))
        if unused:
            yield f"{unused[0]} has no effect with security.protocol={protocol}"
    suites = [name for name in settings.items("ssl.cipher.suites") if name.startswith("TLS_")]
    modern = [name for name in suites if "_WITH_" not in name]
    if modern and protocol.endswith("SSL"):
        yield f"ssl.cipher.suites: {modern[0]} is ignored: the suites of TLS 1.3 are OpenSSL's own choice"
    mechanism = settings.lowered("sasl.mechanism", "").upper()
    secret = SENT.get(mechanism)
    if secret is None:
        return
    if protocol is SecurityProtocol.SASL_PLAINTEXT:
        yield f"{secret} is sent unencrypted: SASL {mechanism} needs security.protocol=SASL_SSL"
    name_check = settings.lowered("ssl.endpoint.identification.algorithm", "https")
    if protocol is SecurityProtocol.SASL_SSL and name_check != "https":
        yield (
            "an empty ssl.endpoint.identification.algorithm disables host name verification:"
            f" any server with a trusted certificate receives {secret}"
        )
