"""The audit log: JSON lines, append-only, durable before ``append`` returns.

A line has author, time, commit, cluster, entity and key, the value before and after, and the broker's response. Each
change has a line ``INTENDED`` before it is sent and a line with its outcome, which has the time of the former as
``intendedAt``. An outcome closes every open intent of its pair; ``UNKNOWN`` closes it only if the value was observed,
since otherwise a later observation decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from reconciler.base import bounded_json
from reconciler.base.compact_json import compact
from reconciler.base.durable_files import DISK, DurableFiles
from reconciler.base.output_text import json_text
from reconciler.codecs.audit_log import apply_entry, open_among, pair_name
from reconciler.errors import InventoryError

ENTRY_VERSION: Final = 1
"""Version of the line format, in every line as ``v``."""

MAX_BYTES: Final = 1 << 62
"""No practical limit: a log only grows."""

_ENCODE: Final = compact()


class FileAuditLog:
    """An audit log in one file. Implements ``ports.AuditLog``.

    Args:
        path: Created with the first entry; private to its owner.
    """

    def __init__(self, path: Path, *, files: DurableFiles = DISK) -> None:
        self._path = path
        self._files = files

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Write entries in order, in one write and one sync.

        A line that a crash truncated is ended first, so that it does not damage the next one.

        Raises:
            InventoryError: The file cannot be written.
        """
        if not entries:
            return
        text = "\n".join(map(_line, entries)) + "\n"
        self._files.append(
            self._path, (("\n" if self._is_cut_off() else "") + text).encode("ascii")
        )

    def open_intents(self, cluster_id: str) -> Mapping[str, Mapping[str, object]]:
        """Return the intents without an outcome, by pair. Lines of an unknown version are skipped.

        Raises:
            InventoryError: The file cannot be read.
        """
        if self._files.stamp(self._path) is None:
            return {}
        entries = (entry for _, entry in _lines(self._path, self._files) if entry is not None)
        return open_among(entries, cluster_id=cluster_id)

    def _is_cut_off(self) -> bool:
        try:
            return self._files.last_byte(self._path) not in {b"", b"\n"}
        except OSError as error:
            raise InventoryError(f"{self._path} cannot be read: {error.strerror}") from error


class StreamAuditLog:
    """An audit log on a stream, for programs whose output is collected. Implements ``ports.AuditLog``.

    Args:
        stream: Usually standard output; flushed after each ``append``.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Write entries in order.

        Raises:
            InventoryError: The stream is closed.
        """
        try:
            for entry in entries:
                _ = self._stream.write(json_text(_line(entry)) + "\n")
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise InventoryError(f"the audit log cannot be written: {error}") from error

    def open_intents(self, cluster_id: str) -> None:
        """Return None: a stream cannot be read back."""


def read_entries(path: Path) -> Iterator[Mapping[str, object]]:
    """Yield all complete entries of a log, oldest first; a truncated line is skipped.

    An outcome without a previous value gets that of its intent; ``null`` if the log does not contain it.

    Raises:
        InventoryError: The file cannot be read, or a line is not an audit entry of a known version.
    """
    intents: dict[str, dict[str, Mapping[str, object]]] = {}
    for number, entry in _lines(path, DISK):
        if entry is None:
            raise InventoryError(
                f"{path}:{number}: not an audit entry of version {ENTRY_VERSION}",
                hint="it was written by a newer kquota, or is not an audit log",
            )
        of_cluster = intents.setdefault(str(entry.get("clusterId")), {})
        intent = of_cluster.get(pair_name(entry.get("entity"), entry.get("key")), {})
        apply_entry(of_cluster, entry)
        if "settledAt" in entry and "before" not in entry:
            yield {**entry, "before": intent.get("before")}
        else:
            yield entry


def _line(entry: Mapping[str, object]) -> str:
    return f'{{"v":{ENTRY_VERSION},{_ENCODE(entry)[1:]}'


def _lines(path: Path, files: DurableFiles) -> Iterator[tuple[int, Mapping[str, object] | None]]:
    """Yield number and content of each complete line; ``None`` = not an entry of a known version.

    Raises:
        InventoryError: The file cannot be read.
    """
    try:
        text = files.read(path, max_bytes=MAX_BYTES)
    except OSError as error:
        raise InventoryError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not line:
            continue
        try:
            entry = bounded_json.parse(line, most_bytes=bounded_json.ANSWER)
        except ValueError:
            continue
        is_entry = isinstance(entry, dict) and entry.get("v") == ENTRY_VERSION
        yield number, entry if is_entry else None
