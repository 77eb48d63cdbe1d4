"""Reads regular files: bounded by the bytes read, never a device, pipe or socket, never outside a folder.

The author of a commit writes the files of a checkout: one can be a link to ``/dev/zero``, whose size by ``fstat``
means nothing. So this module trusts no size that is small, waits for no writer, and follows no link out of the caller's folder.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_DESCRIPTORS: Final = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Descriptors that a shell passes, as in ``--command-config <(vault read ...)``: typed, and never in a checkout."""

_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_regular(path: Path | str, *, max_bytes: int, boundary: Path | str | None = None) -> bytes:
    """Return the bytes of a regular file, or of a descriptor that a shell passes.

    Args:
        boundary: Resolved folder that a link at ``path`` may not leave; ``None`` = links may lead anywhere.

    Raises:
        OSError: It cannot be opened, is not a regular file (EINVAL), is larger (EFBIG), or is a link out of the
            folder (ELOOP); ``strerror`` is a readable sentence.
        ValueError: The path contains a NUL character.
    """
    descriptor = str(path).startswith(_DESCRIPTORS)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if descriptor else _open(str(path), boundary)
    try:
        status = os.fstat(handle)
        if not descriptor:
            check_regular(path, status.st_mode)
        if status.st_size > max_bytes:
            raise _too_large(path, max_bytes)
        parts: list[bytes] = []
        size = 0
        while part := os.read(handle, min(max_bytes + 1 - size, 1 << 20)):
            parts.append(part)
            size += len(part)
            if size > max_bytes:
                raise _too_large(path, max_bytes)
        return b"".join(parts)
    finally:
        os.close(handle)


def _too_large(path: Path | str, max_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {max_bytes} bytes", str(path))


def check_regular(path: Path | str, mode: int) -> None:
    """Check that the mode of a path, as ``stat`` returns it, is that of a regular file.

    Raises:
        OSError: It is something else (EINVAL); ``strerror`` is a readable sentence.
    """
    if not stat.S_ISREG(mode):
        kind_name = next((name for test, name in _KINDS if test(mode)), "something else")
        raise OSError(errno.EINVAL, f"it is {kind_name}, not a regular file", str(path))


def check_inside(path: Path | str, folder: Path | str) -> None:
    """Check that a path leads into a folder after following all links.

    Raises:
        OSError: It leads elsewhere (ELOOP).
    """
    target = os.path.realpath(path)
    if not is_inside(target, folder):
        raise OSError(errno.ELOOP, f"it leads to {target}, which is outside {folder}", str(path))


def is_inside(path: Path | str, folder: Path | str) -> bool:
    """Whether a path is a folder or below it, by the names alone."""
    return Path(path).is_relative_to(folder)


def boundary_of(path: Path | str, root: Path | str) -> Path:
    """Return the resolved folder that links at and below a path may not leave.

    It is the repository of the path, by its names; else ``root`` if the path is below it; else the path itself (or
    its folder), because the user typed it.
    """
    absolute = Path(os.path.normpath(Path(path).absolute()))
    for folder in (absolute, *absolute.parents):
        if (folder / ".git").is_file() or os.path.lexists(folder / ".git" / "HEAD"):
            return folder.resolve()
    start = Path(os.path.normpath(Path(root).absolute()))
    if absolute.is_relative_to(start):
        return start.resolve()
    target = absolute.resolve()
    return target if target.is_dir() else target.parent


def _open(path: str, boundary: Path | str | None) -> int:
    if boundary is None:
        return os.open(path, _FLAGS)
    try:
        return os.open(path, _FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.EMLINK}:  # EMLINK: FreeBSD
            raise
    check_inside(path, boundary)
    return os.open(os.path.realpath(path), _FLAGS | os.O_NOFOLLOW)
