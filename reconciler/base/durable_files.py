"""Files that are replaced or extended durably: any crash leaves the old content or the new one, complete."""

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final, TypeAlias

from reconciler.base.regular_files import check_regular, read_regular
from reconciler.errors import InventoryError

PRIVATE: Final = 0o600
"""Records, plans and outcomes contain names of users and clients; other accounts do not need to read them."""

BLOCK_BYTES: Final = 64 * 1024
"""Size of the blocks in which a file is read from its end."""


def replace_file(path: Path, content: bytes | Iterable[bytes], *, mode: int = PRIVATE) -> None:
    """Write a temporary file beside ``path``, sync it, rename it to ``path``, and sync the folder.

    The temporary file is removed.

    Args:
        path: The file. A link there is replaced, not followed: pass a resolved path to follow it.
        content: Its bytes, whole or in pieces.

    Raises:
        OSError: The folder is missing or not writable, the disk is full, or the path is or leads to something other
            than a regular file, such as ``/dev/null``, which root could replace.
    """
    with contextlib.suppress(FileNotFoundError):
        check_regular(path, path.stat().st_mode)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.writelines((content,) if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        _ = draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.parent)


IGNORE: Final = """\
# Records, audit log and outcomes of kquota. They decide what may be removed, so they are never part of a commit.
*
"""
"""The ``.gitignore`` of a private folder."""


def open_own(path: Path, flags: int) -> int:
    """Open a regular file of this user for writing; a new one is private. Other users may write the folder.

    Raises:
        OSError: It cannot be opened, or is a link (ELOOP), something else than a file (EINVAL), or a file of another
            user or with a second name (EPERM); ``strerror`` is a readable sentence.
    """
    flags |= os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(path, flags, PRIVATE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(error.errno, "it is a link, which is not followed", str(path)) from None
        raise
    try:
        _check_own(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_own(path: Path, status: os.stat_result) -> None:
    check_regular(path, status.st_mode)
    # A network disk can give all files one owner: that of the folder.
    if status.st_uid not in {os.geteuid(), path.parent.stat().st_uid} or status.st_nlink > 1:
        raise OSError(errno.EPERM, "it is a file of another user, or has a second name", str(path))


def _target(path: Path) -> Path:
    """Return where a link leads, if this user or root made it; a path that is no link stays.

    Raises:
        OSError: Another user made it (EPERM).
    """
    if path.is_symlink() and path.lstat().st_uid not in {0, os.geteuid()}:
        raise OSError(errno.EPERM, "it is a link of another user", str(path))
    return path.resolve()


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, which only their owner may enter and git ignores.

    Raises:
        OSError: One cannot be created.
    """
    missing = [parent for parent in (folder, *folder.parents) if not parent.is_dir()]
    if missing and not _is_private(missing[-1].parent):
        _make_ignored_folder(missing[-1])
    for missing_folder in reversed(missing):
        missing_folder.mkdir(mode=0o700, exist_ok=True)


def _make_ignored_folder(folder: Path) -> None:
    """Create a folder with its ignore file at once: after a crash or on a full disk there is no folder without the file."""
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".new", dir=folder.parent))
    try:
        replace_file(draft / ".gitignore", IGNORE.encode())
        _ = draft.rename(folder)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not folder.is_dir():  # Another process may have made it.
            raise


def _is_private(folder: Path) -> bool:
    """Whether git already ignores everything in a folder."""
    with contextlib.suppress(OSError):
        return read_regular(folder / ".gitignore", max_bytes=BLOCK_BYTES) == IGNORE.encode()
    return False


def unwritable_place(path: Path) -> Path | None:
    """Return what keeps this process from creating or replacing a file with its folders: the file, or its folder.

    ``None`` = it may. Nothing is written. A link is followed, also one to a file that does not exist yet.
    """
    # Path.exists is an error in the private folder of another user, and lexists is False.
    real = Path(os.path.realpath(path))
    folder = next(parent for parent in real.parents if os.path.lexists(parent))
    may_write = (
        (not os.path.lexists(real) or (real.is_file() and os.access(real, os.W_OK)))
        and folder.is_dir()
        and os.access(folder, os.W_OK | os.X_OK)
    )
    return None if may_write else path if os.path.lexists(path) else path.parent


def remove_drafts(path: Path) -> None:
    """Remove temporary files of a killed :func:`replace_file`. Call it only while no other process replaces the file."""
    names = re.compile(rf"\.{re.escape(path.name)}\.[A-Za-z0-9_]+\.new")
    with contextlib.suppress(OSError):
        for draft in path.parent.iterdir():
            if names.fullmatch(draft.name):
                draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable; a rename is durable only after its folder is synced."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


FileStamp: TypeAlias = tuple[int, int, int]
"""Inode, modification time in nanoseconds and size: equal for a file that was not replaced."""


class DurableFiles:
    """The file system operations of ownership records and audit logs."""

    __slots__ = ()

    def read(self, path: Path, *, max_bytes: int) -> bytes:
        """Return the bytes of a regular file.

        Raises:
            OSError: It is missing, cannot be read, or is larger.
        """
        return read_regular(path, max_bytes=max_bytes)

    def stamp(self, path: Path) -> FileStamp | None:
        """Return a stamp that changes whenever the file is replaced; ``None`` if there is no file."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def blocks_from_end(self, path: Path) -> Generator[bytes]:
        """Yield the bytes of a regular file in blocks, the last block first.

        Raises:
            OSError: It is missing or cannot be read.
        """
        with path.open("rb") as file:
            check_regular(path, os.fstat(file.fileno()).st_mode)
            end = file.seek(0, os.SEEK_END)
            while end > 0:
                start = max(0, end - BLOCK_BYTES)
                _ = file.seek(start)
                yield file.read(end - start)
                end = start

    def replace(self, path: Path, content: bytes) -> None:
        """Put ``content`` at ``path``, as :func:`replace_file` does. A link is followed, and stays.

        Raises:
            InventoryError: The folder is missing or not writable, or the disk is full.
        """
        try:
            replace_file(_target(path), content)
        except OSError as error:
            raise _cannot_write(path, error) from error

    def append(self, path: Path, content: bytes) -> None:
        """Append ``content`` to a file of this user and sync it; a new file is private. A link is not followed.

        Raises:
            InventoryError: The file cannot be written.
        """
        try:
            is_new = not path.exists()
            handle = open_own(path, os.O_WRONLY | os.O_APPEND)
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
        """Remove temporary files of a killed :meth:`replace`. Call it only while no other process replaces the file."""
        remove_drafts(path.resolve())


def _cannot_write(path: Path, error: OSError) -> InventoryError:
    return InventoryError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="check that its directory exists, is writable, and has room, and that no other user can write there",
    )


DISK: Final = DurableFiles()
