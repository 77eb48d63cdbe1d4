"""An inventory in a git ref, one per cluster: for pipelines whose machines keep only the repository.

The ref's history is the history of the records. There is no lock; instead every write gives the version that was
read, so that of two writers one fails before it sends anything to Kafka (intents are written first).
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from reconciler.errors import InventoryError
from reconciler.inventory.format import decode, encode, no_records, safe_name
from reconciler.ports import RefStore
from reconciler.quota.ownership import IntentStarted, OwnershipRecords, RecordChange

_GIT_THREAD: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="git-refs")
"""Git may wait a minute for its remote, and the event loop must not. One thread, because concurrent fetches into a
shallow clone fail: each locks its list of boundary commits."""

_Result = TypeVar("_Result")


class RefInventory:
    """Records in a ``RefStore``. Implements ``ports.Inventory``.

    Args:
        prefix: The configured ref, below which each cluster has one.
        command: The command that writes, for the log of the ref; "" = read-only.
    """

    def __init__(self, refs: RefStore, *, prefix: str, command: str = "") -> None:
        self._refs = refs
        self._prefix = prefix
        self._command = command
        self._read: dict[str, tuple[str | None, OwnershipRecords | None]] = {}

    async def load(self, cluster_id: str) -> OwnershipRecords:
        """Return all records of this cluster from the ref; ``is_known=False`` without one.

        Raises:
            InventoryError: The ref's file is damaged, newer, or of another cluster.
        """
        return await _in_git_thread(lambda: self._fetch(cluster_id)) or no_records(cluster_id)

    async def write(self, cluster_id: str, changes: Sequence[RecordChange]) -> None:
        """Commit the changed records on top of the version that was read.

        Raises:
            InventoryLocked: Another process committed meanwhile; nothing was written.
            InventoryError: This cluster was not loaded for writing.
        """
        if not self._command or cluster_id not in self._read:
            raise InventoryError(f"the records of {cluster_id!r} were not loaded for writing")
        if not changes:
            return
        version, before = self._read[cluster_id]
        after = (before or no_records(cluster_id)).with_changes(changes)
        message = _message(self._command, changes)

        def commit() -> None:
            content = encode({cluster_id: after})
            new = self._refs.write(
                self._ref(cluster_id), content, expected=version, message=message
            )
            self._read[cluster_id] = new, after

        await _in_git_thread(commit)

    def _ref(self, cluster_id: str) -> str:
        return f"{self._prefix}/{safe_name(cluster_id)}"

    def _fetch(self, cluster_id: str) -> OwnershipRecords | None:
        ref = self._ref(cluster_id)
        stored = self._refs.read(ref)
        if stored is None:
            self._read[cluster_id] = None, None
            return None
        version, content = stored
        clusters = decode(content, location=ref)
        if set(clusters) != {cluster_id}:
            raise InventoryError(
                f"{ref} contains records of {', '.join(map(repr, clusters)) or 'no cluster'}, not of {cluster_id!r}",
                hint="records cannot be moved to another cluster; delete the ref to start over",
            )
        self._read[cluster_id] = version, clusters[cluster_id]
        return clusters[cluster_id]


async def _in_git_thread(work: Callable[[], _Result]) -> _Result:
    """Return the result of work with git. Cancellation does not stop work that has begun, so it records what it did."""
    return await asyncio.get_running_loop().run_in_executor(_GIT_THREAD, work)


def _message(command: str, changes: Sequence[RecordChange]) -> str:
    phase = "intents" if any(isinstance(change, IntentStarted) for change in changes) else "results"
    return f"{command}: {phase} for {len(changes)} record change{'' if len(changes) == 1 else 's'}"
