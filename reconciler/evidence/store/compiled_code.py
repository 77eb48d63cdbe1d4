"""Where Numba keeps compiled code. It runs what it finds there, so no other user may write there."""

import os
import stat
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Final

FOLDER: Final = "kquota/compiled"


def keep_compiled_code(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let Numba keep the compiled code of this process and its children in a folder of this user, or in memory.

    It reads the environment when it is imported.

    Args:
        environment: Has the places of caches (``XDG_CACHE_HOME`` or ``HOME``), and is changed.
    """
    home = environment.get("HOME", "")
    cache = environment.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    folder = Path(cache) / FOLDER
    usable = False
    if folder.is_absolute():
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            usable = is_private(folder) and os.access(folder, os.W_OK | os.X_OK)
    environment["NUMBA_CACHE_DIR"] = str(folder) if usable else ""
    # None of its other places: they may be open to other users.
    environment["NUMBA_CACHE_LOCATOR_CLASSES"] = "UserProvidedCacheLocator"


def is_private(folder: Path) -> bool:
    """Return whether only this user and root can put files into a folder, or another folder in its place.

    Raises:
        OSError: A part of its path cannot be read.
    """
    user = os.geteuid()
    folder = folder.resolve(strict=True)
    own = folder.lstat()
    if own.st_uid != user or own.st_mode & 0o077:
        return False
    return all(
        status.st_uid in {0, user} and (not status.st_mode & 0o022 or status.st_mode & stat.S_ISVTX)
        for status in (parent.lstat() for parent in folder.parents)
    )
