"""Files that survive a crash: written beside, synced, renamed into place, directory synced; private to their owner."""

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from reconciler.base.regular_files import read_regular
from reconciler.errors import InventoryError

PRIVATE: Final = 0o600
"""Records name users and clients; other accounts do not need to read them."""

FileStamp: TypeAlias = tuple[int, int, int]
"""Inode, time of change in nanoseconds and size: equal for a file that was not replaced."""


class DurableFiles(Protocol):
    """A file system, as far as ownership records and audit logs use it."""

    def read(self, path: Path, *, max_bytes: int) -> bytes:
        """The bytes of a regular file.

        Raises:
            OSError: It is missing, cannot be read, or is larger.
        """
        ...

    def stamp(self, path: Path) -> FileStamp | None:
        """What changes whenever the file is replaced; ``None`` if there is no file."""
        ...

    def last_byte(self, path: Path) -> bytes:
        """The last byte of a file; empty if the file is empty or missing.

        Raises:
            OSError: It cannot be read.
        """
        ...

    def replace(self, path: Path, content: bytes) -> None:
        """See :func:`replace`."""
        ...

    def append(self, path: Path, content: bytes) -> None:
        """See :func:`append`."""
        ...

    def remove_leftovers(self, path: Path) -> None:
        """See :func:`remove_leftovers`."""
        ...


class DiskFiles:
    """The file system of this machine. Implements :class:`DurableFiles`."""

    __slots__ = ()

    def read(self, path: Path, *, max_bytes: int) -> bytes:
        """The bytes of a regular file."""
        return read_regular(path, max_bytes=max_bytes)

    def stamp(self, path: Path) -> FileStamp | None:
        """What changes whenever the file is replaced; ``None`` if there is no file."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def last_byte(self, path: Path) -> bytes:
        """The last byte of a file; empty if the file is empty or missing."""
        try:
            with path.open("rb") as file:
                if file.seek(0, os.SEEK_END) == 0:
                    return b""
                _ = file.seek(-1, os.SEEK_END)
                return file.read(1)
        except FileNotFoundError:
            return b""

    def replace(self, path: Path, content: bytes) -> None:
        """See :func:`replace`."""
        replace(path, content)

    def append(self, path: Path, content: bytes) -> None:
        """See :func:`append`."""
        append(path, content)

    def remove_leftovers(self, path: Path) -> None:
        """See :func:`remove_leftovers`."""
        remove_leftovers(path)


def replace(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path`` so that any crash leaves the old file or the new one, whole.

    A link is followed, so that the file it points to is replaced and the link stays.

    Raises:
        InventoryError: The directory is missing or not writable, or the disk is full.
    """
    target = path.resolve()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), PRIVATE)
            _ = file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _ = temporary.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise _cannot_write(path, error) from error


def remove_leftovers(path: Path) -> None:
    """Remove what a killed :func:`replace` of this file left beside it. Call it only while no other process replaces it."""
    target = path.resolve()
    names = re.compile(rf"\.{re.escape(target.name)}\.[A-Za-z0-9_]+\.new")
    with contextlib.suppress(OSError):
        for leftover in target.parent.iterdir():
            if names.fullmatch(leftover.name):
                leftover.unlink(missing_ok=True)


def append(path: Path, content: bytes) -> None:
    """Add ``content`` at the end of a file and sync it; a new file is private.

    Raises:
        InventoryError: The file cannot be written.
    """
    try:
        fresh = not path.exists()
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        with os.fdopen(handle, "wb", buffering=0) as file:
            written_bytes = 0
            while written_bytes < len(content):
                written_bytes += file.write(content[written_bytes:]) or 0
            os.fsync(file.fileno())
        if fresh:
            sync_directory(path.resolve().parent)
    except OSError as error:
        raise _cannot_write(path, error) from error


def sync_directory(directory: Path) -> None:
    """Make names in a directory durable; a rename is not, until its directory is synced."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot_write(path: Path, error: OSError) -> InventoryError:
    return InventoryError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="check that its directory exists, is writable, and has room",
    )


DISK: Final[DurableFiles] = DiskFiles()
