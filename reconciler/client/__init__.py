"""The Kafka client: connections to real clusters, translation of quotas, deadlines and retries."""

from reconciler.base.secret import Secret
from reconciler.client.auth.sasl import BearerToken, TokenSource
from reconciler.client.client_config import Address, ClientConfig, SecurityProtocol
from reconciler.client.cluster_info import ScramCredential
from reconciler.client.configuration.references import (
    ANYTHING,
    NOTHING,
    AllowedReferences,
    anything_in,
)
from reconciler.client.events import ClientEvents
from reconciler.client.quota_client import QuotaClient

__all__ = [
    "ANYTHING",
    "NOTHING",
    "Address",
    "AllowedReferences",
    "BearerToken",
    "ClientConfig",
    "ClientEvents",
    "QuotaClient",
    "ScramCredential",
    "Secret",
    "SecurityProtocol",
    "TokenSource",
    "anything_in",
]
