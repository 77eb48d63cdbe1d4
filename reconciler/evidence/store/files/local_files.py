"""Reads files on disks, and writes them atomically: to a temporary name, synced, then linked or renamed.

The object store's own writer for disks does not sync, and its left-over temporary files are in no listing.
"""

import contextlib
import errno
import os
import secrets
from pathlib import Path
from typing import Final

from reconciler.errors import LakeConflict, LakeDamaged, LakeError

BESIDE: Final = ".new"
"""Suffix of files that are being written; a crashed writer leaves one, and ``expire`` removes it a day later."""


class FolderReader:
    """Reads files of a folder without a client of object stores, which Python workers on other machines lack."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def display_path(self, path: str) -> str:
        """Return the address of a file for display."""
        return str(self._folder / path)

    def get_range(self, path: str, start: int, end: int) -> bytes:
        """Return a byte range of a file, ``end`` exclusive; shorter if the file ends before.

        Raises:
            LakeDamaged: The file does not exist.
            LakeError: The file cannot be read.
        """
        try:
            with (self._folder / path).open("rb", buffering=0) as file:
                return os.pread(file.fileno(), end - start, start)
        except FileNotFoundError as error:
            raise LakeDamaged("is not there", path=self.display_path(path)) from error
        except OSError as error:
            raise LakeError(
                f"cannot be read: {error.strerror or error}", path=self.display_path(path)
            ) from error


def write(path: Path, content: bytes, *, create: bool) -> None:
    """Write a file atomically and durably; create its parent folders.

    Args:
        create: Whether the file must not exist; otherwise it is replaced.

    Raises:
        LakeConflict: The file exists and ``create`` is set.
        LakeError: The file cannot be written.
    """
    temporary_path = path.with_name(f".{path.name}.{secrets.token_hex(6)}{BESIDE}")
    try:
        _write_beside(temporary_path, content)
        try:
            if create:
                os.link(temporary_path, path)  # unlike rename, fails if the name exists
            else:
                _ = temporary_path.replace(path)
        finally:
            with contextlib.suppress(OSError):
                temporary_path.unlink()
        _sync(path.parent)
    except FileExistsError as error:
        if not create or not path.exists():
            raise storage_error(path, error) from error
        raise LakeConflict("it exists already", path=str(path)) from error
    except OSError as error:
        raise storage_error(path, error) from error


def remove(path: Path, root: Path) -> None:
    """Remove a file, if it exists, and folders below ``root`` that become empty.

    Raises:
        LakeError: The file cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(path, error) from error
    with contextlib.suppress(OSError):  # stops at the first folder that is not empty
        for folder in path.parents:
            if folder == root or not folder.is_relative_to(root):
                return
            folder.rmdir()


def _write_beside(temporary_path: Path, content: bytes) -> None:
    """Write the temporary file; retry if its empty folder was removed meanwhile."""
    for last in (False, False, True):
        _make_folders(temporary_path.parent)
        try:
            return _write_synced(temporary_path, content)
        except FileNotFoundError:
            if last:
                raise
    raise AssertionError(temporary_path)


def _write_synced(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            _ = file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _make_folders(folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.is_dir()]
    for missing_folder in reversed(missing):
        missing_folder.mkdir(exist_ok=True)
        _sync(missing_folder.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_HINTS: Final[dict[int, str]] = {
    errno.EACCES: "check who owns the folder, and whether this user may write to it",
    errno.EPERM: "this user may not do that here, or the file system has no hard links",
    errno.EROFS: "the file system is mounted read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota of this user is used up",
    errno.ENOTDIR: "something above it is a file and not a folder",
    errno.ENOTSUP: "this file system has no hard links, without which two writers cannot be separated",
    errno.ENOENT: "the folder was removed meanwhile",
    errno.ENAMETOOLONG: "the name is too long for this file system",
}


def storage_error(path: Path, error: OSError) -> LakeError:
    """Return the error for a failed system call, with a hint."""
    return LakeError(
        f"cannot be written: {error.strerror or error}",
        path=str(path),
        hint=_HINTS.get(error.errno or 0, ""),
    )
