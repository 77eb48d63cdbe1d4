"""The network client: reaches real clusters through the wire, translates quotas, knows deadlines and retries.

from reconciler.client import ClientConfig, QuotaClient
"""

from reconciler.client.config import Address, ClientConfig, Protocol
from reconciler.client.events import Events
from reconciler.client.quotas import QuotaClient, ScramCredential
from reconciler.client.references import ANYTHING, NOTHING, Allowed
from reconciler.client.secret import Secret
from reconciler.client.token import Token, TokenSource

__all__ = [
    "ANYTHING",
    "NOTHING",
    "Address",
    "Allowed",
    "ClientConfig",
    "Events",
    "Protocol",
    "QuotaClient",
    "ScramCredential",
    "Secret",
    "Token",
    "TokenSource",
]
