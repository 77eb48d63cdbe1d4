"""Files that commands write and read: replaced as a whole, or not at all.

The author of a commit can put a link into a checkout in place of a folder: no file is written through it to a place
outside of the repository.
"""

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from reconciler.base.durable_files import PRIVATE, make_private_folder, replace_file
from reconciler.base.regular_files import boundary_of, check_inside, check_regular, read_regular
from reconciler.errors import UsageError

MAX_BYTES = 256 * 1024 * 1024
"""Maximum bytes of a plan, outcome or snapshot that is read."""


def write_text(
    path: Path, text: str | Iterable[str], *, private: bool = False, may_leave: bool = False
) -> None:
    """Write a file atomically.

    Args:
        text: Its text, whole or in pieces.
        private: Whether only the owner may read it, for names of users and clients. Else the umask decides.
        may_leave: Whether links may lead out of the repository, because the path was checked by ``own_path``.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        if not may_leave:
            check_inside(path.parent, boundary_of(path, "/"))
        content = text.encode() if isinstance(text, str) else map(str.encode, text)
        replace_file(path, content, mode=PRIVATE if private else 0o644 & ~_umask())
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> UsageError:
    """Return the error of a file that could not be written."""
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="check that its directory exists, is writable, and has room",
    )


def write_new(texts: Mapping[Path, str], *, private_folder: Path | None = None) -> None:
    """Write files that do not exist yet, with their folders; no file if one of them exists with other content.

    Args:
        private_folder: A folder of these files that only its owner may enter.

    Raises:
        UsageError: One exists with other content, or cannot be written.
    """
    changed = [path for path, text in texts.items() if path.exists() and read_text(path) != text]
    if changed:
        raise UsageError(
            f"{changed[0]} exists with other content"
            + (f", and {len(changed) - 1} more files" if len(changed) > 1 else ""),
            hint="choose an empty folder, or move the old files away first",
        )
    for path, text in texts.items():
        try:
            if path.parent == private_folder:
                make_private_folder(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent} cannot be made: {error.strerror or error}") from error
        write_text(path, text)


def check_place(path: Path) -> None:
    """Check that a file can be written, before work whose result would otherwise be lost.

    Raises:
        UsageError: There is no such folder, it is not writable, or the path is no regular file.
    """
    folder = path.parent
    try:
        check_inside(folder, boundary_of(path, "/"))
        check_regular(path, path.stat().st_mode)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ELOOP}:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    if not folder.is_dir():
        raise UsageError(f"{path} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: the folder {folder} is not writable")


def read_text(path: Path, *, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a regular file: a plan, an outcome, a snapshot, a file of another tool.

    Raises:
        UsageError: It cannot be read, or exceeds ``max_bytes``.
    """
    try:
        return read_regular(path, max_bytes=max_bytes).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise UsageError(f"{path} is larger than {max_bytes} bytes") from error
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0o077)
    _ = os.umask(mask)
    return mask
