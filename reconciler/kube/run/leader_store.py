"""A quota store that only the leader may alter through: the last check before a write leaves the process.

After a takeover, writes of the old leader may take effect for 60 s (brokers retry forwarded requests): for 90 s
differences are described again and never counted as drift.

Writes to Kubernetes carry the resource version of the object that they replace, so they need no such check. Only a
leader writes a status again after a conflict (``status.writer``).
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Final

from reconciler.base.protocols import Progress
from reconciler.errors import LeaseLost
from reconciler.ports import QuotaStore
from reconciler.quota.entity import Entity
from reconciler.quota.filters import Filter
from reconciler.quota.outcome import Alteration, Result
from reconciler.quota.state import Cluster, ClusterDescription, QuotaState, Visibility

Leads = Callable[[], bool]
"""Whether this process certainly holds the Lease now."""

DEPOSED: Final = "the Lease may have expired, so nothing was sent to Kafka"


class KafkaWrites:
    """Counts writes to Kafka in flight. Written by one event loop, read from any thread."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1

    def are_under_way(self) -> bool:
        """Whether a write is in flight."""
        return self.count > 0


class LeadingStore:
    """A store that refuses to alter unless this process certainly holds the Lease. Implements ``ports.QuotaStore``."""

    def __init__(self, store: QuotaStore, leads: Leads, writes: KafkaWrites) -> None:
        self._store, self._leads, self._writes = store, leads, writes

    async def cluster(self) -> Cluster:
        """Return cluster id, live brokers and the operator's permissions."""
        return await self._store.cluster()

    async def observe(self, *, scram_users: bool = False) -> ClusterDescription:
        """Return the cluster and all its quotas."""
        return await self._store.observe(scram_users=scram_users)

    async def describe(self, filter_: Filter, *, node: int | None = None) -> QuotaState:
        """Return the quotas of one broker."""
        return await self._store.describe(filter_, node=node)

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        """Send alterations.

        Raises:
            LeaseLost: This process does not certainly hold the Lease; nothing was sent.
        """
        if validate_only:
            return await self._store.alter(
                alterations, validate_only=True, progress=progress, results=results
            )
        # Counted before the check: a reader that sees no write after the Lease expired can rely on the refusal.
        with self._writes:
            if not self._leads():
                raise LeaseLost(DEPOSED)
            return await self._store.alter(alterations, progress=progress, results=results)

    async def wait_visible(
        self,
        expected: Sequence[Alteration],
        *,
        timeout: float,  # noqa: ASYNC109 - as the port has it
    ) -> Visibility:
        """Poll every live broker."""
        return await self._store.wait_visible(expected, timeout=timeout)
