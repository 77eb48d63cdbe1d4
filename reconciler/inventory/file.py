"""An inventory in one file: a lock per cluster during a write, atomic replacement, never half a record.

Readers need no lock, because the file is always replaced as a whole. From its first ``load`` of a cluster until
``close`` a writer holds that cluster's lock, so that what it read stays valid until it has written. Replacing the
file is guarded by a second, short lock, because writers of other clusters share the file.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from reconciler.base import bounded_json
from reconciler.base.durable_files import DISK, DurableFiles, FileStamp
from reconciler.base.protocols import Clock
from reconciler.errors import InventoryError, InventoryLocked
from reconciler.inventory.file_lock import FileLock, LockFactory, WriterLock
from reconciler.inventory.format import decode, encode_cluster, join_clusters, no_records, safe_name
from reconciler.quota.ownership import OwnershipRecords, RecordChange

PATIENCE_SECONDS: Final = 10.0
"""Maximum wait for the short lock; it is held for one read and one write of the file."""

RETRY_SECONDS: Final = 0.01
"""Seconds between two tries to take the short lock."""


class RecordsFile:
    """A file of records. The inventories of all clusters of a run share one, so that a write costs what it changes.

    Args:
        path: The file; created by the first write.
    """

    def __init__(self, path: Path, *, files: DurableFiles = DISK) -> None:
        self.path: Final = path
        self._files = files
        self._stamp: FileStamp | None = None
        self._clusters: dict[str, OwnershipRecords] = {}
        self._texts: dict[str, bytes] = {}

    def read(self) -> Mapping[str, OwnershipRecords]:
        """Return the records by cluster id; the file is read if it was replaced since.

        Raises:
            InventoryError: The file cannot be read, or is damaged, foreign or newer.
        """
        try:
            stamp = self._files.stamp(self.path)
            if stamp is not None and stamp == self._stamp:
                return self._clusters
            content = (
                b""
                if stamp is None
                else self._files.read(self.path, max_bytes=bounded_json.OWN_FILE)
            )
        except OSError as error:
            raise InventoryError(
                f"{self.path} cannot be read: {error.strerror}",
                hint="check its owner and mode; it is private to the user who created it",
            ) from error
        self._clusters = {} if stamp is None else decode(content, location=str(self.path))
        self._texts = {}
        self._stamp = stamp
        return self._clusters

    def cluster_of(self, project: str) -> str | None:
        """Return the id of the cluster in which documents of a project were applied; ``None`` = in none.

        Raises:
            InventoryError: There are several, or as :meth:`read`.
        """
        cluster_ids = [
            cluster_id
            for cluster_id, owned in self.read().items()
            if owned.is_known and owned.project == project
        ]
        if len(cluster_ids) > 1:
            raise InventoryError(
                f"{self.path} has records of {' and '.join(cluster_ids)} for {project}",
                hint="set expectedClusterId to the id of the cluster that is meant",
            )
        return next(iter(cluster_ids), None)

    def replace(self, cluster_id: str, records: OwnershipRecords) -> None:
        """Write the records of one cluster durably and atomically. No other process may write meanwhile.

        Raises:
            InventoryError: The file cannot be written; what was read stays.
        """
        clusters = {**self._clusters, cluster_id: records}
        texts = {
            name: self._texts[name]
            if name != cluster_id and name in self._texts
            else encode_cluster(name, cluster)
            for name, cluster in clusters.items()
        }
        self._files.remove_leftovers(self.path)
        self._files.replace(self.path, join_clusters(texts))
        self._clusters, self._texts = clusters, texts
        self._stamp = self._files.stamp(self.path)


class FileInventory:
    """Records of one or more clusters in one file. Implements ``ports.Inventory``.

    Args:
        file: The file; its lock files lie beside it, with names that begin with a dot.
        command: The command that writes, for the error of a second process; "" = read-only, without any lock.
    """

    def __init__(
        self,
        file: RecordsFile,
        *,
        clock: Clock,
        command: str = "",
        lock: LockFactory = FileLock,
    ) -> None:
        self._file = file
        self._clock = clock
        self._command = command
        self._lock = lock
        self._locks: dict[str, WriterLock] = {}

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return all records of this cluster; ``is_known=False`` if there never were any.

        Raises:
            InventoryLocked: Another writer has locked this cluster's records.
            InventoryError: The file is damaged, foreign or newer; an empty result is never returned instead.
        """
        if self._command and cluster_id not in self._locks:
            lock = self._lock(
                self._beside(f"{safe_name(cluster_id)}.lock"),
                command=self._command,
                now=self._clock.now(),
            )
            lock.acquire()
            self._locks[cluster_id] = lock
        return self._file.read().get(cluster_id) or no_records(cluster_id)

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Apply changes durably and atomically.

        Raises:
            InventoryError: The cluster was not loaded for writing, or the file cannot be written.
        """
        if cluster_id not in self._locks:
            raise InventoryError(
                f"{self._file.path} was not opened to write records of {cluster_id!r}"
            )
        if not changes:
            return
        async with self._short_lock():
            # Without an await inside: writers of one process share the contents that were read.
            before = self._file.read().get(cluster_id) or no_records(cluster_id)
            self._file.replace(cluster_id, before.with_changes(changes))

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

    @contextlib.asynccontextmanager
    async def _short_lock(self) -> AsyncIterator[None]:
        lock = self._lock(
            self._beside("lock"), command="a write of the file", now=self._clock.now()
        )
        deadline = self._clock.monotonic() + PATIENCE_SECONDS
        while not lock.is_held:
            try:
                lock.acquire()
            except InventoryLocked:
                if self._clock.monotonic() > deadline:
                    raise
                await self._clock.sleep(RETRY_SECONDS)
        try:
            yield
        finally:
            lock.release()
