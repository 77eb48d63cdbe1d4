"""A disk in memory with a page cache: kills between any two steps of a write; a power loss drops unsynced data."""

import errno
import os
import random
from collections.abc import Callable, Generator
from pathlib import Path

from reconciler.base.durable_files import DurableFiles, FileStamp
from reconciler.errors import InventoryError, InventoryLocked
from tests.simulation.processes import ProcessKilled, SimulatedProcess

BLOCK_BYTES = 500
"""Size of the blocks in which a file is read from its end: shorter than most entries of an audit log."""


class MemoryDisk:
    """The disk that all processes of a machine share.

    Attributes:
        cached: Path -> content that processes read.
        durable: Path -> content that survives a power loss.
        full: Whether writes fail.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.cached: dict[Path, bytes | bytearray] = {}
        self.durable: dict[Path, bytes | bytearray] = {}
        self.stamps: dict[Path, int] = {}
        self.locks: dict[Path, MemoryLock] = {}
        self.full = False
        self.on_replace: Callable[[SimulatedProcess, Path, bytes], None] = lambda *_: None
        self.on_append: Callable[[SimulatedProcess, Path, bytes], None] = lambda *_: None
        self._versions = 0

    def put(self, path: Path, content: bytes | bytearray) -> None:
        """Write content to the page cache."""
        self._versions += 1
        self.cached[path] = content
        self.stamps[path] = self._versions

    def extend(self, path: Path, content: bytes) -> None:
        """Append content in the page cache; files that grow are not copied."""
        present = self.cached.get(path, b"")
        if not isinstance(present, bytearray):
            present = bytearray(present)
        present += content
        self.put(path, present)

    def sync(self, path: Path) -> None:
        """Make the content of a file that grows durable."""
        content, durable = self.cached[path], self.durable.get(path)
        if isinstance(durable, bytearray):
            durable += content[len(durable) :]
        else:
            self.durable[path] = bytearray(content)

    def lose_power(self) -> None:
        """Drop unsynced data, except possibly a part of an append."""
        for path, content in list(self.cached.items()):
            durable = self.durable.get(path)
            if durable is not None and content.startswith(durable) and len(content) > len(durable):
                self.durable[path] = content[: self.chance.randint(len(durable), len(content))]
        self.cached.clear()
        self.stamps.clear()
        self.durable = {path: bytes(content) for path, content in self.durable.items()}
        for path, content in self.durable.items():
            self.put(path, content)


class ProcessFiles(DurableFiles):
    """The disk of one process, with the steps of ``base/durable_files.py``."""

    def __init__(self, disk: MemoryDisk, process: SimulatedProcess) -> None:
        self._disk = disk
        self._process = process

    def read(self, path: Path, *, max_bytes: int) -> bytes:
        content = self._content(path)
        assert len(content) <= max_bytes
        return bytes(content)

    def stamp(self, path: Path) -> FileStamp | None:
        if path not in self._disk.cached:
            return None
        return self._disk.stamps[path], 0, len(self._disk.cached[path])

    def blocks_from_end(self, path: Path) -> Generator[bytes]:
        content = self._content(path)
        for end in range(len(content), 0, -BLOCK_BYTES):
            yield bytes(content[max(0, end - BLOCK_BYTES) : end])

    def replace(self, path: Path, content: bytes) -> None:
        disk, process = self._disk, self._process
        temporary = path.with_name(f".{path.name}.{disk.chance.randrange(10**8):08d}.new")
        process.step()
        self._check_room(path)
        disk.put(temporary, content[: len(content) // 2])
        process.step()
        disk.put(temporary, content)
        process.step()
        disk.durable[temporary] = content
        process.step()
        disk.put(path, disk.cached.pop(temporary))
        disk.on_replace(process, path, content)
        process.step()
        disk.durable[path] = content
        disk.durable.pop(temporary, None)
        process.step()

    def append(self, path: Path, content: bytes) -> None:
        disk, process = self._disk, self._process
        process.step()
        self._check_room(path)
        size = disk.chance.randint(0, len(content))
        try:
            process.step()
        except ProcessKilled:
            disk.extend(path, content[:size])
            raise
        disk.extend(path, content)
        disk.on_append(process, path, content)
        process.step()
        disk.sync(path)
        process.step()

    def remove_leftovers(self, path: Path) -> None:
        self._process.step()
        for place in (self._disk.cached, self._disk.durable):
            for name in [
                name
                for name in place
                if name.name.startswith(f".{path.name}.") and name.suffix == ".new"
            ]:
                del place[name]

    def lock(self, path: Path, /, *, command: str, now: float) -> "MemoryLock":
        """Return a lock; implements ``LockFactory``."""
        return MemoryLock(self._disk, self._process, path, command)

    def _content(self, path: Path) -> bytes | bytearray:
        content = self._disk.cached.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return content

    def _check_room(self, path: Path) -> None:
        if self._disk.full:
            raise InventoryError(f"{path} cannot be written: {os.strerror(errno.ENOSPC)}")


class MemoryLock:
    """A lock that is released at the end of its process. Implements ``WriterLock``."""

    def __init__(
        self, disk: MemoryDisk, process: SimulatedProcess, path: Path, command: str
    ) -> None:
        self._disk, self._process, self._path, self.command = disk, process, path, command

    @property
    def is_held(self) -> bool:
        return self._disk.locks.get(self._path) is self

    def acquire(self) -> None:
        self._process.step()
        holder = self._disk.locks.get(self._path)
        if holder is not None:
            raise InventoryLocked(
                f"{self._path} is locked by {holder.command}", holder=holder.command
            )
        self._disk.locks[self._path] = self
        self._process.own(self)

    def release(self) -> None:
        if self.is_held:
            del self._disk.locks[self._path]
            self._process.disown(self)

    def sever(self) -> None:
        if self.is_held:
            del self._disk.locks[self._path]
