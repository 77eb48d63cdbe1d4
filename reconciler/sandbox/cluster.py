"""The state of the sandbox's cluster: one image that alterations change, and the image that each broker shows.

The only mutable state of the sandbox besides faults and connections: the controller's image, the one before it, what
each broker shows, which brokers run. All changes happen on the event loop's thread.
"""

import asyncio
import base64
import secrets
from collections.abc import Iterable

from msgspec import Struct, field

from reconciler.sandbox.broker_rules.image import Image, QuotaRecord
from reconciler.sandbox.settings import SandboxSettings


class SandboxBroker(Struct):
    """One broker: its listeners' ports, the image (and its version) that it shows, whether it is held or running."""

    node: int
    visible_image: Image
    version: int = 0
    ports: dict[str, int] = field(default_factory=dict[str, int])
    is_held: bool = False
    running: bool = False


def random_cluster_id() -> str:
    """Return 22 characters as ``Uuid.randomUuid`` prints them; never beginning with a dash, like Kafka's."""
    while True:
        cluster_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id


class SandboxCluster:
    """The shared state of a sandbox's brokers."""

    def __init__(self, settings: SandboxSettings) -> None:
        self.settings = settings
        self.cluster_id = settings.cluster_id or random_cluster_id()
        self.image = self.before = Image()
        self.version = 0
        self.brokers = {
            node: SandboxBroker(node=node, visible_image=self.image) for node in settings.nodes
        }

    def commit(self, records: Iterable[QuotaRecord]) -> None:
        """Apply records as one batch; brokers show it after their lag."""
        record_list = tuple(records)
        if not record_list:
            return
        changed = self.image.applied(record_list)
        self.before, self.image = self.image, changed
        self.version += 1
        for broker in self.brokers.values():
            lag = self.settings.lag.get(broker.node, 0.0)
            if lag > 0:
                asyncio.get_running_loop().call_later(
                    lag, self._show, broker, changed, self.version
                )
            else:
                self._show(broker, changed, self.version)

    def hold(self, node: int) -> None:
        """Keep a broker on its present image, as if it lagged."""
        self.brokers[node].is_held = True

    def release(self, node: int) -> None:
        """Let a broker catch up at once."""
        broker = self.brokers[node]
        broker.is_held = False
        self._show(broker, self.image, self.version)

    def live(self) -> list[SandboxBroker]:
        """Return running brokers by id."""
        return [self.brokers[node] for node in sorted(self.brokers) if self.brokers[node].running]

    def _show(self, broker: SandboxBroker, image: Image, version: int) -> None:
        if not broker.is_held and version > broker.version:
            broker.visible_image, broker.version = image, version
