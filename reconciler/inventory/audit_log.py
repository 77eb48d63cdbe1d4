"""The audit log: JSON lines, append-only, durable before ``append`` returns.

A line has author, time, commit, cluster, entity and key, the value before and after, and the broker's response. Each
change has a line ``INTENDED`` before it is sent and a line with its outcome, which has the time of the former as
``intendedAt``. An outcome closes every open intent of its pair; ``UNKNOWN`` closes it only if the value was observed,
since otherwise a later observation decides.
"""

import contextlib
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TextIO

import msgspec

from reconciler.base import bounded_json
from reconciler.base.compact_json import lines
from reconciler.base.durable_files import DISK, DurableFiles
from reconciler.base.output_text import json_text
from reconciler.errors import InventoryError
from reconciler.quota.entity import parts
from reconciler.quota.ownership import Pair
from reconciler.quota.results.audit_entry import INTENDED, AuditEntry

_DECODER: Final = msgspec.json.Decoder(AuditEntry)


class FileAuditLog:
    """An audit log in one file. Implements ``ports.AuditLog``.

    Args:
        path: Created with the first entry; private to its owner.
    """

    def __init__(self, path: Path, *, files: DurableFiles = DISK) -> None:
        self._path = path
        self._files = files

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries in order, in one write and one sync.

        A line that a crash truncated is ended first, so that it does not damage the next one.

        Raises:
            InventoryError: The file cannot be written.
        """
        if not entries:
            return
        self._files.append(self._path, b"\n" * self._is_cut_off() + lines(entries))

    def open_intents(self, cluster_id: str, pairs: Collection[Pair]) -> Mapping[Pair, AuditEntry]:
        """Return the intents of pairs without an outcome. Lines of an unknown version are skipped.

        The log is read from its end, as far as these pairs need.

        Raises:
            InventoryError: The file cannot be read.
        """
        with contextlib.closing(self.entries()) as entries:
            return open_among(entries, cluster_id=cluster_id, pairs=pairs)

    def entries(self) -> Generator[AuditEntry]:
        """Yield all entries of a known version, newest first; none if there is no log.

        Raises:
            InventoryError: The file cannot be read.
        """
        with contextlib.closing(self._blocks_from_end()) as blocks:
            yield from _newest_first(blocks)

    def _is_cut_off(self) -> bool:
        with contextlib.closing(self._blocks_from_end()) as blocks:
            return not next(blocks, b"\n").endswith(b"\n")

    def _blocks_from_end(self) -> Generator[bytes]:
        try:
            yield from self._files.blocks_from_end(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InventoryError(f"{self._path} cannot be read: {error.strerror}") from error


class StreamAuditLog:
    """An audit log on a stream, for programs whose output is collected. Implements ``ports.AuditLog``.

    Args:
        stream: Usually standard output; flushed after each ``append``.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def append(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries in order.

        Raises:
            InventoryError: The stream is closed.
        """
        try:
            _ = self._stream.write(json_text(lines(entries).decode("ascii")))
            self._stream.flush()
        except (OSError, ValueError) as error:
            raise InventoryError(f"the audit log cannot be written: {error}") from error

    def open_intents(self, cluster_id: str, pairs: Collection[Pair]) -> None:
        """Return None: a stream cannot be read back."""


def open_among(
    entries: Iterable[AuditEntry], *, cluster_id: str, pairs: Collection[Pair]
) -> dict[Pair, AuditEntry]:
    """Return the newest entry ``INTENDED`` of each given pair of a cluster, unless a later entry closes it.

    Args:
        entries: Newest first; they are read until every pair is decided.
    """
    undecided = {(cluster_id, parts(entity), str(key)): (entity, key) for entity, key in pairs}
    open_intents: dict[Pair, AuditEntry] = {}
    for entry in entries if undecided else ():
        if entry.pair not in undecided:
            continue
        if entry.outcome == INTENDED:
            open_intents[undecided.pop(entry.pair)] = entry
        elif entry.closes_intent:
            del undecided[entry.pair]
        if not undecided:
            break
    return open_intents


def _newest_first(blocks: Iterable[bytes]) -> Iterator[AuditEntry]:
    """Yield the entries of a log, newest first; lines that are no entries of a known version are skipped.

    Args:
        blocks: The bytes of the log in blocks, the last block first.
    """
    parts: list[bytes] = []  # of the line whose beginning is not read yet, the last part first
    for block in blocks:
        beginning, *lines_of_block = block.split(b"\n")
        for line in reversed(lines_of_block):
            yield from _entries_of(line, parts)
            parts = []
        parts.append(beginning)
    yield from _entries_of(b"", parts)


def _entries_of(beginning: bytes, parts: Sequence[bytes]) -> Iterator[AuditEntry]:
    """Yield the entry of a line, if it is one of a known version."""
    with contextlib.suppress(msgspec.ValidationError):
        entry = _entry(b"".join((beginning, *reversed(parts))))
        if entry is not None:
            yield entry


def _entry(line: bytes) -> AuditEntry | None:
    """Return the entry of a line; ``None`` = the line is cut off.

    Raises:
        msgspec.ValidationError: It is not an entry of a known version.
    """
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return _DECODER.decode(line)
    try:  # half of a surrogate pair, or 1e+18 without an exponent, is no error here
        value = bounded_json.parse(
            line, most_bytes=bounded_json.ANSWER, integer=bounded_json.quota_number
        )
    except bounded_json.InvalidJson:
        return None
    try:
        return msgspec.convert(value, AuditEntry)
    except (
        UnicodeEncodeError
    ) as error:  # half of a surrogate pair, where only known words are allowed
        raise msgspec.ValidationError(str(error)) from None
