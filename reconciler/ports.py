"""The shapes that the use case needs from outside. Protocols only; no behaviour.

``reconcile`` sees only these; the composition roots (``cli``, later ``kube``) pick real things and hand them in.
"""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Protocol

from reconciler.base.protocols import Progress
from reconciler.quota.cluster import Cluster, ClusterDescription, Visibility
from reconciler.quota.entity import Entity
from reconciler.quota.filters import Filter
from reconciler.quota.outcome import Alteration, Result
from reconciler.quota.ownership import OwnershipRecords, RecordChange
from reconciler.quota.state import QuotaState

Validator = Callable[[str, Sequence[Alteration]], Mapping[Entity, Result]]
"""``validator(behaves_as, alterations)``: what Kafka's rules of that line say, without a broker; one per entity."""


class QuotaStore(Protocol):
    """A Kafka cluster, as far as quotas go. Implemented by ``client.QuotaClient``."""

    async def cluster(self) -> Cluster:
        """Cluster id, live brokers and our rights, asked anew."""
        ...

    async def observe(self, *, scram_users: bool = False) -> ClusterDescription:
        """The cluster and all its quotas, asked together; with the names of SCRAM users where they are asked for."""
        ...

    async def describe(self, filter_: Filter, *, node: int | None = None) -> QuotaState:
        """One consistent snapshot of what a broker (or the given one) has; never partial."""
        ...

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        """Send alterations in chunks, one after the other; exactly one result per entity.

        ``results`` is filled while the work goes on, so that a caller who is cancelled knows as much as the
        store does: what is not in it was not sent.

        An entity stands at most once in ``alterations``. Never raises for what happened to an entity
        once the first byte of a chunk may have left: that is ``UNKNOWN`` in the results.
        """
        ...

    async def wait_visible(
        self,
        expected: Sequence[Alteration],
        *,
        timeout: float,  # noqa: ASYNC109 - it reports who lagged instead of raising
    ) -> Visibility:
        """Poll every live broker with exact filters until each shows all of ``expected``, or the deadline."""
        ...


class Inventory(Protocol):
    """Where the records of what we own are kept, for one cluster at a time."""

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """All records and overrides of this cluster; ``known=False`` if there never were any.

        For a writer this also takes the cluster's lock, which it holds until it is closed.

        Raises:
            InventoryError: The records exist but cannot be read; never an empty answer instead.
            InventoryLocked: Another writer is writing to this cluster.
        """
        ...

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Apply changes to the records atomically and durably before returning."""
        ...


class RefStore(Protocol):
    """One file per ref, with compare-and-swap. Implemented by ``git.refs.GitRefs``."""

    def read(self, ref: str) -> tuple[str, bytes] | None:
        """An opaque version and the content, ``None`` if there is none."""
        ...

    def write(self, ref: str, content: bytes, *, expected: str | None, message: str) -> str:
        """The new version.

        Raises:
            InventoryLocked: The version is no longer the expected one; nothing was written.
        """
        ...


class AuditLog(Protocol):
    """Append-only record of every apply."""

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Write entries durably, in order."""
        ...

    def open_intents(self, cluster_id: str) -> Mapping[str, Mapping[str, object]] | None:
        """The entries ``INTENDED`` of a cluster without an outcome, by pair; ``None`` = the log cannot be read back."""
        ...
