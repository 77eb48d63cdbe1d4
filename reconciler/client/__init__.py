"""The Kafka client: connections to real clusters, translation of quotas, deadlines and retries."""

from reconciler.base.secret import Secret
from reconciler.client.auth.token import BearerToken, TokenSource
from reconciler.client.client_config import Address, ClientConfig, SecurityProtocol
from reconciler.client.configuration.references import ANYTHING, NOTHING, AllowedReferences
from reconciler.client.events import ClientEvents
from reconciler.client.quota_client import QuotaClient
from reconciler.client.scram_requests import ScramCredential

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
]
