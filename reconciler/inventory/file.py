"""An inventory in one file: a lock per cluster during a write, atomic replacement, never half a record.

Readers need no lock, because the file is always replaced as a whole. From its first ``load`` of a cluster until
``close`` a writer holds that cluster's lock, so that what it read stays valid until it has written. Replacing the
file is guarded by a second, short lock, because writers of other clusters share the file.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from reconciler.base.protocols import Clock
from reconciler.errors import InventoryError, InventoryLocked
from reconciler.inventory.file_lock import FileLock, LockFactory, WriterLock
from reconciler.inventory.format import ClusterRecords, safe_name
from reconciler.inventory.records_file import RecordsFile
from reconciler.inventory.writers import InventoryWriter, check_alone, with_writer
from reconciler.quota.ownership import OwnershipRecords, RecordChange

PATIENCE_SECONDS: Final = 10.0
"""Maximum wait for the short lock; it is held for one read and one write of the file."""


class FileInventory:
    """Records of one or more clusters in one file. Implements ``ports.Inventory``.

    Args:
        file: The file; its lock files lie beside it, with names that begin with a dot.
        writer: The writer; ``None`` = read-only, without any lock.
    """

    def __init__(
        self,
        file: RecordsFile,
        *,
        clock: Clock,
        writer: InventoryWriter | None = None,
        lock: LockFactory = FileLock,
    ) -> None:
        self._file = file
        self._clock = clock
        self._writer = writer
        self._lock = lock
        self._locks: dict[str, WriterLock] = {}

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return all records of this cluster; ``is_known=False`` if there never were any.

        Raises:
            InventoryLocked: Another writer has locked this cluster's records.
            InventoryError: The file is damaged, foreign or newer; an empty result is never returned instead.
            PlanRefused: Another known writer manages the same entities.
        """
        if self._writer is not None and cluster_id not in self._locks:
            lock = self._lock(
                self._beside(f"{safe_name(cluster_id)}.lock"),
                command=self._writer.description,
                now=self._clock.now(),
            )
            lock.acquire()
            self._locks[cluster_id] = lock
        records = self._file.read().get(cluster_id)
        if records is None:
            return OwnershipRecords(cluster_id=cluster_id, is_known=False)
        if self._writer is not None:
            check_alone(self._writer, records.writers, now=self._clock.now())
        return records.owned

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Apply changes durably and atomically.

        Raises:
            InventoryError: The cluster was not loaded for writing, or the file cannot be written.
        """
        if self._writer is None or cluster_id not in self._locks:
            raise InventoryError(
                f"{self._file.path} was not opened to write records of {cluster_id!r}"
            )
        if not changes and not self._writer.forgets:
            return
        with self._short_lock():
            before = self._file.read().get(cluster_id) or ClusterRecords(
                owned=OwnershipRecords(cluster_id=cluster_id)
            )
            after = ClusterRecords(
                owned=before.owned.with_changes(changes),
                writers=with_writer(self._writer, before.writers, now=self._clock.now()),
            )
            self._file.replace(cluster_id, after)

    def close(self) -> None:
        """Release all locks."""
        while self._locks:
            _, lock = self._locks.popitem()
            lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _beside(self, name: str) -> Path:
        """Return a path beside the file itself: writers that reach it by different links have one lock."""
        file = Path(os.path.realpath(self._file.path))
        return file.parent / f".{file.name}.{name}"

    @contextlib.contextmanager
    def _short_lock(self) -> Iterator[None]:
        lock = self._lock(
            self._beside("lock"), command="a write of the file", now=self._clock.now()
        )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not lock.is_held:
            try:
                lock.acquire()
            except InventoryLocked:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        try:
            yield
        finally:
            lock.release()
