"""The differences between the Kafka lines that the sandbox can behave as: one frozen value per line.

A line is the behaviour of its newest release on KRaft: 3.4 is 3.4.1, 3.9 is 3.9.1, 4.3 is 4.3.1, 4.x is 4.4.0. Every
field was observed on those brokers; the contract suite sends the same requests to both. 4.0, 4.1 and 4.2 are aliases
of 4.3: the contract suite finds no difference between 4.0.1 and 4.3.1.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.quota.entity import ENTITY_TYPES
from reconciler.quota.keys import INT_MAX, LONG_MAX, Key
from reconciler.wire.apis import BY_KEY


class FeatureLevel(Struct, frozen=True, kw_only=True):
    """A feature level of KIP-584: what the broker supports and the cluster's level."""

    name: str
    lowest: int  # lowest level that the broker supports; 0 is shown from ApiVersions v4 on only
    highest: int  # highest level that the broker supports
    finalized: int  # level of the cluster; 0 means that it is not finalized


# These are the broker's own rules, so they are not derived from the table of the planner: a wrong row there is noticed.
IP_CONFIGS: Final[frozenset[str]] = frozenset({Key.CONNECTION_CREATION_RATE})
"""Configuration keys of ip entities (``QuotaConfig.ipConfigs``); all others are of users and client-ids."""

_LONG: Final = ("a LONG", float(LONG_MAX))
_INT: Final = ("an INT", float(INT_MAX))
INTEGRAL_CONFIGS: Final[Mapping[str, tuple[str, float]]] = {
    Key.PRODUCER_BYTE_RATE: _LONG,
    Key.CONSUMER_BYTE_RATE: _LONG,
    Key.CONNECTION_CREATION_RATE: _INT,
}
"""Configuration keys that are not DOUBLE, with the name of their type in messages and its maximum."""

_CLIENT_KEYS: Final[frozenset[str]] = frozenset(Key) - IP_CONFIGS


# Each field is held by the contract suite: docs/adr/sandbox-contract.md.
class BrokerProfile(Struct, frozen=True, kw_only=True):
    """The rules, messages and version ranges of one line."""

    name: str
    # API key -> lowest and highest version offered, both inclusive. DescribeConfigs v0 (offered up to 3.9) is
    # omitted: no current client uses it.
    versions: Mapping[int, tuple[int, int]]
    features: tuple[FeatureLevel, ...]  # features in ApiVersions v3 and later
    # Values are checked in the order of `validateQuotaKeyValue` (KAFKA-14943, 3.5): greater than zero, within the
    # type, whole. Before, LONG and INT keys only had to be near a whole number and DOUBLE keys could be anything.
    checks_numbers: bool
    # NaN and the infinities are refused with their own message. True from 4.4; 3.5 to 4.3 accept NaN for every key
    # and +Infinity for the DOUBLE ones.
    refuses_non_finite: bool
    # SCRAM mechanisms are configuration keys of a user beside the quotas, so that setting one fails with an unknown
    # server error instead of "Invalid configuration key".
    knows_scram_keys: bool
    # More than 10,000 records are a policy violation, also under validate-only (KAFKA-14996, 3.5). Before, only a
    # request that is executed fails, with -1.
    records_in_validation: bool
    # ApiVersions v5 compares the cluster and node of the client's request (4.4).
    checks_cluster: bool
    # Known types of entities (KIP-546 leaves them open).
    entity_types: tuple[str, ...] = ENTITY_TYPES
    client_keys: frozenset[str] = _CLIENT_KEYS  # keys of entities without an ip

    def __post_init__(self) -> None:
        for key, (lowest, highest) in self.versions.items():
            api = BY_KEY[key]
            if not api.lowest <= lowest <= highest <= api.highest:
                raise ValueError(f"{self.name}: {api.name} v{lowest}-{highest} is not on the wire")


METADATA: Final = 3
API_VERSIONS: Final = 18
SCRAM_USERS: Final = 50
DESCRIBE_CLUSTER: Final = 60

_COMMON: Final = {
    METADATA: (0, 12),
    17: (0, 1),
    API_VERSIONS: (0, 3),
    32: (1, 4),
    36: (0, 2),
    48: (0, 1),
    49: (0, 1),
    DESCRIBE_CLUSTER: (0, 0),
}
"""What every line offers; a line lists only what it adds or widens."""


def _versions(*changed: tuple[int, int, int]) -> Mapping[int, tuple[int, int]]:
    widened = {key: (lowest, highest) for key, lowest, highest in changed}
    return MappingProxyType(dict(sorted({**_COMMON, **widened}.items())))


LINE_3_4: Final = BrokerProfile(
    name="3.4",
    versions=_versions(),
    features=(FeatureLevel(name="metadata.version", lowest=1, highest=8, finalized=8),),
    checks_numbers=False,
    refuses_non_finite=False,
    knows_scram_keys=True,
    records_in_validation=False,
    checks_cluster=False,
)

LINE_3_9: Final = BrokerProfile(
    name="3.9",
    versions=_versions((API_VERSIONS, 0, 4), (SCRAM_USERS, 0, 0), (DESCRIBE_CLUSTER, 0, 1)),
    features=(
        FeatureLevel(name="kraft.version", lowest=0, highest=1, finalized=0),
        FeatureLevel(name="metadata.version", lowest=1, highest=21, finalized=21),
    ),
    checks_numbers=True,
    refuses_non_finite=False,
    knows_scram_keys=False,
    records_in_validation=True,
    checks_cluster=False,
)

LINE_4: Final = BrokerProfile(
    name="4.x",
    versions=_versions(
        (METADATA, 0, 13), (API_VERSIONS, 0, 5), (SCRAM_USERS, 0, 0), (DESCRIBE_CLUSTER, 0, 2)
    ),
    features=(
        FeatureLevel(name="eligible.leader.replicas.version", lowest=0, highest=1, finalized=1),
        FeatureLevel(name="group.version", lowest=0, highest=1, finalized=1),
        FeatureLevel(name="kraft.version", lowest=0, highest=1, finalized=0),
        FeatureLevel(name="metadata.version", lowest=7, highest=33, finalized=33),
        FeatureLevel(name="share.version", lowest=0, highest=2, finalized=2),
        FeatureLevel(name="streams.version", lowest=0, highest=1, finalized=1),
        FeatureLevel(name="transaction.version", lowest=0, highest=2, finalized=2),
    ),
    checks_numbers=True,
    refuses_non_finite=True,
    knows_scram_keys=False,
    records_in_validation=True,
    checks_cluster=True,
)

LINE_4_3: Final = replace(
    LINE_4,
    name="4.3",
    versions=_versions(
        (METADATA, 0, 13), (API_VERSIONS, 0, 4), (SCRAM_USERS, 0, 0), (DESCRIBE_CLUSTER, 0, 2)
    ),
    refuses_non_finite=False,
    checks_cluster=False,
)

REDPANDA: Final = replace(
    LINE_3_9,
    name="redpanda",
    entity_types=("user", "client-id", "client-id-prefix"),
    client_keys=_CLIENT_KEYS - {Key.REQUEST_PERCENTAGE},
)
"""Redpanda by its documentation ("About Client Throughput Quotas", 26.2): prefixes of client ids as a type, no ip, three
keys. Not compared with a live cluster: versions and words are those of Kafka 3.9."""

PROFILES: Final[Mapping[str, BrokerProfile]] = MappingProxyType(
    {profile.name: profile for profile in (LINE_3_4, LINE_3_9, LINE_4_3, LINE_4)}
)
"""Every line by name, oldest first."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType({"4.0": "4.3", "4.1": "4.3", "4.2": "4.3"})
"""Aliases of a line."""

NEWEST: Final = LINE_4


def profile_named(name: str) -> BrokerProfile:
    """Return the profile of that name.

    Raises:
        ConfigError: There is none; the hint lists all names.
    """
    try:
        return REDPANDA if name == REDPANDA.name else PROFILES[ALIASES.get(name, name)]
    except KeyError as unknown:
        raise ConfigError(
            f"the sandbox cannot behave as {name!r}",
            key="behave-as",
            hint=f"choose one of {', '.join(PROFILES)}, {REDPANDA.name}",
        ) from unknown
