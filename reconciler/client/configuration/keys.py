"""The table of configuration keys: Java's names, librdkafka's aliases, and the values that each allows.

Sources: ``CommonClientConfigs``, ``AdminClientConfig``, ``SaslConfigs``, ``SslConfigs``, ``ProducerConfig`` and
``ConsumerConfig`` of Kafka 4.3, and librdkafka 2.11's CONFIGURATION.md. If the two give one key two
meanings, a comment has the one that applies here.
"""

from enum import Enum
from typing import Final

from msgspec import Struct


class ValueKind(Enum):
    """How the text of a value is read."""

    TEXT = "text"
    LIST = "list"  # comma separated
    HIDDEN = "a secret; never printed"
    MILLIS = "milliseconds"  # a whole number >= 0, stored as seconds
    COUNT = "count"  # a whole number > 0
    SWITCH = "true or false"
    IGNORED = "ignored"  # a setting of Kafka clients without an effect here


class KeyRule(Struct, frozen=True):
    """One key."""

    name: str
    kind: ValueKind = ValueKind.TEXT  # how its text is read
    choices: tuple[str, ...] = ()  # the only values allowed, in lower case; empty = any
    aliases: tuple[str, ...] = ()  # other names of the same setting


def _rules(kind: ValueKind, names: str) -> tuple[KeyRule, ...]:
    return tuple(KeyRule(name=name, kind=kind) for name in names.split())


_KNOWN: Final = (
    KeyRule(name="bootstrap.servers", kind=ValueKind.LIST, aliases=("metadata.broker.list",)),
    KeyRule(name="security.protocol", choices=("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
    KeyRule(
        name="client.dns.lookup",
        choices=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    KeyRule(name="broker.address.family", choices=("any", "v4", "v6")),
    KeyRule(name="metadata.recovery.strategy", choices=("none", "rebootstrap")),
    KeyRule(name="receive.message.max.bytes", kind=ValueKind.COUNT),
    # time
    KeyRule(name="request.timeout.ms", kind=ValueKind.MILLIS, aliases=("socket.timeout.ms",)),
    *_rules(
        ValueKind.MILLIS,
        """
default.api.timeout.ms retry.backoff.ms retry.backoff.max.ms reconnect.backoff.ms
reconnect.backoff.max.ms socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms
connections.max.idle.ms metadata.recovery.rebootstrap.trigger.ms sasl.login.connect.timeout.ms
sasl.login.read.timeout.ms sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms
""",
    ),
    # TLS. ssl.keystore.location is Java's: its type comes from ssl.keystore.type or from the file itself,
    # which covers librdkafka's meaning (always PKCS#12) as well.
    KeyRule(name="ssl.truststore.certificates", aliases=("ssl.ca.pem",)),
    KeyRule(name="ssl.keystore.certificate.chain", aliases=("ssl.certificate.pem",)),
    KeyRule(name="ssl.keystore.key", kind=ValueKind.HIDDEN, aliases=("ssl.key.pem",)),
    KeyRule(name="ssl.endpoint.identification.algorithm", choices=("", "https", "none")),
    KeyRule(name="ssl.protocol", choices=("tls", "tlsv1.2", "tlsv1.3")),
    KeyRule(name="ssl.enabled.protocols", kind=ValueKind.LIST),
    KeyRule(name="ssl.cipher.suites", kind=ValueKind.LIST),
    KeyRule(name="enable.ssl.certificate.verification", kind=ValueKind.SWITCH),
    # SASL
    KeyRule(name="sasl.mechanism", aliases=("sasl.mechanisms",)),
    KeyRule(name="sasl.oauthbearer.method", choices=("default", "oidc")),
    KeyRule(name="sasl.oauthbearer.grant.type", choices=("client_credentials",)),
    KeyRule(
        name="sasl.oauthbearer.client.id",
        aliases=("sasl.oauthbearer.client.credentials.client.id",),
    ),
    KeyRule(
        name="sasl.oauthbearer.client.secret",
        kind=ValueKind.HIDDEN,
        aliases=("sasl.oauthbearer.client.credentials.client.secret",),
    ),
    KeyRule(name="sasl.oauthbearer.header.urlencode", kind=ValueKind.SWITCH),
    # specific to this client
    KeyRule(name="receive.max.entities", kind=ValueKind.COUNT),
    # Settings of Kafka's admin client and of librdkafka that change nothing here.
    *_rules(
        ValueKind.IGNORED,
        """
        retries metadata.max.age.ms metadata.max.idle.ms metric.reporters metrics.num.samples
        metrics.recording.level metrics.sample.window.ms auto.include.jmx.reporter enable.metrics.push
        send.buffer.bytes receive.buffer.bytes security.providers config.providers ssl.provider
        ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation ssl.providers
        ssl.curves.list ssl.sigalgs.list sasl.kerberos.service.name sasl.kerberos.principal
        sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
        sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
        sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms api.version.request
        api.version.request.timeout.ms broker.version.fallback client.rack debug log_level
        log.connection.close socket.keepalive.enable socket.nagle.disable socket.receive.buffer.bytes
        socket.send.buffer.bytes socket.max.fails statistics.interval.ms
        topic.metadata.refresh.interval.ms message.max.bytes
        """,
    ),
    # without an alias
    *_rules(
        ValueKind.TEXT,
        """
client.id ssl.truststore.location ssl.truststore.type ssl.ca.location ssl.keystore.location
ssl.keystore.type ssl.certificate.location ssl.key.location sasl.username
sasl.login.callback.handler.class
sasl.client.callback.handler.class sasl.login.class sasl.oauthbearer.jwt.retriever.class
sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.scope sasl.oauthbearer.extensions
https.ca.location https.ca.pem
""",
    ),
    *_rules(
        ValueKind.HIDDEN,
        """
ssl.truststore.password ssl.keystore.password ssl.key.password sasl.jaas.config sasl.password
proxy.url
""",
    ),
)

KEYS: Final[dict[str, KeyRule]] = {
    name: rule for rule in _KNOWN for name in (rule.name, *rule.aliases)
}
"""Maps every name, aliases included, to its rule."""

IGNORED_PREFIXES: Final = ("config.providers.", "metrics.context.", "listener.name.")

REFUSED: Final[dict[str, str]] = {
    "bootstrap.controllers": (
        "controllers do not answer DescribeClientQuotas; give bootstrap.servers, brokers forward changes"
        " to the controller themselves"
    ),
    "ssl.crl.location": "revocation lists are not read, so a revoked certificate would be accepted",
    "ssl.engine.factory.class": (
        "Java classes cannot be loaded here, and without this one other certificates would be trusted"
    ),
}
"""Keys that cannot work, or that request a protection that is not available here, with the reason."""

IGNORED_ALOUD: Final[dict[str, str]] = {
    "security.providers": "Java providers are not loaded",
    "ssl.provider": "Java providers are not loaded",
    "ssl.providers": "OpenSSL providers are not loaded",
    "ssl.curves.list": "the curves are OpenSSL's own choice",
    "ssl.sigalgs.list": "the signature algorithms are OpenSSL's own choice",
}
"""Ignored keys that select how a connection is protected: a warning reports that they have no effect."""


def _clients(client: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), client)


FOREIGN: Final[dict[str, str]] = _clients(
    "producer",
    """
    acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delivery.timeout.ms enable.idempotence interceptor.classes key.serializer
    linger.ms max.block.ms max.in.flight.requests.per.connection max.request.size
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys transaction.timeout.ms transaction.two.phase.commit.enable
    transactional.id value.serializer
    """,
) | _clients(
    "consumer",
    """
    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs enable.auto.commit
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms isolation.level
    key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    partition.assignment.strategy session.timeout.ms share.acknowledgement.mode value.deserializer
    """,
)
"""Keys of other clients, with the client that has them."""
