"""Protocols of the adapters that the reconcile workflow uses; no behaviour.

``reconcile`` depends only on these; the composition roots (``cli``, ``kube``) pass implementations.
"""

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Protocol

from reconciler.base.protocols import Progress
from reconciler.quota.entity import Entity
from reconciler.quota.ownership import OwnershipRecords, Pair, RecordChange
from reconciler.quota.results.audit_entry import AuditEntry
from reconciler.quota.state import (
    Alteration,
    Cluster,
    ClusterDescription,
    Filter,
    QuotaState,
    Result,
    Visibility,
)

Validator = Callable[[str, Sequence[Alteration]], Mapping[Entity, Result]]
"""``validator(behaves_as, alterations)``: one result per entity by Kafka's rules of that release line, without a broker."""


class QuotaStore(Protocol):
    """The quotas of a Kafka cluster. Implemented by ``client.QuotaClient``."""

    async def cluster(self) -> Cluster:
        """Return the cluster id, live brokers and the principal's rights, read again from the cluster."""

    async def observe(self, *, scram_users: bool = False) -> ClusterDescription:
        """Return the cluster and all its quotas, requested together; with the names of SCRAM users on request."""

    async def describe(self, filter_: Filter, *, node: int | None = None) -> QuotaState:
        """Return one consistent snapshot of the quotas of any broker (or of ``node``); never partial."""

    async def alter(
        self,
        alterations: Sequence[Alteration],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
        results: MutableMapping[Entity, Result] | None = None,
    ) -> Mapping[Entity, Result]:
        """Send alterations in chunks, one after the other; return exactly one result per entity.

        ``results`` is filled during the call, so that it is complete also if the caller is cancelled:
        an entity that is not in it was not sent.

        Each entity occurs at most once in ``alterations``. Never raises for the outcome of an entity
        after the first byte of a chunk may have been sent: its result is then ``Unknown``.
        """

    async def wait_visible(
        self,
        expected: Sequence[Alteration],
        *,
        timeout: float,  # noqa: ASYNC109 - it reports who lagged instead of raising
    ) -> Visibility:
        """Poll every live broker with exact filters until each shows all of ``expected``, or until the deadline."""


class ForwardingStore:
    """A store that asks another one. Implements :class:`QuotaStore`."""

    def __init__(self, store: QuotaStore) -> None:
        self._store = store

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
        """Send alterations."""
        return await self._store.alter(
            alterations, validate_only=validate_only, progress=progress, results=results
        )

    async def wait_visible(
        self,
        expected: Sequence[Alteration],
        *,
        timeout: float,  # noqa: ASYNC109 - as the port has it
    ) -> Visibility:
        """Poll every live broker."""
        return await self._store.wait_visible(expected, timeout=timeout)


class Inventory(Protocol):
    """The store of the ownership records, for one cluster at a time."""

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return all records and overrides of this cluster; ``is_known=False`` if there never were any.

        For a writer this also takes the cluster's lock, which it keeps until it is closed.

        Raises:
            InventoryError: The records exist but cannot be read; the result is never empty instead.
            InventoryLocked: Another writer is writing to this cluster.
        """

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Apply changes to the records atomically and durably before returning."""


class RefStore(Protocol):
    """One file per git ref, with compare-and-swap. Implemented by ``git.refs.GitRefs``."""

    def read(self, ref: str) -> tuple[str, bytes] | None:
        """Return an opaque version and the content, ``None`` if the ref does not exist."""

    def write(self, ref: str, content: bytes, *, expected: str | None, message: str) -> str:
        """Write the content and return the new version.

        Raises:
            InventoryLocked: The current version is not the expected one; nothing was written.
        """


class AuditLog(Protocol):
    """Append-only record of every apply."""

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries durably, in order."""

    def open_intents(
        self, cluster_id: str, pairs: Collection[Pair]
    ) -> Mapping[Pair, AuditEntry] | None:
        """Return the entries ``INTENDED`` of pairs without an outcome; ``None`` = the log cannot be read back."""
