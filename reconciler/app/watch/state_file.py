"""The state of ``kquota watch`` across restarts: the applied revision, the refused one, and recent removals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from reconciler.base.durable_files import DISK, DurableFiles
from reconciler.codecs.loop_memory import WatchStateContent, read_watch_state, watch_state_text
from reconciler.errors import ConfigError, InventoryError
from reconciler.quota.planner.removal_guard import RemovalCount

MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of the file; a larger one is damaged."""


class WatchState:
    """The state file, read once and replaced as a whole. Only one process may use it; the caller locks it.

    Args:
        path: The file; created by the first change.

    Raises:
        InventoryError: It exists and cannot be read; an empty state is never used instead.
    """

    def __init__(self, path: Path, *, files: DurableFiles = DISK) -> None:
        self._path, self._files = path, files
        self._now = _read(path, files)

    @property
    def now(self) -> WatchStateContent:
        """The present state."""
        return self._now

    def remember(self, **changed: Any) -> None:  # noqa: ANN401 - fields of WatchStateContent, checked by it
        """Change some fields, durably before this returns; an unchanged state is not written.

        Raises:
            InventoryError: The file cannot be written; then the state is unchanged.
        """
        after = replace(self._now, **changed)
        if after != self._now:
            self._files.replace(self._path, watch_state_text(after).encode("ascii"))
            self._now = after

    def removals(self, cluster: str) -> "ClusterRemovals":
        """Return the store of one cluster's removals."""
        return ClusterRemovals(state=self, cluster=cluster)


class ClusterRemovals(Struct, frozen=True, kw_only=True):
    """Removals of one cluster. Implements ``RowStore``."""

    state: WatchState
    cluster: str

    async def load(self) -> Sequence[RemovalCount]:
        """Return all counts of the cluster."""
        return self.state.now.removals.get(self.cluster, ())

    async def save(self, rows: Sequence[RemovalCount]) -> None:
        """Replace the counts durably."""
        self.state.remember(removals={**self.state.now.removals, self.cluster: tuple(rows)})


def _read(path: Path, files: DurableFiles) -> WatchStateContent:
    try:
        content = files.read(path, max_bytes=MAX_BYTES)
        return read_watch_state(content.decode(), location=str(path))
    except FileNotFoundError:
        return WatchStateContent()
    except OSError as error:
        raise InventoryError(f"{path} cannot be read: {error.strerror}") from error
    except (ConfigError, UnicodeDecodeError) as error:
        reason = error.message if isinstance(error, ConfigError) else error
        raise InventoryError(
            f"{path} is damaged or not of this version: {reason}",
            hint="delete it to start over: the branch is read again, and earlier removals no longer count",
        ) from error
