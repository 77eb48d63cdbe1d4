"""One writer at a time: an operating-system lock on a file beside the inventory that contains its holder.

The lock is ``flock``: the kernel releases it when its holder ends in any way, so a ``kill -9`` leaves nothing to
clean up. The file itself stays (removing it would let two writers lock two files of one name); its text describes the
holder, for the error of the next writer.
"""

import contextlib
import fcntl
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol, Self

import msgspec
from msgspec import Struct

from reconciler.base.durable_files import open_own
from reconciler.errors import InventoryError, InventoryLocked
from reconciler.quota.ownership import Moment

_MAX_TEXT: Final = 4096


class LockHolder(Struct, frozen=True, kw_only=True):
    """The holder of a lock, as its file describes it."""

    pid: int
    host: str
    since: Moment  # seconds since the epoch
    command: str

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        return f"{self.command}, process {self.pid} on {self.host}, since {when}"


class WriterLock(Protocol):
    """A lock of one writer, as :class:`FileLock`."""

    @property
    def is_held(self) -> bool:
        """Whether we hold it now."""
        ...

    def acquire(self) -> None:
        """Take the lock without waiting."""
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


class LockFactory(Protocol):
    """Creates locks, as :class:`FileLock` itself."""

    def __call__(self, path: Path, /, *, command: str, now: float) -> WriterLock:
        """Return a lock that is not held yet."""
        ...


class FileLock:
    """An exclusive lock, held from ``acquire`` to ``release``; also a context manager.

    Args:
        path: The lock file; created if missing, never removed.
        now: Seconds since the epoch.
    """

    def __init__(self, path: Path, *, command: str, now: float) -> None:
        self._path = path
        self._holder = LockHolder(
            pid=os.getpid(), host=socket.gethostname(), since=now, command=command
        )
        self._handle: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether we hold it now."""
        return self._handle is not None

    def acquire(self) -> None:
        """Take the lock without waiting.

        Raises:
            InventoryLocked: Another writer has it; the message describes the holder.
            InventoryError: The lock file cannot be created, or its file system has no locks.
        """
        try:
            handle = open_own(self._path, os.O_RDWR)
        except OSError as error:
            raise InventoryError(
                f"the lock {self._path} cannot be made: {error.strerror}",
                hint="check that its directory exists, that both are writable, and that no other user can write there",
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _read_holder(handle)
            text = "another process (unknown)" if holder is None else str(holder)
            os.close(handle)
            is_own = holder is not None and (holder.pid, holder.host) == (
                self._holder.pid,
                self._holder.host,
            )
            raise InventoryLocked(
                f"{self._path} is locked by {text}",
                holder=text,
                hint="this command has locked it: two of its clusters are the same Kafka cluster; keep one of them"
                if is_own
                else "wait until it ends; the lock is released with its process, so no cleanup is needed",
            ) from error
        except OSError as error:
            os.close(handle)
            raise InventoryError(
                f"{self._path} cannot be locked: {error.strerror}",
                hint="keep the inventory on a file system with locks (not every NFS mount has them)",
            ) from error
        self._handle = handle
        content = msgspec.json.encode(self._holder)
        # The text is for the error of another process: a full disk takes no lock away.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
            _ = os.pwrite(handle, content, 0)

    def release(self) -> None:
        """Release the lock if it is held."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _read_holder(handle: int) -> LockHolder | None:
    """Return the holder, if its text can be read."""
    with contextlib.suppress(OSError, ValueError):
        return msgspec.json.decode(os.pread(handle, _MAX_TEXT, 0), type=LockHolder)
    return None
