"""Files of ownership records and audit logs: replaced or extended durably, private to their owner."""

import os
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from reconciler.base.atomic_files import PRIVATE, remove_drafts, replace_file, sync_folder
from reconciler.base.regular_files import read_regular
from reconciler.errors import InventoryError

FileStamp: TypeAlias = tuple[int, int, int]
"""Inode, modification time in nanoseconds and size: equal for a file that was not replaced."""


class DurableFiles(Protocol):
    """The file system operations of ownership records and audit logs."""

    def read(self, path: Path, *, max_bytes: int) -> bytes:
        """Return the bytes of a regular file. Raises OSError if it is missing, cannot be read, or is larger."""

    def stamp(self, path: Path) -> FileStamp | None:
        """Return a stamp that changes whenever the file is replaced; ``None`` if there is no file."""

    def last_byte(self, path: Path) -> bytes:
        """Return the last byte of a file; empty if the file is empty or missing.

        Raises OSError if it cannot be read.
        """

    def replace(self, path: Path, content: bytes) -> None:
        """Put ``content`` at ``path``, as :func:`replace_file` does. A link is followed, and stays.

        Raises InventoryError if the folder is missing or not writable, or the disk is full.
        """

    def append(self, path: Path, content: bytes) -> None:
        """Append ``content`` to a file and sync it. Raises InventoryError if the file cannot be written."""

    def remove_leftovers(self, path: Path) -> None:
        """Remove temporary files of a killed :meth:`replace`. Call it only while no other process replaces the file."""


class DurableDisk:
    """The file system of this machine. Implements :class:`DurableFiles`."""

    __slots__ = ()

    def read(self, path: Path, *, max_bytes: int) -> bytes:
        """Return the bytes of a regular file."""
        return read_regular(path, max_bytes=max_bytes)

    def stamp(self, path: Path) -> FileStamp | None:
        """Return a stamp that changes whenever the file is replaced; ``None`` if there is no file."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def last_byte(self, path: Path) -> bytes:
        """Return the last byte of a file; empty if the file is empty or missing."""
        try:
            with path.open("rb") as file:
                if file.seek(0, os.SEEK_END) == 0:
                    return b""
                _ = file.seek(-1, os.SEEK_END)
                return file.read(1)
        except FileNotFoundError:
            return b""

    def replace(self, path: Path, content: bytes) -> None:
        """Put ``content`` at ``path``; any crash leaves the old file or the new one."""
        try:
            replace_file(path.resolve(), content)
        except OSError as error:
            raise _cannot_write(path, error) from error

    def append(self, path: Path, content: bytes) -> None:
        """Append ``content`` to a file and sync it; a new file is private."""
        try:
            is_new = not path.exists()
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            with os.fdopen(handle, "wb", buffering=0) as file:
                written_bytes = 0
                while written_bytes < len(content):
                    written_bytes += file.write(content[written_bytes:]) or 0
                os.fsync(file.fileno())
            if is_new:
                sync_folder(path.resolve().parent)
        except OSError as error:
            raise _cannot_write(path, error) from error

    def remove_leftovers(self, path: Path) -> None:
        """Remove temporary files of a killed :meth:`replace`."""
        remove_drafts(path.resolve())


def _cannot_write(path: Path, error: OSError) -> InventoryError:
    return InventoryError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="check that its directory exists, is writable, and has room",
    )


DISK: Final[DurableFiles] = DurableDisk()
