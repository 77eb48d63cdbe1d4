"""The audit log: one JSON line per changed pair, only ever appended to, on disk before ``append`` returns.

A line says who, when, which commit, which cluster, which entity and key, the value before and after, and what
the broker said. The pipeline reads it (``ENTRY_FIELDS``); it is never read by an apply.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

from reconciler.errors import InventoryError
from reconciler.inventory.durable import append
from reconciler.render.compact import compact

ENTRY_VERSION: Final = 1
"""Version of the line format, in every line as ``v``."""

_ENCODE: Final = compact()


class FileAuditLog:
    """An audit log in one file. Implements ``ports.AuditLog``.

    Args:
        path: Made when the first entry is written; private to its owner.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Write entries in order, in one write and one sync.

        A line that a crash cut off earlier is closed first, so that it spoils no other line.

        Raises:
            InventoryError: The file cannot be written.
        """
        if not entries:
            return
        lines = [_ENCODE({"v": ENTRY_VERSION, **entry}) for entry in entries]
        text = "\n".join(lines) + "\n"
        append(self._path, (("\n" if self._is_cut_off() else "") + text).encode("ascii"))

    def _is_cut_off(self) -> bool:
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) == 0:
                    return False
                _ = file.seek(-1, 2)
                return file.read(1) != b"\n"
        except FileNotFoundError:
            return False
        except OSError as error:
            raise InventoryError(f"{self._path} cannot be read: {error.strerror}") from error


class StreamAuditLog:
    """An audit log on a stream, for programs whose output somebody collects. Implements ``ports.AuditLog``.

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
                _ = self._stream.write(_ENCODE({"v": ENTRY_VERSION, **entry}) + "\n")
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise InventoryError(f"the audit log cannot be written: {error}") from error


class MemoryAuditLog:
    """An audit log that is gone with the process; for tests and ``--no-inventory``."""

    def __init__(self) -> None:
        self.entries: list[Mapping[str, object]] = []

    def append(self, entries: Sequence[Mapping[str, object]]) -> None:
        """Keep the entries."""
        self.entries.extend(entries)


def read_entries(path: Path) -> Iterator[Mapping[str, object]]:
    """All whole entries of a log, oldest first; a line that a crash cut off is passed over.

    Raises:
        InventoryError: The file cannot be read, or a line is no audit entry of a version that we know.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InventoryError(f"{path} cannot be read: {error.strerror}") from error
    lines = text.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("v") != ENTRY_VERSION:
            raise InventoryError(
                f"{path}:{number}: no audit entry of version {ENTRY_VERSION}",
                hint="it was written by a newer kquota, or is no audit log",
            )
        yield entry
