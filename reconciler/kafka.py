"""The library: a client for Kafka's client quotas, with everything that its calls take and give. One import.

from reconciler.kafka import ClientConfig, QuotaClient

Needs msgspec and the standard library. It loads the client, the protocol and the meaning of quotas; no planner, no files of
manifests, no command line. ``docs/client-library.md`` is its manual; the names below are what stays compatible.
"""

from reconciler.base.protocols import Clock, Progress
from reconciler.base.secret import Secret
from reconciler.client.auth.sasl import BearerToken, TokenSource
from reconciler.client.client_config import Address, ClientConfig, SecurityProtocol
from reconciler.client.cluster_info import ScramCredential
from reconciler.client.configuration.references import ANYTHING, NOTHING, AllowedReferences
from reconciler.client.events import ClientEvents
from reconciler.client.quota_client import QuotaClient
from reconciler.client.sync_client import SyncQuotaClient
from reconciler.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ClientError,
    ConfigError,
    ConnectError,
    DecodeError,
    DnsError,
    FrameTooLarge,
    KquotaError,
    ProtocolError,
    QuotaValueError,
    RequestTimeout,
    TlsError,
    UnsupportedVersion,
    WrongCluster,
)
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, EntityParts, Slot, entity
from reconciler.quota.keys import COLUMNS, Key
from reconciler.quota.precedence import (
    EffectiveLimit,
    OverriddenLimit,
    Principal,
    Resolution,
    UnrankedLimit,
    resolve,
)
from reconciler.quota.state import (
    ALL,
    ANY,
    Alteration,
    AnyName,
    Applied,
    Cluster,
    ClusterDescription,
    Component,
    Filter,
    Held,
    Limits,
    Node,
    OpenAlteration,
    QuotaState,
    Rejected,
    Result,
    Unknown,
    Visibility,
    exactly,
)

__all__ = [
    "ABSENT",
    "ALL",
    "ANY",
    "ANYTHING",
    "COLUMNS",
    "DEFAULT",
    "NOTHING",
    "Address",
    "AllowedReferences",
    "Alteration",
    "AnyName",
    "Applied",
    "AuthenticationError",
    "AuthorizationError",
    "BearerToken",
    "BrokerError",
    "ClientConfig",
    "ClientError",
    "ClientEvents",
    "Clock",
    "Cluster",
    "ClusterDescription",
    "Component",
    "ConfigError",
    "ConnectError",
    "DecodeError",
    "DnsError",
    "EffectiveLimit",
    "Entity",
    "EntityParts",
    "Filter",
    "FrameTooLarge",
    "Held",
    "Key",
    "KquotaError",
    "Limits",
    "Node",
    "OpenAlteration",
    "OverriddenLimit",
    "Principal",
    "Progress",
    "ProtocolError",
    "QuotaClient",
    "QuotaState",
    "QuotaValueError",
    "Rejected",
    "RequestTimeout",
    "Resolution",
    "Result",
    "ScramCredential",
    "Secret",
    "SecurityProtocol",
    "Slot",
    "SyncQuotaClient",
    "TlsError",
    "TokenSource",
    "Unknown",
    "UnrankedLimit",
    "UnsupportedVersion",
    "Visibility",
    "WrongCluster",
    "entity",
    "exactly",
    "resolve",
]
