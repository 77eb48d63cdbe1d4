"""Files that commands write and read: replaced whole, or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path

from reconciler.errors import UsageError

MAX_BYTES = 256 * 1024 * 1024
"""Largest plan, outcome or snapshot that is read."""


def write_text(path: Path, text: str) -> None:
    """Write beside the file, then put it in its place, so that no reader sees half of it.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                _ = file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644 & ~_umask())
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def check_place(path: Path) -> None:
    """Whether a file can be put there: asked before long work, so that its result is not lost at the end.

    Raises:
        UsageError: There is no such folder, it may not be written, or the path is a folder itself.
    """
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a folder")
    if not folder.is_dir():
        raise UsageError(f"{path} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: the folder {folder} is not writable")


def read_text(path: Path, *, most: int = MAX_BYTES) -> str:
    """The text of a document that we wrote.

    Raises:
        UsageError: It cannot be read, or is larger than any that we write.
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise UsageError(f"{path} is larger than {most} bytes")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0o077)
    _ = os.umask(mask)
    return mask
