"""What a session reports to its driver: the states it goes through, and the events that bytes turn into."""

from enum import Enum
from typing import NamedTuple, TypeAlias

from reconciler.errors import ClientError
from reconciler.wire.apis import KafkaApi
from reconciler.wire.sasl import DeferredStep
from reconciler.wire.version_selection import OfferedVersions


class SessionState(Enum):
    """Where a session stands; ``session`` says how it moves."""

    CONNECTING = "connecting"
    API_VERSIONS = "api-versions"
    HANDSHAKE = "handshake"
    AUTHENTICATING = "authenticating"
    READY = "ready"
    REAUTHENTICATING = "re-authenticating"
    CLOSED = "closed"


class Negotiated(NamedTuple):
    """The broker has said what it offers. With SASL, ``authenticate`` comes next."""

    offered: OfferedVersions


class WorkNeeded(NamedTuple):
    """A token takes long to make: run ``work`` elsewhere and give the result to ``resume``."""

    work: DeferredStep


class SessionAuthenticated(NamedTuple):
    """The broker knows us; requests may be sent. ``lifetime_ms`` 0 means for ever."""

    lifetime_ms: int


class ReplyReceived(NamedTuple):
    """The answer to a request that was not abandoned.

    Attributes:
        throttle_time_ms: How long the broker will not read; the session has taken note of it already.
    """

    correlation_id: int
    api: KafkaApi
    version: int
    body: bytes
    throttle_time_ms: int = 0

    def __repr__(self) -> str:
        return f"Reply({self.api.name} v{self.version}, {len(self.body)} bytes)"


class SessionClosed(NamedTuple):
    """The end: why, and which requests will never be answered (abandoned ones left out)."""

    error: ClientError
    unanswered: tuple[int, ...]


Event: TypeAlias = Negotiated | WorkNeeded | SessionAuthenticated | ReplyReceived | SessionClosed
