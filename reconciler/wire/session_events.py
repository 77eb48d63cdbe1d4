"""States and events of a session, for its driver."""

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from reconciler.errors import ClientError
from reconciler.wire.apis import KafkaApi
from reconciler.wire.messages.api_versions import OfferedVersions
from reconciler.wire.sasl import DeferredStep


class SessionState(Enum):
    """The states of a session; ``session`` has the transitions."""

    CONNECTING = "connecting"
    API_VERSIONS = "api-versions"
    HANDSHAKE = "handshake"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    REAUTHENTICATING = "re-authenticating"
    CLOSED = "closed"


class Negotiated(Struct, frozen=True):
    """The broker's versions were received. With SASL, ``authenticate`` is next."""

    offered: OfferedVersions


class WorkNeeded(Struct, frozen=True):
    """A token takes long to compute: run ``work`` elsewhere and pass the result to ``resume``."""

    work: DeferredStep


class SessionAuthenticated(Struct, frozen=True):
    """The client is authenticated; requests may be sent. ``lifetime_ms`` 0 means unlimited."""

    lifetime_ms: int


class ReplyReceived(Struct, frozen=True):
    """The response to a request that was not abandoned."""

    correlation_id: int
    api: KafkaApi
    version: int
    body: bytes
    # How long the broker will not read; the session has already recorded it.
    throttle_time_ms: int = 0

    def __repr__(self) -> str:
        return f"Reply({self.api.name} v{self.version}, {len(self.body)} bytes)"


class SessionClosed(Struct, frozen=True):
    """The end of a session: its error, and the requests without a response (abandoned ones excluded)."""

    error: ClientError
    unanswered: tuple[int, ...]


Event: TypeAlias = Negotiated | WorkNeeded | SessionAuthenticated | ReplyReceived | SessionClosed
