"""What ``kquota watch`` must not forget: the revision in force, the refused one, and removals of the last while."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from reconciler.base import bounded_json
from reconciler.base.durable_files import DISK
from reconciler.errors import InventoryError
from reconciler.quota.planner.removal_budgets import RemovalCount, count_of, row_of

KIND: Final = "kquota-watch"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchStateContent:
    """The content of the file.

    Attributes:
        commit: The revision in force, "" if there never was one.
        refused_commit: The newest revision that was refused and not replaced since, or "".
        removals: Cluster -> removals of the last while.
    """

    commit: str = ""
    refused_commit: str = ""
    removals: Mapping[str, Sequence[RemovalCount]] = field(
        default_factory=dict[str, Sequence[RemovalCount]]
    )


class WatchState:
    """The file, read once and replaced whole. Only one process may use it; the lock is the caller's.

    Args:
        path: The file; made by the first change.

    Raises:
        InventoryError: It exists and cannot be read; never an empty state instead.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._now = _read(path)

    @property
    def now(self) -> WatchStateContent:
        """What is remembered."""
        return self._now

    def remember(self, **changed: Any) -> None:  # noqa: ANN401 - fields of WatchStateContent, checked by it
        """Change some fields, on disk before this returns; what changes nothing writes nothing.

        Raises:
            InventoryError: The file cannot be written; then nothing is remembered.
        """
        after = replace(self._now, **changed)
        if after != self._now:
            DISK.replace(self._path, _encoded(after))
            self._now = after

    def removals(self, cluster: str) -> "ClusterRemovals":
        """The part that counts one cluster's removals."""
        return ClusterRemovals(state=self, cluster=cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRemovals:
    """Removals of one cluster. Implements ``RemovalStore``."""

    state: WatchState
    cluster: str

    async def load(self) -> Sequence[RemovalCount]:
        """All counts of the cluster."""
        return self.state.now.removals.get(self.cluster, ())

    async def save(self, counts: Sequence[RemovalCount]) -> None:
        """Put these in place of the old ones, durably."""
        self.state.remember(removals={**self.state.now.removals, self.cluster: tuple(counts)})


def _encoded(content: WatchStateContent) -> bytes:
    document = {
        "kind": KIND,
        "format": FORMAT,
        "commit": content.commit,
        "refused": content.refused_commit,
        "removals": {name: list(map(row_of, counts)) for name, counts in content.removals.items()},
    }
    return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode("ascii")


def _read(path: Path) -> WatchStateContent:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return WatchStateContent()
    except OSError as error:
        raise InventoryError(f"{path} cannot be read: {error.strerror}") from error
    try:
        return _decoded(bounded_json.parse(content, most_bytes=bounded_json.DOCUMENT))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InventoryError(
            f"{path} is damaged or not of this version",
            hint="without it the branch is read anew and earlier removals no longer count: remove it if that is meant",
        ) from error


def _decoded(document: Any) -> WatchStateContent:  # noqa: ANN401 - JSON, checked here
    if document["kind"] != KIND or document["format"] != FORMAT:
        raise ValueError("another file")
    return WatchStateContent(
        commit=_text(document["commit"]),
        refused_commit=_text(document["refused"]),
        removals={
            name: tuple(map(count_of, counts)) for name, counts in document["removals"].items()
        },
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value
