"""One request as the response functions get it. Values only."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from reconciler.sandbox.broker_rules.alterations import BrokerFailure
from reconciler.sandbox.cluster import SandboxBroker, SandboxCluster
from reconciler.sandbox.faults import Effect, Refuse, Stale, Throttle

CLUSTER_DENIED: Final = "Cluster authorization failed."
"""Kafka's generic message of code 31."""


class SandboxRequest(Struct, frozen=True, kw_only=True):
    """A request after its frame and header were read."""

    cluster: SandboxCluster
    broker: SandboxBroker
    listener: str  # name of its listener; advertised addresses are of the same listener
    principal: str
    version: int
    body: bytes  # the request's body, not yet decoded
    effects: Sequence[Effect] = ()

    @property
    def throttle_ms(self) -> int:
        """The throttle time in the response."""
        return max((e.milliseconds for e in self.effects if isinstance(e, Throttle)), default=0)

    @property
    def refusal(self) -> Refuse | None:
        """The fault that refuses the whole request, if any."""
        return next((e for e in self.effects if isinstance(e, Refuse) and e.names is None), None)

    @property
    def failure(self) -> BrokerFailure | None:
        """The failure of the whole request, if a fault sets one."""
        return self.refusal.failure if self.refusal is not None else None

    @property
    def stale(self) -> bool:
        """Whether the response comes from the image before the last alteration."""
        return any(isinstance(effect, Stale) for effect in self.effects)


class NeverAnswered(Exception):
    """The broker drops the request and reads nothing more from this connection."""
