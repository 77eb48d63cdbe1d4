"""The network client: reaches real clusters through the wire, translates quotas, knows deadlines and retries.

from reconciler.client import ClientConfig, QuotaClient
"""

from reconciler.client.config import Address, ClientConfig, SecurityProtocol
from reconciler.client.events import ClientEvents
from reconciler.client.quotas import QuotaClient, ScramCredential
from reconciler.client.references import ANYTHING, NOTHING, AllowedReferences
from reconciler.client.secret import Secret
from reconciler.client.token import BearerToken, TokenSource

__all__ = [
    "ANYTHING",
    "NOTHING",
    "Address",
    "AllowedReferences",
    "ClientConfig",
    "ClientEvents",
    "SecurityProtocol",
    "QuotaClient",
    "ScramCredential",
    "Secret",
    "BearerToken",
    "TokenSource",
]
