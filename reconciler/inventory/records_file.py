"""The records of all clusters in one file: decoded once, and encoded again only where they changed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reconciler.base.durable_files import DISK, DurableFiles, FileStamp
from reconciler.errors import InventoryError
from reconciler.inventory.format import ClusterRecords, decode, encode_cluster, join_clusters

MAX_BYTES: Final = 512 * 1024 * 1024
"""Maximum size of the file; a million pairs have about 200 MB."""


class RecordsFile:
    """A file of records. The inventories of all clusters of a run share one, so that a write costs what it changes.

    Args:
        path: The file; created by the first write.
    """

    def __init__(self, path: Path, *, files: DurableFiles = DISK) -> None:
        self.path: Final = path
        self._files = files
        self._stamp: FileStamp | None = None
        self._clusters: dict[str, ClusterRecords] = {}
        self._texts: dict[str, str] = {}

    def read(self) -> Mapping[str, ClusterRecords]:
        """Return the records by cluster id; the file is read if it was replaced since.

        Raises:
            InventoryError: The file cannot be read, or is damaged, foreign or newer.
        """
        try:
            stamp = self._files.stamp(self.path)
            if stamp is not None and stamp == self._stamp:
                return self._clusters
            content = b"" if stamp is None else self._files.read(self.path, max_bytes=MAX_BYTES)
        except OSError as error:
            raise InventoryError(
                f"{self.path} cannot be read: {error.strerror}",
                hint="check its owner and mode; it is private to the user who created it",
            ) from error
        self._clusters = {} if stamp is None else decode(content, location=str(self.path))
        self._texts = {}
        self._stamp = stamp
        return self._clusters

    def replace(self, cluster_id: str, records: ClusterRecords) -> None:
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
