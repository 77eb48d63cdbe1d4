"""Replaces files atomically: any crash leaves the old file or the new one, complete and durable."""

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Final

from reconciler.base.regular_files import check_regular

PRIVATE: Final = 0o600
"""Records, plans and outcomes contain names of users and clients; other accounts do not need to read them."""


def replace_file(path: Path, content: bytes, *, mode: int = PRIVATE) -> None:
    """Write a temporary file beside ``path``, sync it, rename it to ``path``, and sync the folder.

    ``path``: the file. A link there is replaced, not followed: pass a resolved path to follow it.

    Raises OSError if the folder is missing or not writable, the disk is full, or the path is or leads to something
    other than a regular file, such as ``/dev/null``, which root could replace. The temporary file is removed.
    """
    with contextlib.suppress(FileNotFoundError):
        check_regular(path, path.stat().st_mode)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            _ = file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _ = draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.parent)


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
